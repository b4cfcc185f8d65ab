"""The first line of the command `diff`: what is equal, from which step on the curves differ, and the cause of it."""

from __future__ import annotations

from .run_diff import Run, Section

_MAX_CAUSES = 3
_SAME_FIRST = ("code", "variables", "graph", "data")
# a difference in these explains other results; the most specific ones come first
_CAUSES = (
    "data", "variables", "graph", "trainer", "optimizer and schedules", "callbacks", "seeds", "hyperparameters", "packages",
    "code", "exit and length",
)  # fmt: skip
_PLURALS = (
    "optimizer and schedules",
    "callbacks",
    "seeds",
    "hyperparameters",
    "packages",
    "variables",
    "exit and length",
)
_OTHER_ORDER = "but the datapoints differ"


def verdict(sections: list[Section], a: Run, b: Run) -> str:
    """Return one sentence: what is equal, from which step on the curves differ, and what explains it."""
    by_title = {section.title: section for section in sections if not section.unknown}
    curves, data = by_title.get("statistics"), by_title.get("data")
    is_other_order = data is not None and data.note.startswith(_OTHER_ORDER)
    causes = _find_causes(by_title, a, b)
    same = [f"same {name}" for name in _SAME_FIRST if name in by_title and not by_title[name].differences]
    if is_other_order and same:
        same = [f"{part} in another order" if part == "same data" else part for part in same]
    if curves is None:
        words = ["no curves to compare", ": "]
    elif not curves.differences:
        words = ["the curves are equal", ", but "]
        if not causes and "machine" in by_title and by_title["machine"].differences:
            causes = [f"the machine differs ({by_title['machine'].differences[0]})"]
    else:
        at = "" if curves.part_at is None else f" part at step {curves.part_at}"
        words = [f"the curves{at or ' differ'}", ": "]
        causes = causes or ["the manifests do not show why"]
    if len(causes) > _MAX_CAUSES:
        causes[_MAX_CAUSES:] = [f"and {len(causes) - _MAX_CAUSES} more"]
    sentence = "; ".join([", ".join(same), words[0]] if same else words[:1])
    sentence += words[1] + "; ".join(causes) if causes else ""
    return sentence[0].upper() + sentence[1:] + "."


def _find_causes(by_title: dict[str, Section], a: Run, b: Run) -> list[str]:
    """Return the differences that may explain other results, the most specific ones first."""
    causes = []
    for title in _CAUSES:
        section = by_title.get(title)
        if title == "seeds":
            causes += _missing_seeds(by_title, a, b)
        if section is not None and section.differences and not section.is_consequence:
            verb = "differ" if title in _PLURALS else "differs"
            causes.append(section.cause or f"{title} {verb} ({section.differences[0]})")
    curves, schedules = by_title.get("statistics"), by_title.get("optimizer and schedules")
    if curves is not None and (schedules is None or not schedules.differences):
        names = _hyper_parameters(a) | _hyper_parameters(b)
        causes[:0] = [line for line in curves.differences if line.partition(" ")[0] in names][:1]
    return causes


def _missing_seeds(by_title: dict[str, Section], a: Run, b: Run) -> list[str]:
    """Return the cause that random numbers differ because a training had no fixed seed, if the curves differ."""
    curves, data = by_title.get("statistics"), by_title.get("data")
    is_unseeded = any(None in (run.manifest.get("seeds") or {}).values() for run in (a, b))
    if curves is None or not curves.differences or not is_unseeded:
        return []
    remark = data.note.partition(_OTHER_ORDER)[2].partition(":")[0] if data is not None else ""
    return [f"no seed was fixed{f', and the datapoints differ{remark}' if remark else ''}"]


def _hyper_parameters(run: Run) -> set[str]:
    """Return the names of the hyper-parameters that callbacks set."""
    params = [schedule.get("arguments", {}).get("param") or {} for schedule in run.manifest.get("schedules") or ()]
    arguments = [param.get("arguments", {}) for param in params]
    return {str(param.get("readable_name") or param.get("name") or param.get("attrname")) for param in arguments}

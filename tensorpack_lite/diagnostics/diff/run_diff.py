"""Comparison of two training runs by their manifests and statistics, for the command `diff`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

from ...utils.hyperparams import ADDED, INITIALLY, optimizer_names
from .code_diff import compare_code
from .json_differences import describe_pair, differences

# counters, and scalars that depend on the machine and the time
_NOT_COMPARED = re.compile(
    r"^(epoch_num|global_step)$|queue_size$|^Throughput|Memory ?\(|^GPUUtil|(^|[_/ ])(time|seconds|secs)$"
)
_ARGUMENTS = {"alpha": "learning rate", "lr": "learning rate"}  # of operations, in the words of users
_SLOT = re.compile(r"(^|/)beta[12]_power")


@dataclass
class Run:
    """
    The manifest and the statistics of a training.

    Attributes:
        path: the directory or checkpoint.
        manifest: the content of `manifest.json`; of a checkpoint, only the variables.
        rows: the content of `stats.json`; None if there is none.
    """

    path: str
    manifest: dict[str, Any]
    rows: list[dict[str, Any]] | None = None


@dataclass
class Section:
    """
    The comparison of one aspect.

    Attributes:
        title: its name.
        differences: one line each; empty if the training runs are equal.
        note: a remark for the line of an equal section.
        unknown: "A" or "B" if only the other training has this part; "" if it was compared.
        part_at: in the section of statistics: the step from which on the curves differ.
        cause: what the first line says about this section; "" for the first difference.
        is_consequence: whether the differences follow from those of another section, so the first line leaves them out.
    """

    title: str
    differences: list[str] = field(default_factory=list)
    note: str = ""
    unknown: str = ""
    part_at: int | None = None
    cause: str = ""
    is_consequence: bool = False

    @property
    def state(self) -> str:
        """The result in a few words, with the note."""
        word = "differs" if self.differences else f"not known of {self.unknown}" if self.unknown else "same"
        return f"{word} ({self.note})" if self.note else word


def compare(a: Run, b: Run) -> list[Section]:
    """Compare two training runs, in the order of what could explain other results."""
    sections = [
        _compare_exits(a, b),
        _compare_curves(a, b),
        _compare_data(a, b),
        _compare_graphs(a, b),
        _compare_parts("trainer", a, b, _settings),
        _compare_optimization(a, b),
        _compare_parts("hyperparameters", a, b, lambda m: m.get(ADDED)),
        _compare_parts("callbacks", a, b, lambda m: _by_name(m.get("callbacks"))),
        _compare_code(a, b),
        _compare_parts("packages", a, b, _installed),
        _compare_parts("machine", a, b, lambda m: m.get("machine")),
        _compare_parts("seeds", a, b, lambda m: m.get("seeds")),
    ]
    return [section for section in sections if section is not None]


# Sections ------------------------------------------------------------------------------------------------------------
def _compare_parts(title: str, a: Run, b: Run, part: Callable[[dict[str, Any]], Any]) -> Section | None:
    """Compare a part of the manifests; return None if both lack it."""
    part_a, part_b = part(a.manifest), part(b.manifest)
    if not part_a and not part_b:
        return None
    if part_a is None or part_b is None:
        return Section(title, unknown="A" if part_a is None else "B")
    return Section(title, list(differences(part_a, part_b)))


def _compare_exits(a: Run, b: Run) -> Section | None:
    def part(manifest: dict[str, Any]) -> Any:
        ended = dict(manifest.get("exit") or {"outcome": "running, or killed"} if "exit" in manifest else {})
        ended.pop("when", None)
        resumed = [
            {"global_step": resumption.get("global_step"), "changed": sorted(resumption.get("changed") or ())}
            for resumption in manifest.get("resumptions") or ()
            if not resumption.get("exact")
        ]
        length = manifest.get("length") or {}
        return {**ended, **length, "inexact resumptions": resumed} if ended else None

    section = _compare_parts("exit and length", a, b, part)
    ended = a.manifest.get("exit")
    if section is not None and not section.differences and ended:
        section.note = f"{ended.get('outcome')} at step {ended.get('global_step')}"
    return section


def _compare_curves(a: Run, b: Run) -> Section | None:
    if a.rows is None or b.rows is None:
        return None
    rows_a, rows_b = _by_step(a.rows), _by_step(b.rows)
    section = Section("statistics")
    common = sorted(set(rows_a) & set(rows_b))
    for index, step in enumerate(common):
        row_a, row_b = rows_a[step], rows_b[step]
        names = [name for name in row_a if name in row_b and row_a[name] != row_b[name]]
        if names:
            section.part_at = step
            since = f", and are equal up to step {common[index - 1]}" if index else ", the first one in both"
            section.differences.append(f"the curves part at step {step}{since}")
            section.differences += [describe_pair(name, row_a[name], row_b[name]) for name in names]
            section.differences += [line for line in _last_and_best(a, b) if line not in section.differences]
            break
    lonely = sorted(_names_in(rows_a) ^ _names_in(rows_b))
    section.differences += [f"{name}: only in {'A' if name in _names_in(rows_a) else 'B'}" for name in lonely]
    if not section.differences:
        section.note = f"{len(_names_in(rows_a))} scalars at {len(common)} steps"
    return section


def _compare_data(a: Run, b: Run) -> Section | None:
    section = _compare_parts("data", a, b, lambda m: _by_name(m.get("data")))
    files = _compare_parts("files", a, b, lambda m: m.get("files"))
    if section is None:
        return None
    section.differences += [] if files is None else files.differences
    first = [run.manifest.get("first datapoints") for run in (a, b)]
    if not section.differences and all(first) and first[0] != first[1]:
        numbers = [n for s, t in zip(*first) for n, (x, y) in enumerate(zip(s, t), 1) if x != y]
        remark = f"the datapoints differ from number {min(numbers)} on" if numbers else "other datapoints"
        seeds = [run.manifest.get("seeds") or {} for run in (a, b)]
        if seeds[0] == seeds[1] and seeds[0].get("fix_rng_seed") is not None:
            section.differences = [f"{remark}, although the seeds are equal"]
        else:
            section.note = f"but {remark}: other order or random numbers"
    return section


def _compare_graphs(a: Run, b: Run) -> Section | None:
    graph_a, graph_b = a.manifest.get("graph"), b.manifest.get("graph")
    if graph_a is None or graph_b is None:
        return None
    if "fingerprint" not in graph_a or "fingerprint" not in graph_b:  # of a checkpoint
        return Section("variables", list(differences(_all_variables(graph_a), _all_variables(graph_b))))
    variables = differences(graph_a.get("variables") or {}, graph_b.get("variables") or {})
    section = Section("graph", [f"variable {line}" for line in variables])
    if _optimizers(a) != _optimizers(b):
        section.is_consequence = _without_slots(graph_a) == _without_slots(graph_b)
    if graph_a["fingerprint"] != graph_b["fingerprint"]:
        types = Counter(graph_b.get("operations") or {})
        types.subtract(graph_a.get("operations") or {})
        changed = [f"{name} {number:+d}" for name, number in sorted(types.items()) if number]
        section.differences.append(f"operations: {', '.join(changed) or 'the same types, other names or inputs'}")
    return section


def _without_slots(graph: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that an optimizer has not created."""
    variables = graph.get("variables") or {}
    trained = [f"{name}/" for name, kind in variables.items() if kind[2]]
    return {
        name: kind
        for name, kind in variables.items()
        if kind[2] or not (_SLOT.search(name) or name.startswith(tuple(trained)))
    }


def _compare_optimization(a: Run, b: Run) -> Section | None:
    section = _compare_parts("optimizer and schedules", a, b, _optimization)
    names = [", ".join(_optimizers(run)) or "none" for run in (a, b)]
    if section is not None and not section.unknown and names[0] != names[1]:
        section.cause = f"the optimizer differs ({names[0]} in A, {names[1]} in B)"
    elif section is not None and not section.unknown:
        section.cause = ", ".join(dict.fromkeys(_changed_arguments(a, b)))
    return section


def _changed_arguments(a: Run, b: Run) -> Iterator[str]:
    """Yield "learning rate 0.01 -> 0.02" for each argument of the optimizer's operations that differs."""
    updates_a, updates_b = ((run.manifest.get("graph") or {}).get("optimizer") or {} for run in (a, b))
    for operation in updates_a:
        pairs = zip(updates_a[operation], updates_b.get(operation) or ())
        for name, before, after in ((name, x[name], y.get(name)) for x, y in pairs for name in x):
            if before != after:
                values = [str(value).rpartition(INITIALLY) for value in (before, after)]
                same_variable = values[0][0] == values[1][0]
                old, new = (value[2] if same_variable else "".join(value) for value in values)
                yield f"{_ARGUMENTS.get(name, name)} {old} -> {new}"


def _optimizers(run: Run) -> list[str]:
    """Return the names of the optimizers, from their operations."""
    return optimizer_names((run.manifest.get("graph") or {}).get("optimizer") or {})


def _all_variables(graph: dict[str, Any]) -> dict[str, Any]:
    """Return the dtypes and shapes of variables, with those of callbacks, which a checkpoint contains too."""
    variables = {**graph.get("variables", {}), **graph.get("variables of callbacks", {})}
    return {name: kind[:2] for name, kind in variables.items()}


def _compare_code(a: Run, b: Run) -> Section | None:
    section = _compare_parts("code", a, b, lambda m: m.get("code"))
    if section is None or section.unknown:
        return section
    codes = [run.manifest.get("code") or {} for run in (a, b)]
    directories = (str(a.manifest.get("directory") or ""), str(b.manifest.get("directory") or ""))
    section.differences, section.cause, section.note = compare_code(codes[0], codes[1], directories)
    return section


# Parts ---------------------------------------------------------------------------------------------------------------
def _settings(manifest: dict[str, Any]) -> Any:
    settings = manifest.get("settings")
    return None if settings is None else {**settings, "initial values": manifest.get("initial values")}


def _installed(manifest: dict[str, Any]) -> Any:
    packages = manifest.get("packages")
    return None if packages is None else {**packages, **(manifest.get("environment") or {})}


def _optimization(manifest: dict[str, Any]) -> Any:
    graph = manifest.get("graph")
    if graph is None or "schedules" not in manifest:
        return None
    return {**(graph.get("optimizer") or {}), **(_by_name(manifest.get("schedules")) or {})}


def _by_name(objects: list[Any] | None) -> dict[str, Any] | None:
    """Return descriptions of objects by the names of their classes; equal names are numbered."""
    if objects is None:
        return None
    names = [item.get("type", "?") if isinstance(item, dict) else str(item) for item in objects]
    numbers = [names[:i].count(name) + 1 for i, name in enumerate(names)]
    return {name if number == 1 else f"{name}#{number}": item for name, number, item in zip(names, numbers, objects)}


def _by_step(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the scalars of each step, without those that are not compared. NaN is text, because it differs from itself."""
    steps: dict[int, dict[str, Any]] = {}
    for row in rows:
        scalars = {name: value if value == value else "nan" for name, value in row.items()}
        scalars = {name: scalars[name] for name in scalars if not _NOT_COMPARED.search(name)}
        steps.setdefault(row.get("global_step", 0), {}).update(scalars)
    return steps


def _names_in(steps: dict[int, dict[str, Any]]) -> set[str]:
    return {name for scalars in steps.values() for name in scalars}


def _last_and_best(a: Run, b: Run) -> Iterator[str]:
    statistics_a, statistics_b = (run.manifest.get("statistics") or {} for run in (a, b))
    for name in [name for name in statistics_a if name in statistics_b and not _NOT_COMPARED.search(name)]:
        for which in ("last", "min", "max"):
            values = [(scalars[name].get(which) or [None])[0] for scalars in (statistics_a, statistics_b)]
            if values[0] != values[1]:
                yield describe_pair(f"{name}, {which}", *values)

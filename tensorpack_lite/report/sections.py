"""The sections of the page, except for curves, pictures and settings."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from ..utils.direction import better_direction
from ..utils.utils import humanize_time_delta
from .charts import NUM_COLORS
from .groups import Group, Groups
from .html import Html, element, join, table
from .reading import Training
from .scales import format_number
from .stages import stage_table
from .summary import best_values, duration, find_state, headline, last_place

_MAX_NOTES = 100
_MAX_CHARS = 2000
_MAX_SCALARS = 1000
_MAX_DIFFERENCES = 200
_MAX_HEADLINES = 8
_MAX_BEST = 4
_MAX_TAGS, _MAX_TEXTS = 40, 8
_MAX_NAMES = 8  # of training runs with the same remark
_TONES = {"nan": "bad", "hang": "bad", "spike": "warn", "lint": "warn", "speed": "info"}
_RANKS = {kind: rank for rank, kind in enumerate(_TONES)}
_URGENT = ("bad", "warn", "info", "plain")  # tones, the most urgent one first
_TIMES = {
    "step": "Parts of a step, in ms",
    "stages": "Stages of the data",
    "between_epochs": "Callbacks between epochs",
    "parts": "Parts of the rehearsal",
}
_WITH_TIMES = ("speed", "rehearsal")
_LEVEL = re.compile(r"\] (WRN|ERR) ")


class _Callout(NamedTuple):
    """A remark: how urgent it is, its kind, the text, and a place in the code."""

    tone: str
    kind: str
    text: str
    place: str = ""


class Comparison(NamedTuple):
    """
    The differences between two training runs.

    Attributes:
        verdict: one sentence.
        sections: for each aspect: its name, "same", "differs" or another state, and the differences.
    """

    verdict: str
    sections: List[Any]


def draw_head(trainings: List[Training], groups: Groups) -> Html:
    """Return the title and the sentence about the result; for several training runs, tables of groups and of single ones."""
    if len(trainings) == 1:
        badge = element("span", _end(trainings[0]), class_=f"badge {find_state(trainings[0]).tone}")
        title = element("h1", trainings[0].name, " ", badge)
        return element("header", title, element("p", headline(trainings[0]), class_="lead"))
    sentences = []
    for training in trainings if len(trainings) <= _MAX_HEADLINES else []:
        sentences.append(
            element("li", _swatch(groups.of(training)), element("b", training.name), ": ", headline(training))
        )
    title = element("h1", f"{len(trainings)} training runs")
    lead = element("ul", *sentences, class_="lead") if sentences else None
    table_of_groups = draw_groups(groups) if groups.are_several else None
    return element("header", title, table_of_groups, lead, _table_of_trainings(trainings, groups))


def draw_groups(groups: Groups) -> Html:
    """Return a table with a row for each group: the hyper-parameters that differ, and mean and deviation of the best values."""
    head, rows = table_of_groups(groups)
    marked = [[join(_swatch(group), row[0]), *row[1:]] for group, row in zip(groups.members, rows)]
    remark = (
        "Training runs that differ only in their seeds are a group. Best values and curves: mean \u00b1 standard deviation "
        "(n \u2212 1); of curves, at the steps that all runs of the group have."
    )
    return element("div", table(head, marked, class_="numbers"), element("p", element("small", remark)))


def table_of_groups(groups: Groups) -> Tuple[List[str], List[List[str]]]:
    """Return the titles and the cells of the table of groups, as text."""
    bests = [
        [{best.name: best.value for best in best_values(one)} for one in group.trainings] for group in groups.members
    ]
    names = _common_names([values for group in bests for values in group])
    rows = []
    for group, values in zip(groups.members, bests):
        results = [_mean_of([best[name] for best in values if name in best]) for name in names]
        rows.append([group.name, *group.values, _number_of(group), *results])
    return ["group", *groups.columns, "runs", *(f"best {name}" for name in names)], rows


def _mean_of(values: List[float]) -> str:
    if not values:
        return "-"
    mean = format_number(float(np.mean(values)))
    return mean if len(values) == 1 else f"{mean} \u00b1 {format_number(float(np.std(values, ddof=1)), 2)}"


def _number_of(group: Group) -> str:
    """Return the number of training runs, and of those that have not ended well."""
    ends = [_end(training) for training in group.trainings if find_state(training).tone != "good"]
    counts = [f"{ends.count(word)} {word}" for word in dict.fromkeys(ends)]
    return f"{len(group.trainings)} ({', '.join(counts)})" if counts else str(len(group.trainings))


def _swatch(group: Group) -> Html:
    return element("i", class_=f"swatch c{group.number % NUM_COLORS}")


def _common_names(bests: List[Dict[str, Any]]) -> List[str]:
    """Return the most important statistics that all training runs have, except for those that diverged at once."""
    known = [best for best in bests if best] or [{}]
    return [name for name in known[0] if all(name in best for best in known)][:_MAX_BEST]


def draw_notes(trainings: List[Training]) -> Html | None:
    """Return what the training runs say of themselves, what is not finite, and which files are missing or damaged; errors first."""
    names: Dict[_Callout, List[str]] = {}
    for training in trainings:
        for callout in dict.fromkeys(_callouts(training, len(trainings) <= _MAX_HEADLINES)):
            names.setdefault(callout, []).append(training.name)
    drawn = []
    for callout in sorted(names, key=lambda callout: _URGENT.index(callout.tone)):
        several = names[callout][:_MAX_NAMES] + (["..."] if len(names[callout]) > _MAX_NAMES else [])
        drawn.append(_draw_callout(callout, f"{', '.join(several)}: " if len(trainings) > 1 else ""))
    return element("div", *drawn, class_="notes") if drawn else None


def _callouts(training: Training, has_headline: bool) -> Iterator[_Callout]:
    state = find_state(training)
    told = [note["text"] for note in training.notes if note["text"]]
    details = state.details.rstrip(": .")
    is_told = any(text in state.details for text in told) or (has_headline and details in headline(training))
    if state.tone == "bad" and state.details and not is_told:
        yield _Callout("bad", state.word.replace("was ", ""), state.details)
    for sentence in _not_finite(training):
        yield _Callout("bad", "NaN or inf", sentence)
    for note in sorted(training.notes, key=lambda note: _RANKS.get(note["kind"], 9))[:_MAX_NOTES]:
        place = " ".join(str(note[key]) for key in ("rule", "name", "place") if note.get(key))
        yield _Callout(_TONES.get(note["kind"], "info"), note["kind"], note["text"], place)
    if len(training.notes) > _MAX_NOTES:
        more = len(training.notes) - _MAX_NOTES
        yield _Callout("info", "notes", f"{more} more are in notes.jsonl.")
    for problem in training.problems:
        yield _Callout("plain", "file", problem)


def draw_texts(trainings: List[Training]) -> Html | None:
    """Return the texts that the training runs have logged, the newest first."""
    parts = []
    for training in trainings:
        where = f"{training.name}: " if len(trainings) > 1 else ""
        for tag, logged in list(training.texts.items())[:_MAX_TAGS]:
            rows = [(f"step {one.step:,}", _pre(text)) for one in reversed(logged) for text in one.texts[:_MAX_TEXTS]]
            parts.append(element("section", element("h3", where + tag), table([], rows)))
    return join(*parts) if parts else None


def _pre(text: str) -> Html:
    return element("pre", text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}...")


def draw_model(training: Training) -> Html:
    """Return the table that `ModelSummary` has written, and the lines below it."""
    if not training.model:
        return element("p", "ModelSummary() was not among the callbacks.", class_="empty")
    sentences = [element("p", line) for line in training.model["text"]]
    return element("div", table(training.model["head"], training.model["rows"], class_="numbers"), *sentences)


def draw_comparison(comparison: Comparison) -> Html:
    """Return the difference of two training runs: a sentence, and a table whose rows can be opened."""
    rows = []
    for title, state, lines in comparison.sections:
        if not lines:
            rows.append(element("div", element("b", title), element("span", state), class_="row"))
            continue
        shown = "\n".join(str(line)[:_MAX_CHARS] for line in lines[:_MAX_DIFFERENCES])
        opened = element("summary", element("b", title), element("span", state))
        rows.append(element("details", opened, element("pre", shown), class_="row differs"))
    return element("div", element("p", comparison.verdict, class_="verdict"), *rows, class_="comparison")


def draw_scalars(trainings: List[Training]) -> Html:
    """Return a table of all scalars, which is readable without scripts."""
    rows = []
    for training in trainings:
        for name, values in list(training.curves.items())[:_MAX_SCALARS]:
            finite = np.flatnonzero(np.isfinite(values))
            cells: List[Any] = [name] if len(trainings) == 1 else [training.name, name]
            cells += [f"{len(values):,}", format_number(values[0]), format_number(values[-1])]
            for choose in (np.argmin, np.argmax) if len(finite) else ():
                place = finite[choose(values[finite])]
                cells.append(f"{format_number(values[place])} at {training.steps[name][place]:,.0f}")
            rows.append(cells if len(finite) else [*cells, "-", "-"])
    head = ["scalar", "points", "first", "last", "min, at step", "max, at step"]
    return table(head if len(trainings) == 1 else ["training", *head], rows, class_="numbers")


def draw_times(trainings: List[Training]) -> Html | None:
    """Return the times of callbacks and stages, if notes have them."""
    parts = []
    for training in trainings:
        where = f"{training.name}: " if len(trainings) > 1 else ""
        for key, title in _TIMES.items():
            # only the newest one: earlier ones have the same stages
            notes = [note for note in training.notes if note["kind"] in _WITH_TIMES and note.get(key)]
            if notes:
                value = notes[-1][key]
                drawn = _draw_stages(value) if key == "stages" else _records(value)
                parts.append(element("section", element("h3", where + title), drawn))
    return join(*parts) if parts else None


def draw_log(training: Training) -> Html:
    """Return the last lines of the log; warnings and errors are marked."""
    lines = [
        element("span", line[:_MAX_CHARS], class_=found.group(1).lower() if found else None)
        for line in training.log
        for found in [_LEVEL.search(line)]
    ]
    separated = [part for line in lines for part in (line, "\n")]
    return element("pre", *separated, class_="log", tabindex=0)


def _draw_callout(callout: _Callout, where: str) -> Html:
    """Return a box with a remark."""
    lines = f"{where}{callout.text}"[: 2 * _MAX_CHARS].strip().splitlines() or [""]
    small = element("small", callout.place) if callout.place else None
    details = element("pre", "\n".join(lines[1:])) if len(lines) > 1 else None
    content = element("div", element("p", lines[0]), small, details)
    return element("div", element("b", callout.kind), content, class_=f"note {callout.tone}")


def _not_finite(training: Training) -> Iterator[str]:
    """Yield a sentence for the scalars that were not finite from some step on, and for each that was so at times."""
    forever: Dict[float, List[str]] = {}
    for name, values in training.curves.items():
        wrong = np.flatnonzero(~np.isfinite(values))
        if not len(wrong):
            continue
        step = float(training.steps[name][wrong[0]])
        if len(wrong) == len(values) - wrong[0]:
            forever.setdefault(step, []).append(name)
        else:
            yield f"{name} at {len(wrong):,} of {len(values):,} points, first at step {step:,.0f} ({values[wrong[0]]})."
    for step, names in forever.items():
        yield f"{', '.join(names)} from step {step:,.0f} on."


def _end(training: Training) -> str:
    return find_state(training).word.replace("was ", "").replace("is ", "")


def _table_of_trainings(trainings: List[Training], groups: Groups) -> Html:
    bests = [{best.name: best for best in best_values(training)} for training in trainings]
    names = _common_names(bests)
    rows = []
    for training, best in zip(trainings, bests):
        epoch, step = last_place(training)
        seconds = duration(training)
        rows.append(
            [
                join(
                    _swatch(groups.of(training)),
                    element("a", training.name, href=f"#settings-{trainings.index(training)}"),
                ),
                *groups.of(training).values,
                _end(training),
                "-" if epoch is None else f"{epoch:,}",
                "-" if step is None else f"{step:,}",
                "-" if seconds is None else humanize_time_delta(seconds),
                *(_best_of(name, best, bests) for name in names),
            ]
        )
    head = ["training", *groups.columns, "end", "epochs", "steps", "time", *(f"best {name}" for name in names)]
    return table(head, rows, class_="numbers")


def _best_of(name: str, mine: Dict[str, Any], all_of_them: List[Dict[str, Any]]) -> Html | str:
    """Return the best value of one training, in bold type if no other training has a better one."""
    if name not in mine:
        return "-"
    winner = max(better_direction(name) * best[name].value for best in all_of_them if name in best)
    text = format_number(mine[name].value)
    return element("b", text) if better_direction(name) * mine[name].value == winner else text


def _draw_stages(value: Any) -> Html:
    """Return the table that the log has, and rows of another form as they are."""
    try:
        head, rows = stage_table(value)
    except (AttributeError, KeyError, TypeError, ValueError):
        return _records(value)
    return table(head, rows, class_="numbers")


def _records(value: Any) -> Html:
    """Return a list of objects as a table, and anything else as text."""
    if isinstance(value, dict):
        records = {name: row if isinstance(row, dict) else {"value": row} for name, row in value.items()}
        value = [{"name": name, **row} for name, row in records.items()]
    if not (isinstance(value, list) and value and all(isinstance(record, dict) for record in value)):
        return element("pre", str(value)[:_MAX_CHARS])
    columns = list(dict.fromkeys(key for record in value for key in record))
    rows = [[_cell(record.get(key, "")) for key in columns] for record in value]
    return table([str(key).replace("_", " ") for key in columns], rows, class_="numbers")


def _cell(value: Any) -> str:
    return "-" if value is None else format_number(value) if isinstance(value, float) else str(value)[:200]

"""The sections of the page, except for curves, pictures and settings."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from ..utils.direction import better_direction
from ..utils.utils import humanize_time_delta
from .charts import NUM_COLORS
from .html import Html, element, join, table
from .reading import Training
from .scales import format_number
from .stages import stage_table
from .summary import best_values, duration, find_state, headline, last_place

_MAX_NOTES = 100
_MAX_CHARS = 2000
_MAX_SCALARS = 1000
_MAX_DIFFERENCES = 200
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


class Comparison(NamedTuple):
    """
    The differences between two training runs.

    Attributes:
        verdict: one sentence.
        sections: for each aspect: its name, "same", "differs" or another state, and the differences.
    """

    verdict: str
    sections: List[Any]


def draw_head(trainings: List[Training]) -> Html:
    """Return the title and the sentence about the result; for several training runs, a table with a row for each."""
    if len(trainings) == 1:
        badge = element("span", _end(trainings[0]), class_=f"badge {find_state(trainings[0]).tone}")
        title = element("h1", trainings[0].name, " ", badge)
        return element("header", title, element("p", headline(trainings[0]), class_="lead"))
    sentences = []
    for number, training in enumerate(trainings):
        swatch = element("i", class_=f"swatch c{number % NUM_COLORS}")
        sentences.append(element("li", swatch, element("b", training.name), ": ", headline(training)))
    title = element("h1", f"{len(trainings)} training runs")
    return element("header", title, element("ul", *sentences, class_="lead"), _table_of_trainings(trainings))


def draw_notes(trainings: List[Training]) -> Html | None:
    """Return what the training runs say of themselves, what is not finite, and which files are missing or damaged; errors first."""
    callouts: List[Tuple[str, str, str, str]] = []
    for training in trainings:
        where = f"{training.name}: " if len(trainings) > 1 else ""
        state = find_state(training)
        told = [note["text"] for note in training.notes if note["text"]]
        details = state.details.rstrip(": .")
        is_told = any(text in state.details for text in told) or details in headline(training)
        if state.tone == "bad" and state.details and not is_told:
            callouts.append(("bad", state.word.replace("was ", ""), where + state.details, ""))
        callouts += [("bad", "NaN or inf", where + sentence, "") for sentence in _not_finite(training)]
        for note in sorted(training.notes, key=lambda note: _RANKS.get(note["kind"], 9))[:_MAX_NOTES]:
            place = " ".join(str(note[key]) for key in ("rule", "name", "place") if note.get(key))
            tone = _TONES.get(note["kind"], "info")
            callouts.append((tone, note["kind"], f"{where}{note['text']}", place))
        if len(training.notes) > _MAX_NOTES:
            more = len(training.notes) - _MAX_NOTES
            callouts.append(("info", "notes", f"{where}{more} more are in notes.jsonl.", ""))
        callouts += [("plain", "file", where + problem, "") for problem in training.problems]
    callouts.sort(key=lambda callout: _URGENT.index(callout[0]))
    return element("div", *(_callout(*callout) for callout in callouts), class_="notes") if callouts else None


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


def _callout(tone: str, kind: str, text: str, place: str) -> Html:
    """Return a box with a remark."""
    lines = text[: 2 * _MAX_CHARS].strip().splitlines() or [""]
    small = element("small", place) if place else None
    details = element("pre", "\n".join(lines[1:])) if len(lines) > 1 else None
    content = element("div", element("p", lines[0]), small, details)
    return element("div", element("b", kind), content, class_=f"note {tone}")


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


def _table_of_trainings(trainings: List[Training]) -> Html:
    bests = [{best.name: best for best in best_values(training)} for training in trainings]
    known = [best for best in bests if best] or [{}]  # a training that diverged at once has none
    names = [name for name in known[0] if all(name in best for best in known)][:4]
    rows = []
    for training, best in zip(trainings, bests):
        epoch, step = last_place(training)
        seconds = duration(training)
        rows.append(
            [
                element("a", training.name, href=f"#settings-{trainings.index(training)}"),
                _end(training),
                "-" if epoch is None else f"{epoch:,}",
                "-" if step is None else f"{step:,}",
                "-" if seconds is None else humanize_time_delta(seconds),
                *(_best_of(name, best, bests) for name in names),
            ]
        )
    head = ["training", "end", "epochs", "steps", "time", *(f"best {name}" for name in names)]
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

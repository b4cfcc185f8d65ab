"""Reader of the files in the directory of a training, of which any may be missing or damaged."""

from __future__ import annotations

import glob
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Callable, Dict, List, TypeVar

import numpy as np

from ..utils.errors import DamagedFileError
from ..utils.json_rows import read_json_rows, with_numbers
from ..utils.manifest_file import FILENAME as MANIFEST
from ..utils.manifest_file import read_manifest
from ..utils.notes import read_notes
from ..utils.npz import read_npz
from ..utils.training_lock import TrainingLock
from .curves import collect_curves
from .events import LoggedImage, LoggedText, read_logged
from .samples import sample_paths

NUM_LOG_LINES = 100
_MODEL = "model.json"
_MAX_LOG_BYTES = 1 << 18
_TIME_OF_A_LINE = re.compile(r"\[(\d\d)(\d\d) (\d\d:\d\d:\d\d)[\] ]")
_NOT_OF_THE_TRAINING = (".html", ".lock", ".tmp")
_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass
class Training:
    """
    The content of the directory of a training.

    Attributes:
        directory: its path, as given.
        name: the last part of the path.
        manifest: the content of `manifest.json`; empty if there is none.
        rows: the content of `stats.json`.
        steps, curves: of each scalar, the steps and the values: float64 [N].
        notes: the content of `notes.jsonl`.
        images, texts: those in the event files, by tag.
        samples: the arrays of each file in `samples/`, by the name of the file.
        model: the content of `model.json`, which `ModelSummary` writes; empty if there is none.
        log: the last lines of `log.log`.
        is_running: whether a process trains there now.
        last_sign: the time of the last line of the log, in seconds since 1970; None if it is unknown.
        problems: what is missing or damaged, one sentence each.
    """

    directory: str
    name: str
    manifest: Dict[str, Any] = field(default_factory=dict)
    rows: List[Dict[str, Any]] = field(default_factory=list)
    steps: Dict[str, np.ndarray] = field(default_factory=dict)
    curves: Dict[str, np.ndarray] = field(default_factory=dict)
    notes: List[Dict[str, Any]] = field(default_factory=list)
    images: Dict[str, List[LoggedImage]] = field(default_factory=dict)
    texts: Dict[str, List[LoggedText]] = field(default_factory=dict)
    samples: Dict[str, Dict[str, np.ndarray]] = field(default_factory=dict)
    model: Dict[str, Any] = field(default_factory=dict)
    log: List[str] = field(default_factory=list)
    is_running: bool = False
    last_sign: float | None = None
    problems: List[str] = field(default_factory=list)

    def part(self, name: str) -> Dict[str, Any]:
        """Return a part of the manifest that is a dict; an empty one if it is missing or something else."""
        part = self.manifest.get(name)
        return part if isinstance(part, dict) else {}

    def attempt(self, what: str, read: Callable[[], _T], default: _D) -> _T | _D:
        """Return the result of a function; if it fails, note the problem and return the default."""
        try:
            return read()
        except FileNotFoundError:
            self.problems.append(f"{what} is missing.")
        except Exception as error:  # noqa: BLE001 (damaged files make parsers raise anything)
            self.problems.append(f"{what}: {_first_line(error)}")
        return default


def read_training(directory: str, has_ended: bool = False) -> Training:
    """
    Read the directory of a training. What is missing or damaged is listed in `problems`.

    Args:
        directory: the logger's directory.
        has_ended: True if the caller is the training's own process, at its end.

    Raises:
        NotADirectoryError: there is no such directory.
    """
    if not os.path.isdir(directory):
        raise NotADirectoryError(f"{directory} is not a directory. Expected the logger's directory of a training.")
    training = Training(directory, os.path.basename(os.path.abspath(directory)) or directory)
    attempt = training.attempt
    training.manifest = attempt(MANIFEST, lambda: read_manifest(os.path.join(directory, MANIFEST)), {})
    training.rows = attempt("stats.json", lambda: _read_rows(training), [])
    attempt("stats.json", lambda: _set_curves(training), None)
    training.notes = attempt("notes.jsonl", lambda: _read_notes(directory), [])
    if os.path.exists(os.path.join(directory, _MODEL)):
        training.model = attempt(_MODEL, lambda: _read_model(os.path.join(directory, _MODEL)), {})
    training.log = attempt("log.log", lambda: _read_last_lines(os.path.join(directory, "log.log")), [])
    last_step = max((int(steps[-1]) for steps in training.steps.values()), default=None)
    training.is_running = not has_ended and attempt(
        TrainingLock.FILENAME, lambda: TrainingLock.holder(directory) is not None, False
    )
    _read_events(training, last_step, is_open=has_ended or training.is_running)
    for path in sample_paths(directory):
        arrays = attempt(f"samples/{os.path.basename(path)}", partial(read_npz, path), None)
        if arrays:
            training.samples[os.path.basename(path)[: -len(".npz")]] = arrays
    training.last_sign = _find_last_sign(training)
    return training


def _read_model(path: str) -> dict[str, Any]:
    """Return the texts of `model.json`."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    rows = [[str(cell) for cell in row] for row in content["rows"]]
    return {
        "head": [str(line) for line in content["head"]],
        "rows": rows,
        "text": [str(line) for line in content["text"]],
    }


def _read_notes(directory: str) -> list[dict[str, Any]]:
    notes = [{**note, "kind": str(note["kind"]), "text": str(note["text"])} for note in read_notes(directory)]
    # each start repeats the remarks
    remarks = {note["text"]: note for note in reversed(notes) if note["kind"] == "lint"}
    return [note for note in notes if note["kind"] != "lint" or remarks[note["text"]] is note]


def _read_events(training: Training, last_step: int | None, is_open: bool) -> None:
    """Read the images and texts. While a file is open, its last record may be incomplete; that is not reported."""
    for path in sorted(glob.glob(os.path.join(glob.escape(training.directory), "events.out.tfevents.*"))):
        known = len(training.problems)
        read = partial(read_logged, path, last_step, training.images, training.texts)
        training.attempt(os.path.basename(path), read, None)
        if is_open and "truncated" in "".join(training.problems[known:]):
            training.problems.pop()


def _read_rows(training: Training) -> list[dict[str, Any]]:
    path = os.path.join(training.directory, "stats.json")
    try:
        return read_json_rows(path)
    except DamagedFileError as error:
        rows = _rows_before_the_damage(path)
        shown = f" The {len(rows)} rows before the damage are shown." if rows else ""
        training.problems.append(_first_line(error) + shown)
        return rows


def _rows_before_the_damage(path: str) -> list[dict[str, Any]]:
    """Return the complete objects at the beginning of a damaged array of objects."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read().lstrip().lstrip("[")
    rows, decoder = [], json.JSONDecoder()
    with suppress(ValueError):  # at the damage, or at the end
        while True:
            text = text.lstrip(", \n")
            row, end = decoder.raw_decode(text)
            rows.append(row)
            text = text[end:]
    return [with_numbers(row) for row in rows if isinstance(row, dict)]


def _set_curves(training: Training) -> None:
    curves, wrong = collect_curves(training.rows)
    for name, (step, value) in wrong.items():
        shown = repr(str(value)[:80])
        training.problems.append(f"stats.json: '{name}' is not a number at step {step}, but {shown}.")
    for name, points in curves.items():
        try:
            both = np.array(points, dtype=np.float64)
        except OverflowError:  # integers beyond float64
            both = np.array([[_as_float(number) for number in point] for point in points])
        both = both[np.isfinite(both[:, 0])]
        if len(both):
            training.steps[name], training.curves[name] = both[:, 0], both[:, 1]


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _read_last_lines(path: str) -> list[str]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MAX_LOG_BYTES))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return lines[-NUM_LOG_LINES:]


def _find_last_sign(training: Training) -> float | None:
    """Return the time of the last line of the log; without one, that of the newest file, which a copy changes."""
    started = parse_time(training.manifest.get("started"))
    stamps = [found.groups() for found in map(_TIME_OF_A_LINE.match, training.log) if found]
    if started is not None and stamps:
        month, day, clock = stamps[-1]
        begin = str(training.manifest["started"])
        for year in (int(begin[:4]), int(begin[:4]) + 1):  # the log has no year
            last = parse_time(f"{year}-{month}-{day}T{clock}{begin[19:]}")
            if last is not None and last >= started - 1:
                return last
    paths = glob.glob(os.path.join(glob.escape(training.directory), "*.*"))
    changes = [os.path.getmtime(path) for path in paths if not path.endswith(_NOT_OF_THE_TRAINING)]
    return min(max(changes), time.time()) if changes else None


def parse_time(text: Any) -> float | None:
    """Return a time of the manifest in seconds since 1970; None if it cannot be read."""
    try:
        return datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, OverflowError):
        return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

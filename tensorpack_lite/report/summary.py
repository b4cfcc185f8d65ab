"""The sentences and values that tell what a training is and how it went."""

from __future__ import annotations

import math
import os
import re
import time
from typing import Dict, List, NamedTuple, Tuple

import numpy as np

from ..utils.direction import better_direction
from ..utils.utils import humanize_time_delta
from .curves import statistic_of
from .reading import Training, parse_time
from .scales import format_number

_VALIDATION = re.compile(r"^(val|validation|test|eval)([-_/]|$)", re.I)
_LOSS = re.compile("loss|cost|entropy", re.I)
_TOTAL = re.compile("total|^(loss|cost)$", re.I)
_OF_THE_MACHINE = re.compile(r"queue_size|^Throughput|Memory|GPUUtil|(^|[_/ ])(time|seconds|secs)$")
_NUM_BEST = 3
_MAX_ERROR = 160  # characters of an error in the headline


class State(NamedTuple):
    """
    The ways in which a training can end, as the report shows them.

    Attributes:
        word: e.g. "finished".
        tone: "good", "bad" or "neutral".
        details: the error, or another remark; may be empty.
    """

    word: str
    tone: str
    details: str


class Best(NamedTuple):
    """
    The best value of a scalar.

    Attributes:
        name: the scalar.
        value: the value.
        step, epoch: when; the epoch is None if it is unknown.
    """

    name: str
    value: float
    step: int
    epoch: int | None


_STATES = {
    "finished": ("finished", "good"),
    "stopped": ("stopped early", "good"),
    "interrupted": ("was interrupted", "neutral"),
    "preempted": ("was preempted", "neutral"),
    "failed": ("failed", "bad"),
}


def find_state(training: Training) -> State:
    """Return how a training ended. One whose loss is not finite at its end has diverged."""
    state = _end_of(training)
    step = _diverged_at(training)
    return state if step is None else State("diverged", "bad", state.details)


def _diverged_at(training: Training) -> int | None:
    """Return the first step from which on a loss was never finite again; None if all are finite at their ends."""
    steps = []
    for name, values in training.curves.items():
        finite = np.flatnonzero(np.isfinite(values))
        first = finite[-1] + 1 if len(finite) else 0
        if is_loss(name) and first < len(values):
            steps.append(int(training.steps[name][first]))
    return min(steps, default=None)


def _end_of(training: Training) -> State:
    ended = training.part("exit")
    if training.is_running:
        return State("is running", "neutral", "")
    if ended:
        word, tone = _STATES.get(str(ended.get("outcome")), ("ended", "neutral"))
        return State(word, tone, str(ended.get("error") or ""))
    if training.manifest:
        details = "No end was recorded: the process was killed, or the machine failed."
        return State("was killed", "bad", details)
    return State("has an unknown end", "neutral", "")


def headline(training: Training) -> str:
    """Return the first sentences of the report: what ran, how it ended, how long it took, and the best values."""
    script = os.path.basename(str(training.part("code").get("script") or "")) or training.name
    state, seconds, diverged = _end_of(training), duration(training), _diverged_at(training)
    epoch, step = last_place(training)
    is_complete = state.word == "finished"
    is_last_row = not training.part("exit")  # rows are written after their epochs
    words = [f"{script} {state.word}"]
    if epoch is not None and step is not None:
        words.append(f"{'after' if is_complete or is_last_row else 'in'} epoch {epoch:,} ({step:,} steps)")
    if seconds is not None:
        words.append(f"{'in' if is_complete else 'after'} {humanize_time_delta(seconds)}")
    sentence = " ".join(words).replace(") after", "), after")
    if diverged is not None:
        sentence += f", and diverged: its loss is not finite from step {diverged:,} on"
    error = _shortened(state.details) if state.word == "failed" else ""
    sentence = f"{sentence}: {error}".rstrip(": .") + "."
    bests = []
    for best in best_values(training)[:_NUM_BEST]:
        at = f"step {best.step:,}" if best.epoch is None else f"epoch {best.epoch:,}"
        bests.append(f"{best.name} {format_number(best.value)} ({at})")
    return f"{sentence} Best: {', '.join(bests)}." if bests else sentence


def _shortened(text: str) -> str:
    """Return a short error as it is; of a long one, the first sentence, or its type. All of it is in a box below."""
    line = text.partition("\n")[0]
    first = line if len(line) <= _MAX_ERROR else re.split(r"(?<=[.!?]) (?=[A-Z])", line)[0]
    return first if len(first) <= _MAX_ERROR else first.partition(":")[0][:_MAX_ERROR]


def best_values(training: Training) -> List[Best]:
    """
    Return the best values of the scalars whose names say what is better, validation first.

    Of a training that has diverged, only the values before that count. If a training has several losses and none is their
    total, as in a GAN, a smaller loss need not be better, and only statistics of validation have a best value.
    """
    directions = better_directions(training)
    diverged = _diverged_at(training)
    counters = [(row.get("global_step"), row.get("epoch_num")) for row in training.rows]
    epochs = {step: epoch for step, epoch in counters if isinstance(step, int) and isinstance(epoch, int)}
    found: List[Tuple[bool, int, int, Best]] = []
    for name, values in training.curves.items():
        better = directions[name]
        counts = np.isfinite(values) & (training.steps[name] < (np.inf if diverged is None else diverged))
        finite = np.flatnonzero(counts)
        if better and len(finite):
            place = finite[np.argmax(better * values[finite])]
            step = int(training.steps[name][place])
            best = Best(name, float(values[place]), step, epochs.get(step))
            found.append((not is_validation(name), -better, len(found), best))
    return [entry[-1] for entry in sorted(found)]


def better_directions(training: Training) -> Dict[str, int]:
    """Return `better_direction` of each scalar, but 0 in training if it has several losses and none is their total, as in a GAN."""
    is_total_missing = _has_several_losses(training)
    return {
        name: 0 if is_total_missing and not is_validation(name) else better_direction(name) for name in training.curves
    }


def _has_several_losses(training: Training) -> bool:
    """Return whether the training part has several losses, none of which is their total."""
    losses = {statistic_of(name) for name in training.curves if is_loss(name) and not is_validation(name)}
    return len(losses) > 1 and not any(_TOTAL.search(name) for name in losses)


def is_validation(name: str) -> bool:
    """Return whether a scalar is of validation, by its name."""
    return bool(_VALIDATION.search(name))


def is_loss(name: str) -> bool:
    """Return whether a scalar is a loss, by its name."""
    return bool(_LOSS.search(statistic_of(name))) and better_direction(name) < 0


def is_of_the_machine(name: str) -> bool:
    """Return whether a scalar is about speed or memory, by its name."""
    return bool(_OF_THE_MACHINE.search(name))


def duration(training: Training) -> float | None:
    """Return the seconds from the first start to the end, or to the last sign of life; None if unknown."""
    started = parse_time(training.manifest.get("started"))
    last = parse_time(training.part("exit").get("when"))
    if training.is_running:
        last = time.time()
    last = training.last_sign if last is None else last
    if started is None or last is None or not math.isfinite(last - started):
        return None
    return max(0.0, last - started)


def last_place(training: Training) -> tuple[int | None, int | None]:
    """Return the last epoch and step that are known."""
    for place in [training.part("exit"), *training.rows[-1:]]:
        epoch, step = place.get("epoch", place.get("epoch_num")), place.get("global_step")
        if isinstance(epoch, int) and isinstance(step, int):
            return epoch, step
    return None, None

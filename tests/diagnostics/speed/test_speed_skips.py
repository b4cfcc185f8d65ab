"""Tests for steps that `Speed` only counts, with a clock and steps that are made up."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from tensorpack_lite.diagnostics.speed import speed
from tensorpack_lite.diagnostics.speed.speed import Speed
from tensorpack_lite.loop import session
from tensorpack_lite.loop.session import HookedSession

US = 1000  # nanoseconds


class Session(HookedSession):
    """Records runs like its base class, but runs nothing."""

    def __init__(self, clock):
        self._clock, self._times, self._untimed = clock, None, deque(maxlen=0)

    def run(self, duration):
        started, self._clock.now = self._clock.now, self._clock.now + duration
        if self._times is None:
            self._untimed.append("step")
        else:
            self._times.append((started + 1, self._clock.now - 1, "step"))


class Source:
    """An input for which runs of more than half a millisecond wait for 95 % of their time."""

    def _waited(self, runs):
        durations = runs.ended - runs.started
        return np.where(durations > 500 * US, 0.95 * durations, 0.0)

    def _count_runs(self, steps, since):
        pass

    def meters(self):
        return []


class Training:
    """A training with `Speed`, which is also its trainer."""

    is_chief, epoch_seconds = False, ()
    now = 10**9  # the time

    def __init__(self, monkeypatch):
        monkeypatch.setattr(speed, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(speed, "judge", self.judge)
        self.hooked_sess, self.source, self.facts = Session(self), Source(), []
        self.callback = Speed()
        self.callback.trainer = self
        self.callback._before_train()

    def find_callbacks(self, kind):
        return [self]

    def judge(self, facts):
        self.facts.append(facts)
        return speed.Verdict(speed.VARIES, "")

    def run_epoch(self, num_steps, duration_of):
        """Run steps whose durations are given in microseconds. Return their time and waiting time in seconds."""
        self.callback._before_epoch()
        durations = np.array([duration_of(number) for number in range(num_steps)], float)
        for duration in durations:
            self.hooked_sess.run(int(duration * US))
            self.callback._trigger_step()
        self.callback._after_epoch()
        self.callback._trigger_epoch()
        return durations.sum() / 1e6, 0.95 * durations[durations > 500].sum() / 1e6


@pytest.fixture
def training(monkeypatch):
    """A training."""
    return Training(monkeypatch)


@pytest.mark.parametrize(
    ("num_steps", "duration_of"),
    [
        (5000, lambda number: 50),
        (5000, lambda number: 1000 if number < 1000 else 50),
        (5000, lambda number: 1000 if number < 100 else 50),
        (20000, lambda number: 1000 if number < 1000 else 50),
        (81920, lambda number: 200_000 if number % 4096 == 2000 else 50),
    ],
    ids=[
        "steady",
        "a fifth is slow",
        "two per cent are slow",
        "five per cent are slow",
        "stalls at one distance",
    ],
)
def test_the_mean_step_is_that_of_all_steps(training, num_steps, duration_of):
    """Slow steps, which are always measured, count no more than those that were skipped; a stall in a skip is found."""
    seconds = waiting = num_epochs = 0
    while not training.facts:
        one = training.run_epoch(num_steps, duration_of)
        seconds, waiting, num_epochs = seconds + one[0], waiting + one[1], num_epochs + 1
    division = training.facts[0].division
    assert seconds / num_epochs / num_steps == pytest.approx(division.total, rel=0.03)
    assert waiting / seconds == pytest.approx(division.waiting / division.total, abs=0.03)


def test_most_steady_steps_are_skipped(training):
    """Three of four steps are skipped if all take equally long."""
    pauses, pause = [], training.hooked_sess.pause_times
    training.hooked_sess.pause_times = lambda: pauses.append(pause())
    training.run_epoch(40960, lambda number: 50)
    assert 10 == len(pauses)


def test_a_wrapper_that_leaves_out_the_end_of_an_epoch(training):
    """If a wrapper calls `Speed` no more in the middle of a skip, nothing fails, and no memory grows."""
    callback, runs = training.callback, training.hooked_sess
    callback._before_epoch()
    for _ in range(1100):
        runs.run(50 * US)
        callback._trigger_step()
    assert callback._num_to_skip
    for _ in range(2 * session._MAX_UNTIMED):
        runs.run(50 * US)
    assert session._MAX_UNTIMED == len(runs._untimed)
    callback._before_epoch()
    assert not callback._num_to_skip
    assert [] == list(runs._untimed)

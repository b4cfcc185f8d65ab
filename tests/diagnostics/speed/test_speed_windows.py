"""Tests for the windows in which `Speed` measures, with a clock and runs that are made up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.speed import speed_window
from tensorpack_lite.diagnostics.speed.speed_window import SpeedWindow

MS = 10**6  # nanoseconds


class Source:
    """An input that knows nothing."""

    flow = SimpleNamespace(meters=list)


class Training:
    """Runs that a window of a second observes until it ends."""

    now = 10**9  # the time

    def __init__(self, monkeypatch):
        monkeypatch.setattr(speed_window, "perf_counter_ns", lambda: self.now)
        self.loop, self.has_ended, self.num_runs = SimpleNamespace(local_step=-1), False, 0
        self.window = SpeedWindow(Source(), self.loop, 1.0, self.end)

    def end(self):
        self.has_ended = True

    def step(self, *runs, outside=1):
        """Run a step, with runs of some milliseconds, and another time after each."""
        self.loop.local_step += 1
        for duration in runs:
            if not self.has_ended:
                self.num_runs += 1
                self.window.begin_run(tf.no_op)
            self.now += duration * MS
            if not self.has_ended:
                self.window.end_run(tf.no_op, True)
            self.now += outside * MS

    def division(self):
        """Return how long the mean step runs and does not run, in milliseconds."""
        division = self.window.facts(0.0, (), None).division
        return [pytest.approx(1e3 * division.run), pytest.approx(1e3 * division.outside)]


@pytest.fixture
def training(monkeypatch):
    """A training."""
    return Training(monkeypatch)


def test_short_steps(training):
    """A window ends after its time."""
    for _ in range(600):
        training.step(3)
    assert training.has_ended
    assert 250 == training.window.num_steps
    assert training.window.is_sufficient
    assert [3, 1] == training.division()


@pytest.mark.parametrize(("run", "num"), [(9, 200), (99, 50), (5999, 1)])
def test_slow_steps(training, run, num):
    """A window with few steps is longer, up to five times."""
    for _ in range(300):
        training.step(run)
    assert num == training.window.num_steps
    assert [run, 1] == training.division()


def test_several_epochs(training):
    """The time between two epochs does not count."""
    for _ in range(100):
        for _ in range(30):
            training.step(3)
        if training.has_ended:
            break
        training.window.pause()
        training.now += 10**12
        training.loop.local_step = -1
    assert 250 <= training.window.num_steps < 280
    assert [3, 1] == training.division()


def test_the_end_of_training(training):
    """A window that is paused is sufficient if it has its time, even with few steps."""
    for num in range(1, 21):
        training.step(149)
        training.window.pause()
        assert (num >= 7) == training.window.is_sufficient
    assert 20 == training.window.num_steps


def test_steps_of_several_runs(training):
    """A window ends between two steps, not between two runs of a step."""
    for _ in range(600):
        training.step(3, 2)
    assert training.has_ended
    assert 1 == training.num_runs % 2  # the one that it ended before
    assert [5, 2] == training.division()


def test_a_run_that_fails(training):
    """A run that fails does not count, and its time belongs to the step."""
    training.step(3)
    training.loop.local_step += 1
    training.window.begin_run(tf.no_op)
    training.now += 50 * MS
    training.window.end_run(tf.no_op, False)
    training.step(3)
    training.window.pause()
    assert 2 == training.window.num_steps
    assert [3, 26] == training.division()

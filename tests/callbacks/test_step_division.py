"""Tests for the division of step times, on times that are made up."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks.step_division import Steps
from tensorpack_lite.loop.session import RunTimes

MS = 1_000_000


def make(num, wait, run=2, before=1, trigger=3, rest=1, is_overlapping=False, known=True):
    """Steps in milliseconds: `rest`, then before_run, waiting and the rest of the run, trigger_step."""
    ends, runs, waits = [], [], []
    now = 0
    for number in range(num):
        waited = wait(number)
        started = now + (rest + before) * MS
        ended = started + int((waited + run) * MS)
        now = ended + trigger * MS
        runs.append((started, ended, None))
        ends.append(now)
        waits.append(waited * MS)
    result = Steps(is_overlapping)
    result.set_end(0)
    result.add(ends, RunTimes.of(runs), np.array(waits, float) if known else None)
    return result


class TestDivision:
    def test_the_parts_of_a_step(self):
        """A step consists of waiting, the run without it, and the time outside of the run."""
        division = make(10, lambda k: 4).division()
        assert [0.004, 0.002, 0.005] == pytest.approx(list(division))
        assert 0.011 == pytest.approx(division.total)
        assert division.waits

    def test_a_fed_input(self):
        """With FeedInput, waiting is part of before_run."""
        division = make(10, lambda k: 1, run=1, before=3).division(is_fed=True)
        assert [0.001, 0.002, 0.006] == pytest.approx(list(division))

    def test_waiting_that_is_not_known(self):
        """If the input does not know how long runs waited, neither does the division."""
        steps = make(10, lambda k: 4, known=False)
        assert steps.division().waiting is None
        assert not steps.division().waits
        assert (None, False) == steps.graph_interval()

    def test_steps_without_known_waiting_are_left_out(self):
        """Steps whose waiting time is NaN do not count."""
        steps = make(10, lambda k: 4)
        steps.set_end(0)
        steps.add([7 * MS], RunTimes.of([(MS, 6 * MS, None)]), np.array([np.nan]))
        assert 10 == steps.num_steps
        assert 0.11 == pytest.approx(steps.seconds)

    def test_the_first_step_of_an_epoch(self):
        """The time before the first step of an epoch does not count."""
        steps = Steps()
        steps.set_end(100 * MS)
        steps.add([103 * MS, 107 * MS], RunTimes.of([]), np.zeros(0))
        steps.set_end(200 * MS)
        steps.add([201 * MS], RunTimes.of([]), np.zeros(0))
        assert 0.008 == pytest.approx(steps.seconds)

    def test_skipped_steps(self):
        """Skipped steps count like those before them, in the time that they took."""
        steps = make(10, lambda k: 4)
        assert 2.0 == pytest.approx(steps.skip(30, (110 + 660) * MS))
        assert 40 == steps.num_steps
        assert 0.77 == pytest.approx(steps.seconds)
        # 10 steps as measured, and 30 that took twice as long
        assert [0.007, 0.0035, 0.00875] == pytest.approx(list(steps.division()))
        steps.add([772 * MS], RunTimes.of([]), np.zeros(0))
        assert 0.772 == pytest.approx(steps.seconds)

    def test_skipped_steps_after_nothing(self):
        """Steps that are skipped before any step was measured are left out, and so is their time."""
        steps = Steps()
        assert 1.0 == steps.skip(5, 10 * MS)
        assert (0, 0.0) == (steps.num_steps, steps.seconds)

    def test_several_runs_in_a_step(self):
        """The waiting times of all runs of a step are added, and runs outside of steps do not count."""
        steps = Steps()
        steps.set_end(10 * MS)
        runs = [(n * MS, (n + 2) * MS, None) for n in (7, 11, 14, 19)]
        steps.add([20 * MS], RunTimes.of(runs), np.array([1.0, 0.5, 1.5, 1.0]) * MS)
        assert [0.002, 0.002, 0.006] == pytest.approx(list(steps.division()))


class TestGraph:
    def test_steps_that_did_not_wait(self):
        """The time of the graph is the median of the steps that did not wait."""
        steps = make(100, lambda k: 0 if k % 4 == 0 else 8)
        assert (0.007, True) == (pytest.approx(steps.graph_interval()[0]), steps.graph_interval()[1])

    def test_all_steps_waited(self):
        """If all steps waited, it is at most their time without waiting."""
        steps = make(100, lambda k: 8)
        assert (0.007, False) == (pytest.approx(steps.graph_interval()[0]), steps.graph_interval()[1])

    def test_staging(self):
        """With StagingInput a run waits while it computes, so only the time above that of the graph is lost."""
        # the run takes max(wait, 2): here it is made of the wait, and 0 besides
        steps = make(100, lambda k: 0 if k % 2 else 8, run=0, is_overlapping=True)
        assert 0.004 == pytest.approx(steps.division().waiting)
        assert (None, False) == make(100, lambda k: 8, is_overlapping=True).graph_interval()

    def test_quartiles(self):
        """Quartiles are those of blocks of steps, so bursts of data do not count as variation."""
        first, third = make(1000, lambda k: 0 if k % 16 else 16).quartiles()
        assert third < 1.5 * first
        first, third = make(1000, lambda k: 0 if k < 500 else 50).quartiles()
        assert third > 2 * first

"""Tests for the division of step times, on times that are made up."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.diagnostics.speed.step_division import Steps

MS = 1_000_000


def add(steps, runs, end, waits):
    """Add runs (started, ended, number of the step) and their waiting times, in milliseconds."""
    started, ended, numbers = (np.array(column) for column in zip(*runs))
    waits = None if waits is None else np.array(waits) * MS
    steps.add(started * MS, ended * MS, numbers, end * MS, waits)


def make(num, wait, run=2, outside=5, is_overlapping=False, known=True):
    """Steps of a run that waits for some milliseconds, `run` besides, and the time until the next run."""
    runs, waits = [], []
    now = 0
    for number in range(num):
        waits.append(wait(number))
        ended = now + waits[-1] + run
        runs.append((now, ended, number))
        now = ended + outside
    result = Steps(is_overlapping)
    add(result, runs, now, waits if known else None)
    return result


class TestDivision:
    def test_the_parts_of_a_step(self):
        """A step consists of waiting, the run without it, and the time until the next run."""
        division = make(10, lambda k: 4).division()
        assert [0.004, 0.002, 0.005] == pytest.approx(list(division))
        assert 0.011 == pytest.approx(division.total)
        assert division.waits

    def test_waiting_that_is_not_known(self):
        """If the input does not know how long runs waited, neither does the division."""
        steps = make(10, lambda k: 4, known=False)
        assert steps.division().waiting is None
        assert not steps.division().waits
        assert (None, False) == steps.graph_interval()

    def test_the_time_between_epochs(self):
        """The time between the steps of two calls does not count."""
        steps = Steps()
        add(steps, [(100, 101, 0), (103, 105, 1)], 107, [0, 0])
        add(steps, [(200, 201, 0)], 201, [1])
        assert (3, 0.008) == (steps.num_steps, pytest.approx(steps.seconds))
        assert [0.001 / 3, 0.001, 0.004 / 3] == pytest.approx(list(steps.division()))

    def test_several_runs_in_a_step(self):
        """The waiting times of all runs of a step are added."""
        steps = Steps()
        add(steps, [(10, 12, 5), (14, 17, 5), (20, 21, 6)], 30, [0.5, 1.5, 0])
        assert 2 == steps.num_steps
        assert [0.001, 0.002, 0.007] == pytest.approx(list(steps.division()))


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

"""loop/state.py: ranges, counters and the outcome of the loop."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.state import Outcome, StopTraining, TrainLoop


@pytest.fixture
def loop():
    return TrainLoop()


def test_before_config(loop):
    """Before `config`, counters have their initial values and the ranges raise AttributeError."""
    assert (0, 0, -1) == (loop.epoch_num, loop.global_step, loop.local_step)
    for name in ("steps_per_epoch", "starting_epoch", "max_epoch"):
        with pytest.raises(AttributeError, match="known from before_train on"):
            getattr(loop, name)


def test_config(loop):
    """Ranges are converted to integers, and `epoch_num` is the first epoch minus 1."""
    loop.config(10.0, 3, 5.0)
    assert (10, 3, 5, 2) == (loop.steps_per_epoch, loop.starting_epoch, loop.max_epoch, loop.epoch_num)


@pytest.mark.parametrize(
    ("steps", "max_epoch", "match"),
    [
        (-1, 1, "Trainer: steps_per_epoch is too small .expected at least 0, got -1"),
        (1, -1, "Trainer: max_epoch is too small .expected at least 0, got -1"),
        (22.45, 1, "Trainer: steps_per_epoch is not whole .expected an integer, got 22.45.. Divide with //"),
        (1, 0.5, "Trainer: max_epoch is not whole"),
    ],
)
def test_wrong_ranges(loop, steps, max_epoch, match):
    """Ranges that are negative or not whole raise ValueError."""
    with pytest.raises(ValueError, match=match):
        loop.config(steps, 1, max_epoch)


def test_walk(loop):
    """The iterators set the counters; between epochs, local_step keeps its last value."""
    loop.config(2, 5, 6)
    seen = []
    for epoch in loop.epochs():
        seen.append((epoch, loop.epoch_num, loop.local_step))
        for step in loop.steps():
            seen.append((step, loop.local_step))
    assert [(5, 5, -1), (0, 0), (1, 1), (6, 6, 1), (0, 0), (1, 1)] == seen


def test_num_done(loop):
    """A step counts as done when the loop says so, and an interrupted one does not; a step of several runs may be partly done."""
    loop.config(3, 1, 2)
    loop.resume_at(1, 2)
    assert (1, 2) == (loop.local_step, loop.num_done)
    seen = []
    for _ in loop.epochs():
        for _ in loop.steps():
            seen.append((loop.local_step, loop.num_done, loop.is_partly_done))
            loop.global_step += 1
            assert loop.is_partly_done
            loop.num_done += 1
            assert not loop.is_partly_done
        assert 3 == loop.num_done
    assert [(2, 2, False), (0, 0, False), (1, 1, False), (2, 2, False)] == seen


def test_no_epochs(loop):
    """If max_epoch is smaller than starting_epoch, there are no epochs and epoch_num does not change."""
    loop.config(2, 5, 4)
    assert [] == list(loop.epochs())
    assert 4 == loop.epoch_num


def test_no_steps(loop):
    """An epoch may have no steps."""
    loop.config(0, 1, 1)
    assert [[]] == [list(loop.steps()) for _ in loop.epochs()]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.FINISHED),
        (StopTraining("enough"), Outcome.STOPPED),
        (tf.errors.OutOfRangeError(None, None, "no more data"), Outcome.STOPPED),
        (KeyboardInterrupt(), Outcome.INTERRUPTED),
        (SystemExit(143), Outcome.INTERRUPTED),
        (StopIteration("over"), Outcome.FAILED),
        (ValueError("mine"), Outcome.FAILED),
    ],
    ids=str,
)
def test_outcome(loop, error, outcome):
    """The exception that ended training determines the outcome; before the end, both are None."""
    assert (None, None) == (loop.outcome, loop.error)
    assert outcome is loop.end(error)
    assert (outcome, error) == (loop.outcome, loop.error)

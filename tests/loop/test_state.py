"""loop/state.py: ranges and counters."""

from __future__ import annotations

import pytest

from tensorpack_lite.loop.state import TrainLoop


@pytest.fixture
def loop():
    return TrainLoop()


def test_before_config(loop):
    """Counters have their first values; the ranges are not known."""
    assert (0, 0, -1) == (loop.epoch_num, loop.global_step, loop.local_step)
    for name in ("steps_per_epoch", "starting_epoch", "max_epoch"):
        with pytest.raises(AttributeError, match="known from before_train on"):
            getattr(loop, name)


def test_config(loop):
    """Ranges are taken as whole numbers; the epoch is the one before the first."""
    loop.config(10.0, 3, 5.0)
    assert (10, 3, 5, 2) == (loop.steps_per_epoch, loop.starting_epoch, loop.max_epoch, loop.epoch_num)


@pytest.mark.parametrize(("steps", "max_epoch"), [(-1, 1), (1, -1)])
def test_negative(loop, steps, max_epoch):
    """Negative ranges are refused."""
    with pytest.raises(ValueError, match="wanted both >= 0"):
        loop.config(steps, 1, max_epoch)


def test_walk(loop):
    """The counters follow the double loop; local_step is stale between epochs."""
    loop.config(2, 5, 6)
    seen = []
    for epoch in loop.epochs():
        seen.append((epoch, loop.epoch_num, loop.local_step))
        for step in loop.steps():
            seen.append((step, loop.local_step))
    assert [(5, 5, -1), (0, 0), (1, 1), (6, 6, 1), (0, 0), (1, 1)] == seen


def test_no_epochs(loop):
    """A last epoch before the first gives no epochs; the counter stays before the first."""
    loop.config(2, 5, 4)
    assert [] == list(loop.epochs())
    assert 4 == loop.epoch_num


def test_no_steps(loop):
    """Epochs may have no steps."""
    loop.config(0, 1, 1)
    assert [[]] == [list(loop.steps()) for _ in loop.epochs()]

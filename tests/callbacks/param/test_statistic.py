"""StatMonitorParamSetter: a hyper-parameter changes when a statistic stops improving."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.statistic import StatMonitorParamSetter
from tensorpack_lite.loop.callback import Callback


def epochs_of_change(values, threshold=0.0, last_k=3, reverse=False):
    """
    Train with these values of the statistic and a setter that halves a rate; return the epochs after which it
    changed.
    """
    rates = []
    thing = SimpleNamespace(rate=1.0)
    param = ObjAttrParam(thing, "rate")
    setter = StatMonitorParamSetter(param, "error", lambda r: r / 2, threshold, last_k, reverse)

    class Look(Callback):
        def _trigger(self) -> None:
            rates.append(thing.rate)

    run(CountingTrainer(), [PutValues("error", values), setter, Look()], steps=1, epochs=len(values))
    return [epoch + 1 for epoch, (a, b) in enumerate(zip([1.0, *rates], rates)) if a != b]


def test_no_gain_in_the_window():
    """Three values without a decrease change the rate after the third value, and again three values later."""
    assert [3, 6] == epochs_of_change([5, 5, 5, 5, 5, 5, 5])


def test_a_gain_in_the_window():
    """A minimum below the first value of the window is an improvement, even if the last value is not."""
    assert [] == epochs_of_change([5, 4, 6])


def test_the_window_slides():
    """Once the improvement has left the window, the rate changes."""
    assert [5] == epochs_of_change([5, 4, 3, 3, 3])


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, [3]), (0.4, [])])
def test_a_threshold(threshold, expected):
    """An improvement must exceed the threshold."""
    assert expected == epochs_of_change([5.0, 4.75, 4.5], threshold=threshold)


@pytest.mark.parametrize(("values", "expected"), [([1, 2, 3], []), ([3, 2, 1], [3])])
def test_reverse(values, expected):
    """With reverse, an increase is an improvement."""
    assert expected == epochs_of_change(values, reverse=True)


def test_the_window_is_emptied():
    """After a change, earlier values do not count, so two new values are not enough."""
    assert [3] == epochs_of_change([5, 5, 5, 5, 5])


def test_no_new_value(log_lines):
    """A trigger without a new value logs a warning and does not count."""
    assert [4] == epochs_of_change([5, None, 5, 5])
    assert any("'error' has no new value since step 1" in line for line in log_lines)


def test_no_new_value_right_after_a_change():
    """The value that led to a change is not part of the next window."""
    assert [1] == epochs_of_change([5, None, None], last_k=1)


def test_nobody_reports(log_lines):
    """A statistic that a callback may report later is a warning."""
    assert [] == epochs_of_change([None, None])
    assert any("statistic 'error' has not been reported" in line for line in log_lines)

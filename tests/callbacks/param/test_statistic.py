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


@pytest.mark.parametrize(
    ("values", "arguments", "expected"),
    [
        ([5, 5, 5, 5, 5, 5, 5], {}, [3, 6]),  # no decrease in three values: again three values later, not before
        ([5, 4, 6], {}, []),  # a minimum below the first value of the window is an improvement
        ([5, 4, 3, 3, 3], {}, [5]),  # the improvement has left the window
        ([5.0, 4.75, 4.5], {"threshold": 0.5}, [3]),  # an improvement must exceed the threshold
        ([5.0, 4.75, 4.5], {"threshold": 0.4}, []),
        ([1, 2, 3], {"reverse": True}, []),  # an increase is an improvement
        ([3, 2, 1], {"reverse": True}, [3]),
        ([5, None, None], {"last_k": 1}, [1]),  # the value that led to a change is not in the next window
    ],
)
def test_when_it_changes(values, arguments, expected):
    """The rate changes after each window of values without an improvement."""
    assert expected == epochs_of_change(values, **arguments)


def test_no_new_value(log_lines):
    """A trigger without a new value logs a warning and does not count."""
    assert [4] == epochs_of_change([5, None, 5, 5])
    assert any("'error' has no new value since step 1" in line for line in log_lines)

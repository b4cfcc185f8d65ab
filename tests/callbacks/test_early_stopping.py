"""EarlyStopping: training ends when a statistic stops improving."""

from __future__ import annotations

import json
import os

import pytest
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.early_stopping import EarlyStopping
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.trigger import PeriodicTrigger

NAN = float("nan")


def epochs_done(values, **arguments):
    """Return how many epochs were trained, at most one for each value."""
    stop = EarlyStopping("stat", **{"mode": "min", **arguments})
    return run(CountingTrainer(), [PutValues("stat", values), stop], steps=2, epochs=len(values)).global_step // 2


@pytest.mark.parametrize(
    ("values", "arguments", "expected"),
    [
        ([3, 2, 1, 0], {"patience": 1}, 4),  # always better
        ([3, 3, 3, 3], {"patience": 1}, 2),  # the first one without an improvement
        ([3, 4, 5, 2, 9], {"patience": 2}, 3),  # two in a row
        ([3, 4, 2, 3, 1, 2, 3, 4], {"patience": 2}, 7),  # an improvement begins the count anew
        ([1, 2, 3, 3], {"mode": "max", "patience": 1}, 4),  # the end of all epochs comes first
        ([1, 2, 2, 3], {"mode": "max", "patience": 1}, 3),
        ([10, 9.5, 9.2, 9], {"patience": 2, "min_delta": 1}, 3),  # 9.2 is not more than 1 below 10
        (
            [10, 8.5, 8, 7.4, 7],
            {"patience": 2, "min_delta": 1},
            5,
        ),  # 7.4 is more than 1 below 8.5, not below 8
        ([NAN, NAN, 1, 1], {"patience": 2}, 2),
        ([1, NAN, 0.5, 0.5], {"patience": 2}, 4),
    ],
)
def test_when_it_stops(values, arguments, expected):
    """Training stops after `patience` values in a row that do not improve on the best by more than min_delta."""
    assert expected == epochs_done(values, **arguments)


def test_the_last_epoch_is_written(log_dir):
    """The monitors still receive the statistics of the last epoch."""
    run(
        CountingTrainer(),
        [PutValues("stat", [1, 1, 1]), EarlyStopping("stat", "min", patience=1)],
        [JSONWriter()],
        epochs=3,
    )

    with open(os.path.join(log_dir, "stats.json")) as file:
        assert [1, 2] == [row["epoch_num"] for row in json.load(file)]


def test_inside_an_epoch():
    """If it is triggered at steps, training stops after the following step."""
    put = PeriodicTrigger(PutValues("stat", [1] * 20), every_k_steps=2)
    stop = PeriodicTrigger(EarlyStopping("stat", "min", patience=2), every_k_steps=2)

    assert 7 == run(CountingTrainer(), [put, stop], steps=20, epochs=1).global_step


def test_it_says_why(log_lines):
    """The log line names the statistic, the number of values, and the best value with its step."""
    epochs_done([1, 2, 3, 3], patience=2)

    wanted = "EarlyStopping: 'stat' has not improved in its last 2 values (best 1 at step 2)."
    assert [f"Training was stopped by StopTraining: {wanted}"] == [x for x in log_lines if "has not" in x]


def test_it_says_that_it_was_never_a_number(log_lines):
    """If all values were NaN, a log line reports it."""
    epochs_done([NAN, NAN, 1], patience=2)

    assert 1 == len([line for line in log_lines if "(all were NaN)" in line])


def test_the_best():
    """`best` is the step and value of the last improvement, `num_bad` the number of values since then."""
    stop = EarlyStopping("stat", "min", patience=5)
    run(CountingTrainer(), [PutValues("stat", [3, 1, 2]), stop], epochs=3)

    assert ((4, 1.0), 1) == (stop.best, stop.num_bad)


def test_a_missing_value_warns_and_does_not_count(log_lines):
    """A trigger without a new value logs a warning and does not count."""
    assert 4 == epochs_done([None, 1, None, 1], patience=2, strict=False)

    assert [
        "EarlyStopping: statistic 'stat' has not been reported. Nothing has been reported yet.",
        "EarlyStopping: 'stat' has no new value since step 4.",
    ] == [line for line in log_lines if "not been reported" in line or "no new value" in line]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"mode": "auto"}, "mode is unknown .expected 'min' or 'max', got 'auto'"),
        ({"patience": 0}, "patience is too small .expected at least 1, got 0"),
        ({"min_delta": -1.0}, "min_delta is too small .expected at least 0, got -1.0"),
        ({"min_delta": NAN}, "min_delta is too small .expected at least 0, got nan"),
    ],
)
def test_wrong_arguments(arguments, match):
    """Each wrong argument raises an error that names what is expected."""
    with pytest.raises(ValueError, match=match):
        EarlyStopping("stat", **{"mode": "min", **arguments})

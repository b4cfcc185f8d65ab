"""Plain mistakes in arguments raise an error of the library at construction, not one of Python from deep inside."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite import callbacks, dataflow, predict, train
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import optimizer

SOURCE = dataflow.DataFromList([[np.zeros(2)]])

# name -> (call, type of the error, part of its message)
MISTAKES = {
    "FakeData of a number": (lambda: dataflow.FakeData(3), TypeError, "expected a list of shapes, got int"),
    "FakeData of one shape": (
        lambda: dataflow.FakeData([3]),
        TypeError,
        "expected a list of integers, got int",
    ),
    "ConcatData of a number": (
        lambda: dataflow.ConcatData(3),
        TypeError,
        "expected a list of DataFlows, got int",
    ),
    "RandomChooseData of a number": (
        lambda: dataflow.RandomChooseData(3),
        TypeError,
        "expected list or tuple, got int",
    ),
    "RepeatedData of a str": (
        lambda: dataflow.RepeatedData(SOURCE, "x"),
        TypeError,
        "expected a number, got str",
    ),
    "RepeatedData of -2": (
        lambda: dataflow.RepeatedData(SOURCE, -2),
        ValueError,
        "expected at least -1, got -2",
    ),
    "SelectComponent of a number": (
        lambda: dataflow.SelectComponent(SOURCE, 3),
        TypeError,
        "positions or keys, got int",
    ),
    "TestDataSpeed of 0": (
        lambda: dataflow.TestDataSpeed(SOURCE, 0),
        ValueError,
        "expected at least 1, got 0",
    ),
    "a schedule that is a number": (
        lambda: callbacks.ScheduledHyperParamSetter("lr", 3),
        TypeError,
        r"expected pairs \(point, value\) of numbers, got 3",
    ),
    "a schedule of single numbers": (
        lambda: callbacks.ScheduledHyperParamSetter("lr", [(1,)]),
        TypeError,
        r"expected pairs \(point, value\) of numbers, got \[\(1,\)\]",
    ),
    "no function": (
        lambda: callbacks.HyperParamSetterWithFunc("lr", 3),
        TypeError,
        "func has the wrong type .expected a function, got int",
    ),
    "MinSaver of a number": (lambda: callbacks.MinSaver(3), TypeError, "MinSaver: monitor_stat .* got int"),
    "EarlyStopping of a number": (
        lambda: callbacks.EarlyStopping(3),
        TypeError,
        "EarlyStopping: monitor_stat .* got int",
    ),
    "ModelSaver, max_to_keep": (
        lambda: callbacks.ModelSaver("x"),
        TypeError,
        "max_to_keep .*expected a number, got str",
    ),
    "OfflinePredictor of a number": (
        lambda: predict.OfflinePredictor(3),
        TypeError,
        "config has the wrong type .expected PredictConfig, got int",
    ),
    "TrainConfig, steps": (
        lambda: train.TrainConfig(steps_per_epoch="a"),
        TypeError,
        "expected a number, got str",
    ),
    "TrainConfig, -1 steps": (
        lambda: train.TrainConfig(steps_per_epoch=-1),
        ValueError,
        "expected at least 0, got -1",
    ),
    "TrainConfig, max_epoch": (
        lambda: train.TrainConfig(steps_per_epoch=1, max_epoch="a"),
        TypeError,
        "max_epoch .*expected a number, got str",
    ),
    "TrainConfig, starting_epoch": (
        lambda: train.TrainConfig(steps_per_epoch=1, starting_epoch=0),
        ValueError,
        "starting_epoch .*expected at least 1, got 0",
    ),
    "TrainConfig, no callback": (
        lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[3]),
        TypeError,
        "an element of callbacks: expected a Callback, got int",
    ),
    "TrainConfig, data": (
        lambda: train.TrainConfig(steps_per_epoch=1, data=SOURCE),
        TypeError,
        "data: expected an InputSource, got DataFromList",
    ),
    "no optimizer": (
        lambda: optimizer.AccumGradOptimizer(3, 2),
        TypeError,
        r"^AccumGradOptimizer: expected a tf\.train\.Optimizer, got int",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(name):
    """The error says what was expected and what was given."""
    call, kind, text = MISTAKES[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()

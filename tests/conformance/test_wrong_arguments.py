"""Plain mistakes in arguments raise an error of the library at construction, not one of Python from deep inside."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite import callbacks, dataflow, input_source, predict, train
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import optimizer

pytestmark = pytest.mark.law

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
        "expected a list of DataFlows, got int",
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
    "a schedule that is a number": (
        lambda: callbacks.ScheduledHyperParamSetter("lr", 3),
        TypeError,
        r"expected pairs \(point, value\) of numbers, got int",
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
    "MinSaver of a number": (
        lambda: callbacks.MinSaver(3),
        TypeError,
        "MinSaver: the name of the statistic .*expected str, got int",
    ),
    "TopKSaver of a number": (
        lambda: callbacks.TopKSaver(3),
        TypeError,
        "TopKSaver: the name of the statistic .*expected str, got int",
    ),
    "EarlyStopping of a number": (
        lambda: callbacks.EarlyStopping(3),
        TypeError,
        "EarlyStopping: the name of the statistic .*expected str, got int",
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
        "steps_per_epoch: expected an integer, got 'a'",
    ),
    "TrainConfig, -1 steps": (
        lambda: train.TrainConfig(steps_per_epoch=-1),
        ValueError,
        "expected at least 0, got -1",
    ),
    "TrainConfig, max_epoch": (
        lambda: train.TrainConfig(steps_per_epoch=1, max_epoch="a"),
        TypeError,
        "max_epoch: expected an integer, got 'a'",
    ),
    "TrainConfig, steps without end": (
        lambda: train.TrainConfig(steps_per_epoch=float("inf")),
        TypeError,
        "steps_per_epoch: expected an integer, got inf",
    ),
    "TrainConfig, starting_epoch": (
        lambda: train.TrainConfig(steps_per_epoch=1, starting_epoch=-1),
        ValueError,
        "starting_epoch .*expected at least 0, got -1",
    ),
    "TrainConfig, no callback": (
        lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[3]),
        TypeError,
        "an element of callbacks .*expected a Callback of tensorpack_lite, got int",
    ),
    "TrainConfig, None as a callback": (
        lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[None]),
        TypeError,
        "an element of callbacks .*expected a Callback of tensorpack_lite, got NoneType",
    ),
    "TrainConfig, the class of a callback": (
        lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[callbacks.ModelSaver]),
        TypeError,
        r"got the class ModelSaver; write ModelSaver\(\)",
    ),
    "TrainConfig, a callback without a list": (
        lambda: train.TrainConfig(steps_per_epoch=1, callbacks=callbacks.ModelSaver()),
        TypeError,
        r"expected list, got ModelSaver\)\. Write callbacks=\[\.\.\.\]\.",
    ),
    "TrainConfig, the class of a model": (
        lambda: train.TrainConfig(steps_per_epoch=1, model=train.ModelDesc),
        TypeError,
        r"expected ModelDescBase, got the class ModelDesc; write ModelDesc\(\)",
    ),
    "TrainConfig, dataflow of arrays": (
        lambda: train.TrainConfig(steps_per_epoch=1, dataflow=(np.zeros([3, 2]), np.zeros(3))),
        TypeError,
        r"These are arrays, not datapoints: BatchData\(DataFromList\(list\(zip\(X, Y\)\)\), 32\)\.",
    ),
    "TrainConfig, dataflow that is an input": (
        lambda: train.TrainConfig(steps_per_epoch=1, dataflow=input_source.FeedInput(SOURCE)),
        TypeError,
        r"got FeedInput\)\. Use data= for an InputSource\.",
    ),
    "TrainConfig, data": (
        lambda: train.TrainConfig(steps_per_epoch=1, data=SOURCE),
        TypeError,
        "data has the wrong type .expected InputSource, got DataFromList",
    ),
    "no optimizer": (
        lambda: optimizer.AccumGradOptimizer(3, 2),
        TypeError,
        r"^AccumGradOptimizer: expected a tf\.train\.Optimizer, got int",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(name):
    """The error explains what was expected and what was given."""
    call, kind, text = MISTAKES[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


def test_generous_arguments():
    """Numbers in strings, NumPy's numbers, generators and views of dicts are accepted, as int() and list() accept them."""
    config = train.TrainConfig(steps_per_epoch="100", max_epoch=np.float32(5), starting_epoch=np.int64(0))
    assert (100, 5, 0) == (config.steps_per_epoch, config.max_epoch, config.starting_epoch)
    fake = dataflow.FakeData((shape for shape in [[3], [2]]), dtype=["float32", "int32"])
    assert [(3,), (2,)] == fake.shapes
    sources = {"a": SOURCE, "b": dataflow.DataFromList([[1]])}
    assert 2 == len(dataflow.RandomChooseData(sources.values()).df_lists)
    assert 2 == len(dataflow.ConcatData(source for source in sources.values()))
    setter = callbacks.ScheduledHyperParamSetter("lr", ((k, 0.5**k) for k in (2, 1)))
    assert [(1, 0.5), (2, 0.25)] == setter.schedule

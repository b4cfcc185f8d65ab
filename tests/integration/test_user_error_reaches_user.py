"""Errors in data, model, callbacks or files end training with their type and message, and nothing is left running."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.models import Mean, threes

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer

GOOD_STEPS = 3


class Faulty(DataFlow):
    """Yields three good datapoints, then raises an exception or yields a wrong datapoint."""

    def __init__(self, fault, good):
        self.fault, self.good = fault, good

    def __iter__(self):
        for _ in range(GOOD_STEPS):
            yield [self.good]
        if isinstance(self.fault, BaseException):
            raise self.fault
        while True:
            yield self.fault

    def __len__(self):
        return 100


BATCH = np.full([4], 3.0, "float32")
INPUTS = {
    "FeedInput": (FeedInput, BATCH),
    "QueueInput": (QueueInput, BATCH),
    "BatchQueueInput": (lambda df: BatchQueueInput(df, 1), np.float32(3.0)),
    "TFDatasetInput": (TFDatasetInput, BATCH),
}
FAULTS = {
    "exception": (ZeroDivisionError("planted"), ZeroDivisionError, "planted"),
    "exception with other arguments": (
        UnicodeDecodeError("utf8", b"x", 0, 1, "planted"),
        UnicodeDecodeError,
        "planted",
    ),
    "too many components": ([BATCH, BATCH], ValueError, "got 2: "),
    "wrong dtype": ([np.array(["a", "b"])], TypeError, "'x"),
    "wrong shape": ([np.zeros([2, 2, 2], "float32")], ValueError, "'x"),
}


def train(data, callbacks=(), trainer=None, model=None):
    trainer = trainer or SimpleTrainer()
    config = TrainConfig(
        model=model or Mean(),
        data=data,
        callbacks=list(callbacks),
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=10,
        max_epoch=2,
    )
    launch_train_with_config(config, trainer)
    return trainer


@pytest.mark.parametrize("input_name", INPUTS)
@pytest.mark.parametrize("fault_name", FAULTS)
def test_fault_in_training_data(input_name, fault_name):
    """A fault in the data ends training with its exception, after training on the good datapoints."""
    make, good = INPUTS[input_name]
    fault, error, text = FAULTS[fault_name]
    trainer = SimpleTrainer()
    with pytest.raises(error, match=text):
        train(make(Faulty(fault, good)), trainer=trainer)
    assert trainer.global_step <= GOOD_STEPS
    assert trainer.global_step == GOOD_STEPS or not isinstance(fault, Exception)
    assert trainer.hooked_sess.should_stop()


UNUSUAL = [
    KeyboardInterrupt(),
    SystemExit(3),
    StopIteration("planted"),
    MemoryError("planted"),
    RuntimeError("the file is closed"),
    tf.errors.CancelledError(None, None, "planted"),
    tf.errors.AbortedError(None, None, "planted"),
]


@pytest.mark.slow
@pytest.mark.parametrize("input_name", INPUTS)
@pytest.mark.parametrize("error", UNUSUAL, ids=lambda e: type(e).__name__)
def test_unusual_error_in_training_data(input_name, error):
    """Exceptions that queues, sessions and generators use internally are errors if the data raises them."""
    make, good = INPUTS[input_name]
    # as Python's generators have it
    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(expected):
        train(make(Faulty(error, good)))


@pytest.mark.parametrize("input_name", INPUTS)
@pytest.mark.parametrize(
    "end",
    [StopTraining("enough"), tf.errors.OutOfRangeError(None, None, "over")],
    ids=lambda e: type(e).__name__,
)
def test_data_that_stops_training(input_name, end):
    """StopTraining and OutOfRangeError from the data end training without an error."""
    make, good = INPUTS[input_name]
    assert GOOD_STEPS == train(make(Faulty(end, good))).global_step


@pytest.mark.slow
@pytest.mark.parametrize("input_name", ["FeedInput", "QueueInput", "BatchQueueInput", "TFDatasetInput"])
@pytest.mark.parametrize("fault_name", ["exception", "too many components", "wrong dtype", "wrong shape"])
def test_fault_in_inference_data(input_name, fault_name):
    """A fault in the data of InferenceRunner ends training with its exception."""
    make, good = INPUTS[input_name]
    fault, error, text = FAULTS[fault_name]
    source = FeedInput(Faulty(fault, good), infinite=False) if input_name == "FeedInput" else make(Faulty(fault, good))
    runner = InferenceRunner(source, [ScalarStats("cost")])
    trainer = SimpleTrainer()
    with pytest.raises(error, match=text):
        train(FeedInput(threes()), [runner], trainer=trainer)
    assert 10 == trainer.global_step


def test_fault_in_the_model():
    """An exception in the model is raised, and another model can be built afterwards."""

    class Broken(Mean):
        def build_graph(self, x):
            raise ZeroDivisionError("planted")

    with pytest.raises(ZeroDivisionError, match="planted"):
        train(FeedInput(threes()), model=Broken())
    with tf.Graph().as_default():
        assert 20 == train(FeedInput(threes())).global_step

"""FeedfreePredictor: reads datapoints from an InputSource, and can be closed."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.tensor import TensorInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.feedfree import FeedfreePredictor
from tensorpack_lite.tfutils.sessinit import DictRestore

DATA = [[np.float32([i, i])] for i in range(3)]


def double(x):
    """y = w * x; w is 2 when restored."""
    tf.multiply(tf.get_variable("w", initializer=1.0), x, name="y")


def config(**kwargs):
    """Return a configuration that restores w."""
    signature = [TensorSpec([2], tf.float32, "x")]
    return PredictConfig(
        tower_func=double, input_signature=signature, output_names=["y"],
        session_init=DictRestore({"w": 2.0}), **kwargs,
    )  # fmt: skip


def flow():
    """Return a DataFlow of three datapoints."""
    return DataFromList(DATA, shuffle=False)


@pytest.mark.parametrize(
    "make",
    [lambda: QueueInput(flow()), lambda: FeedInput(flow()), lambda: TensorInput(lambda: [tf.zeros([2])], 3)],
    ids=["queue", "feed", "tensor"],
)
def test_every_kind_of_input(make):
    """Each call returns the outputs of the next datapoint."""
    predictor = FeedfreePredictor(config(), make())
    outputs = [predictor()[0].tolist() for _ in range(3)]
    predictor.close()
    is_zero = isinstance(make(), TensorInput)
    assert [[0.0 if is_zero else 2.0 * i] * 2 for i in range(3)] == outputs


def test_the_end_of_the_data():
    """A call raises the StopIteration of an input that ends."""
    predictor = FeedfreePredictor(config(), FeedInput(flow(), infinite=False))
    for _ in range(3):
        predictor()
    with pytest.raises(StopIteration):
        predictor()
    predictor.close()


def test_an_error_of_the_data():
    """A call raises the error of the DataFlow."""

    def broken():
        yield DATA[1]
        raise OSError("the disk is gone")

    predictor = FeedfreePredictor(config(), QueueInput(DataFromGenerator(broken)))
    with pytest.raises(OSError, match="the disk is gone"):
        for _ in range(3):
            predictor()
    predictor.close()


def test_close():
    """close stops the threads and closes the session; a second close does nothing."""
    predictor = FeedfreePredictor(config(), QueueInput(flow()))
    predictor.close()
    predictor.close()
    with pytest.raises(RuntimeError, match="the predictor is closed. Create a new one"):
        predictor()
    with pytest.raises(RuntimeError, match="closed"):
        predictor.sess.run("w:0")


def test_mistakes():
    """Datapoints can neither be passed to a call nor returned by it."""
    with pytest.raises(TypeError, match=r"expected InputSource, got DataFromList\). Wrap it"):
        FeedfreePredictor(config(), flow())
    with pytest.raises(ValueError, match="return_input=True, but the input comes from the graph"):
        FeedfreePredictor(config(return_input=True), FeedInput(flow()))
    predictor = FeedfreePredictor(config(), FeedInput(flow()))
    with pytest.raises(ValueError, match="expected no components, got 1"):
        predictor(DATA[0])
    predictor.close()


@pytest.mark.parametrize("inner", [QueueInput, TFDatasetInput])
def test_staging_outside_the_graph(inner):
    """A predictor over a StagingInput can be called where another graph is the default."""
    predictor = FeedfreePredictor(config(), StagingInput(inner(RepeatedData(flow(), -1))))
    with tf.Graph().as_default():
        outputs = [predictor()[0].tolist() for _ in range(2)]
    predictor.close()
    assert [[0.0, 0.0], [2.0, 2.0]] == outputs

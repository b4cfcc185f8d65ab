"""Laws that every public predictor obeys. The rows are in `predictor_rows.py`."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from conformance.predictor_rows import NO_ROW, ROWS

from tensorpack_lite import predict
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.tfutils.tower.context import get_current_tower_context

pytestmark = pytest.mark.law

ALL = pytest.mark.parametrize("row", ROWS, ids=str)
WEIGHT = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], "float32")
SIGNATURE = [TensorSpec([None, 2], tf.float32, "x"), TensorSpec([None], tf.int32, "n")]


def model(x, n):
    """y = x W * n. `half` is y in half precision, and `training` whether the tower was built for training."""
    weight = tf.get_variable("layer/W", [2, 3], initializer=tf.zeros_initializer())
    y = tf.multiply(tf.matmul(x, weight), tf.cast(n, tf.float32)[:, None], name="y")
    tf.cast(y, tf.float16, name="half")
    is_training = get_current_tower_context().is_training
    tf.fill(tf.shape(n), is_training, name="training")
    return tf.reduce_mean(y, name="cost")


def config(**kwargs):
    """Return a configuration that restores the weight by its name in training."""
    arguments = {"output_names": ["y", "half", "training"], "session_init": DictRestore({"layer/W": WEIGHT})}
    return PredictConfig(tower_func=model, input_signature=SIGNATURE, **{**arguments, **kwargs})


def datapoints(count=3):
    """Return batches of one sample."""
    rng = np.random.RandomState(0)
    return [[rng.uniform(-1, 1, [1, 2]).astype("float32"), np.array([i + 1], "int32")] for i in range(count)]


def oracle(datapoint):
    """Return y of the model, computed with NumPy."""
    x, n = datapoint
    return x @ WEIGHT * n[:, None]


def test_every_public_predictor_has_a_row():
    """Each public name has a row, or a reason in NO_ROW."""
    assert sorted(predict.__all__) == sorted([*(row.name for row in ROWS), *NO_ROW])


@ALL
def test_it_equals_numpy(row):
    """The outputs are those of NumPy, in the order of the datapoints and of output_names, with restored variables."""
    with row.run(config(), datapoints()) as run:
        for datapoint, (y, half, _) in zip(datapoints(), run()):
            np.testing.assert_allclose(oracle(datapoint), y, rtol=1e-5)
            assert (np.float32, np.float16) == (y.dtype, half.dtype)
            np.testing.assert_array_equal(y.astype("float16"), half)


@ALL
def test_it_is_not_training(row):
    """The tower is built for inference."""
    with row.run(config(output_names=["training"]), datapoints(2)) as run:
        assert [[[False]], [[False]]] == [[output.tolist() for output in outputs] for outputs in run()]


@ALL
def test_second_pass(row):
    """A second pass returns the same bits, and datapoints are not changed."""
    given = datapoints()
    kept = copy.deepcopy(given)
    with row.run(config(), given) as run:
        first, second = run(), run()
    for one, other in zip(kept, given):
        np.testing.assert_array_equal(one[0], other[0])
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one[0], other[0])


@ALL
def test_default_graph_is_not_changed(row, fresh_graph):
    """A predictor with its graph adds nothing to the default graph, and leaves no default session."""
    with row.run(config(), datapoints(1)) as run:
        run()
    assert [] == fresh_graph.get_operations()
    assert tf.get_default_session() is None


@ALL
def test_two_predictors(row):
    """A second predictor with other weights does not change the first one."""
    other = config(session_init=DictRestore({"layer/W": 2 * WEIGHT}))
    with row.run(config(), datapoints()) as first, row.run(other, datapoints()) as second:
        for factor, run in ((2, second), (1, first)):
            for datapoint, outputs in zip(datapoints(), run()):
                np.testing.assert_allclose(factor * oracle(datapoint), outputs[0], rtol=1e-5)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name != "DataParallelOfflinePredictor"], ids=str)
def test_return_input(row):
    """return_input returns the datapoint with its outputs, or is an error. (DataParallelOfflinePredictor takes two datapoints.)"""
    asked = config(return_input=True, output_names=["y"])
    if not row.returns_input:
        with pytest.raises(ValueError, match="return_input=True"), row.run(asked, datapoints(1)):
            pass
        return
    with row.run(asked, datapoints()) as run:
        for given, (datapoint, outputs) in zip(datapoints(), run()):
            np.testing.assert_array_equal(given[0], datapoint[0])
            np.testing.assert_allclose(oracle(given), outputs[0], rtol=1e-5)


@ALL
def test_unknown_output(row):
    """An unknown output raises KeyError before anything is predicted."""
    with pytest.raises(KeyError, match="halves"), row.run(config(output_names=["halves"]), datapoints(1)):
        pass

"""Predictors on several devices."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict import (
    DataParallelOfflinePredictor,
    MultiThreadAsyncPredictor,
    MultiTowerOfflinePredictor,
    PredictConfig,
)
from tensorpack_lite.tfutils.sessinit import DictRestore


def model(x, n):
    """y = x * w * n."""
    weight = tf.get_variable("w", initializer=2.0)
    return tf.multiply(x * weight, tf.cast(n, tf.float32), name="y")


def config(**kwargs):
    """Return a configuration that restores w as 3."""
    kwargs = {"output_names": ["y"], **kwargs}
    return PredictConfig(
        tower_func=model,
        input_signature=[TensorSpec([None], tf.float32, "x"), TensorSpec([], tf.int32, "n")],
        session_init=DictRestore({"w": np.float32(3)}),
        **kwargs,
    )


@pytest.fixture
def close():
    """Return a function that registers a predictor, whose session is closed after the test."""
    predictors = []

    def remember(predictor):
        predictors.append(predictor)
        return predictor

    yield remember
    for predictor in predictors:
        predictor.sess.close()


class TestMultiTower:
    def test_each_predictor(self, close):
        """All towers share variable and placeholders; the object itself is the first predictor."""
        predictor = close(MultiTowerOfflinePredictor(config(), [0, 2]))
        for one in [predictor, *predictor.get_predictors()]:
            np.testing.assert_array_equal([6, 12], one([1, 2], 2)[0])
        with predictor.graph.as_default():
            assert ["w"] == [var.op.name for var in tf.global_variables()]
        assert ["tower0/y:0", "tower2/y:0"] == [p.output_tensors[0].name for p in predictor.predictors]
        assert ["x:0", "x:0"] == [p.input_tensors[0].name for p in predictor.predictors]

    def test_get_predictor(self, close):
        """get_predictor(n) returns a list of n predictors, and repeats the towers."""
        predictor = close(MultiTowerOfflinePredictor(config(), [0, 1]))
        first, second = predictor.get_predictors()
        assert [first, second, first] == predictor.get_predictor(3)

    def test_return_input(self, close):
        """With return_input, a call returns the datapoint and the outputs."""
        predictor = close(MultiTowerOfflinePredictor(config(return_input=True), [0]))
        datapoint, outputs = predictor([1.0], 1)
        assert ([1.0], 1) == datapoint
        np.testing.assert_array_equal([3], outputs[0])

    def test_threads_share_a_session(self, close):
        """The predictors work in a MultiThreadAsyncPredictor."""
        model_of_one = PredictConfig(
            tower_func=lambda x: tf.add(x, 1.0, name="y"),
            input_signature=[TensorSpec([None], tf.float32, "x")],
            output_names=["y"],
        )
        predictors = close(MultiTowerOfflinePredictor(model_of_one, [0, 1])).get_predictors()
        parallel = MultiThreadAsyncPredictor(predictors, batch_size=2)
        parallel.start()
        futures = [parallel.put_task([np.float32(i)]) for i in range(6)]
        assert [1, 2, 3, 4, 5, 6] == [float(future.result()[0]) for future in futures]
        parallel.stop()

    def test_unknown_name(self):
        """An unknown output raises KeyError with the nearest names."""
        with pytest.raises(KeyError, match="nearest"):
            MultiTowerOfflinePredictor(config(output_names=["z"]), [0])


class TestDataParallel:
    def test_a_datapoint_for_each_tower(self, close):
        """Inputs and outputs are ordered by tower; placeholders have the tower's number in their names."""
        predictor = close(DataParallelOfflinePredictor(config(), [0, 3]))
        first, second = predictor([1], 1, [1, 2], 2)
        np.testing.assert_array_equal([3], first)
        np.testing.assert_array_equal([6, 12], second)
        names = [tensor.op.name for tensor in predictor.input_tensors]
        assert ["tower0_x", "tower0_n", "tower3_x", "tower3_n"] == names

    def test_on_the_cpu(self, close):
        """A negative number means the CPU."""
        predictor = close(DataParallelOfflinePredictor(config(), [-1]))
        np.testing.assert_array_equal([3], predictor([1], 1)[0])


@pytest.mark.parametrize("kind", [MultiTowerOfflinePredictor, DataParallelOfflinePredictor])
@pytest.mark.parametrize(
    ("towers", "error"), [(2, TypeError), ([], ValueError), ([0, 0], ValueError), (["0"], TypeError)]
)
def test_wrong_towers(kind, towers, error):
    """Anything but a list of distinct numbers raises an error."""
    with pytest.raises(error, match=kind.__name__):
        kind(config(), towers)

"""Tensors as input."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.tensor import DummyConstantInput, TensorInput
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TrainTowerContext

SIGNATURE = [TensorSpec([None, 2], tf.float32, "x"), TensorSpec([None], tf.string, "y")]


def make_tensors():
    return [tf.zeros([3, 2], name="zeros"), tf.constant(["a"])]


class TestTensorInput:
    def test_called_once_a_tower_in_its_scope(self):
        """Two towers have two sets of tensors."""
        source = TensorInput(make_tensors)
        source.setup(SIGNATURE)
        first, second = source.get_input_tensors(), source.get_input_tensors()

        assert ["TensorInput/zeros", "TensorInput/zeros_1"] == [first[0].op.name, second[0].op.name]

    def test_size(self):
        """As given, or not known."""
        assert 4 == TensorInput(make_tensors, size=4).size()
        with pytest.raises(NotImplementedError, match="TensorInput: does not know"):
            TensorInput(make_tensors).size()
        with pytest.raises(ValueError, match="size is 0, wanted at least 1"):
            TensorInput(make_tensors, size=0)

    def test_not_a_function(self):
        """A list of tensors is not a function that makes them."""
        with pytest.raises(TypeError, match="TensorInput: takes a function as get_tensor_fn, got list"):
            TensorInput([1])

    def test_wrong_results(self):
        """One tensor that is no list, and too few."""
        for result, error, match in (
            (tf.zeros([]), TypeError, "get_tensor_fn must return a list of tensors"),
            ([tf.zeros([])], ValueError, r"returned 1 tensors, the model takes 2 \(x, y\)"),
        ):
            source = TensorInput(lambda result=result: result)
            source.setup(SIGNATURE)
            with pytest.raises(error, match=match):
                source.get_input_tensors()


class TestDummyConstantInput:
    def test_zeros_of_these_shapes(self, sess):
        """With the signature's dtypes; strings are empty."""
        source = DummyConstantInput([[3, 2], [1]])
        source.setup(SIGNATURE)
        x, y = sess.run(source.get_input_tensors())

        np.testing.assert_array_equal(np.zeros((3, 2), "float32"), x)
        assert [b""] == y.tolist()

    def test_names_in_towers(self):
        """`dummy-<input>-<tower>`; a predict tower has no index, and works."""
        source = DummyConstantInput([[3, 2], [1]])
        source.setup(SIGNATURE)
        with TrainTowerContext("tower1", index=1, total=2):
            train = source.get_input_tensors()[0]
        with PredictTowerContext("pred"):
            predict = source.get_input_tensors()[0]

        assert "dummy-x-1" == train.op.name.split("/")[-1]
        assert "dummy-x-0" == predict.op.name.split("/")[-1]

    def test_wrong_number_of_shapes(self):
        """Told when it is set up."""
        with pytest.raises(ValueError, match="got 1 shapes, the model takes 2 inputs"):
            DummyConstantInput([[1]]).setup(SIGNATURE)

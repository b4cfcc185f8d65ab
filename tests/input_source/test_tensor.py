"""TensorInput and DummyConstantInput."""

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
    def test_called_once_for_each_tower(self):
        """The function is called once for each tower, in the name scope of the input."""
        source = TensorInput(make_tensors)
        source.setup(SIGNATURE)
        first, second = source.get_input_tensors(), source.get_input_tensors()

        assert ["TensorInput/zeros", "TensorInput/zeros_1"] == [first[0].op.name, second[0].op.name]

    def test_size(self):
        """The size is as given, or unknown."""
        assert 4 == TensorInput(make_tensors, size=4).size()
        with pytest.raises(NotImplementedError, match="TensorInput: the number of datapoints is unknown"):
            TensorInput(make_tensors).size()
        with pytest.raises(ValueError, match=r"size is too small \(expected at least 1, got 0\)"):
            TensorInput(make_tensors, size=0)

    def test_not_a_function(self):
        """A list of tensors instead of a function raises TypeError."""
        with pytest.raises(TypeError, match="TensorInput: get_tensor_fn .*expected a function, got list"):
            TensorInput([1])

    def test_wrong_results(self):
        """A function that does not return a list, or too few tensors, is an error."""
        for result, error, match in (
            (tf.zeros([]), TypeError, "the result of get_tensor_fn has the wrong type"),
            ([tf.zeros([])], ValueError, r"tensors from get_tensor_fn is wrong \(expected 2: x, y, got 1\)"),
        ):
            source = TensorInput(lambda result=result: result)
            source.setup(SIGNATURE)
            with pytest.raises(error, match=match):
                source.get_input_tensors()


class TestDummyConstantInput:
    def test_zeros_of_these_shapes(self, sess):
        """Tensors have the given shapes and the dtypes of the signature; strings are empty."""
        source = DummyConstantInput([[3, 2], [1]])
        source.setup(SIGNATURE)
        x, y = sess.run(source.get_input_tensors())

        np.testing.assert_array_equal(np.zeros((3, 2), "float32"), x)
        assert [b""] == y.tolist()

    def test_names_in_towers(self):
        """Tensors are named `dummy-<input>-<tower>`; prediction towers, which have no index, work."""
        source = DummyConstantInput([[3, 2], [1]])
        source.setup(SIGNATURE)
        with TrainTowerContext("tower1", index=1, total=2):
            train = source.get_input_tensors()[0]
        with PredictTowerContext("pred"):
            predict = source.get_input_tensors()[0]

        assert "dummy-x-1" == train.op.name.split("/")[-1]
        assert "dummy-x-0" == predict.op.name.split("/")[-1]

    def test_wrong_number_of_shapes(self):
        """A wrong number of shapes raises an error in setup."""
        with pytest.raises(ValueError, match="the number of shapes is wrong .expected 2: x, y, got 1"):
            DummyConstantInput([[1]]).setup(SIGNATURE)

"""Conversion of datapoints: accepted datapoints, conversions, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.input_source.datapoint import DatapointConverter, iterate_named


def convert(dtype, value, shape=None):
    """Convert a datapoint of one component."""
    (array,) = DatapointConverter("FeedInput", [TensorSpec(shape, dtype, "x")])([value])
    return array


IMAGE_LABEL = [TensorSpec([None, 28, 28], tf.float32, "image"), TensorSpec([None], tf.int32, "label")]


class TestComponents:
    def test_list_tuple_and_dict_are_the_same(self):
        """A datapoint is a list, a tuple, or a dict with the names in any order."""
        image, label = np.zeros((2, 28, 28), "float32"), np.zeros(2, "int32")
        to_arrays = DatapointConverter("FeedInput", IMAGE_LABEL)
        for datapoint in ([image, label], (image, label), {"label": label, "image": image}):
            arrays = to_arrays(datapoint)
            assert arrays[0] is image
            assert arrays[1] is label

    def test_wrong_number(self):
        """The error for a wrong number of components names both numbers, the inputs, and the given arrays."""
        signature = [*IMAGE_LABEL, TensorSpec([None], tf.float32, "weight")]
        to_arrays = DatapointConverter("FeedInput", signature)
        with pytest.raises(
            ValueError,
            match=r"FeedInput: the number of components in a datapoint is wrong \(expected 3: image, label, weight, "
            r"got 2: float32 \(128, 28, 28\), int32 \(128,\)\)\.",
        ):
            to_arrays([np.zeros((128, 28, 28), "float32"), np.zeros(128, "int32")])

    @pytest.mark.parametrize("keys", [("image",), ("image", "labels"), ("image", "label", "more")])
    def test_wrong_names_of_a_dict(self, keys):
        """A missing, misspelled or additional name is an error."""
        to_arrays = DatapointConverter("FeedInput", IMAGE_LABEL)
        with pytest.raises(ValueError, match=r"expected image, label, got .*\. Name each component"):
            to_arrays({key: np.zeros(2, "float32") for key in keys})

    @pytest.mark.parametrize("datapoint", [np.zeros((2, 2)), 3, "ab", None])
    def test_bare_array(self, datapoint):
        """A bare array is not treated as a list of its rows."""
        with pytest.raises(TypeError, match=r"expected a list, tuple or dict of components, got "):
            DatapointConverter("FeedInput", IMAGE_LABEL)(datapoint)


class TestDtype:
    def test_same_dtype_is_not_copied(self):
        """An array of the right dtype is returned as the same object."""
        array = np.zeros((2, 2), "float32")
        assert convert(tf.float32, array) is array

    @pytest.mark.parametrize(
        ("dtype", "value", "expected"),
        [
            (tf.float32, np.array([1.5], "float64"), np.array([1.5], "float32")),
            (tf.float32, 1.5, np.array(1.5, "float32")),
            (tf.float32, np.array([1, 2]), np.array([1, 2], "float32")),
            (tf.float32, [1, 2], np.array([1, 2], "float32")),
            (tf.float32, np.array([1.5], ">f4"), np.array([1.5], "float32")),
            (tf.int32, np.array([1, -2], "int64"), np.array([1, -2], "int32")),
            (tf.int32, 7, np.array(7, "int32")),
            (tf.uint8, [0, 255], np.array([0, 255], "uint8")),
            (tf.int64, np.array([1], "uint8"), np.array([1], "int64")),
            (tf.int32, np.array([True]), np.array([1], "int32")),
            (tf.bool, [True, False], np.array([True, False])),
            (tf.int32, [], np.array([], "int32")),
        ],
    )
    def test_conversions(self, dtype, value, expected):
        """Conversions of the same kind, integers to floats, and integers that fit give the exact dtype."""
        array = convert(dtype, value)
        assert expected.dtype == array.dtype
        np.testing.assert_array_equal(expected, array)

    @pytest.mark.parametrize(
        ("dtype", "value"),
        [
            (tf.int32, np.array([1.0])),
            (tf.int32, 1.5),
            (tf.uint8, np.zeros(2, "float32")),
            (tf.bool, np.array([1])),
            (tf.float32, "text"),
            (tf.float32, np.array([1j])),
            (tf.float32, [None]),
            (tf.string, [1]),
        ],
    )
    def test_refusals(self, dtype, value):
        """A conversion that loses more than precision raises a TypeError that names input and component."""
        with pytest.raises(
            TypeError, match=rf"FeedInput: component 0 'x' .*\(expected {dtype.name} of any shape, got "
        ):
            convert(dtype, value)

    @pytest.mark.parametrize(
        ("dtype", "value"), [(tf.int32, 2**40), (tf.uint8, [-1]), (tf.int8, np.array([200], "uint8"))]
    )
    def test_integers_that_do_not_fit(self, dtype, value):
        """An integer that does not fit raises ValueError instead of wrapping around."""
        with pytest.raises(ValueError, match=r"component 0 'x' does not fit into .* \(expected values from "):
            convert(dtype, value)

    @pytest.mark.parametrize("value", [b"a\0", "text", [b"a", b"bc\0"], np.array(["x", "yz"])])
    def test_strings(self, value, sess):
        """Bytes and strings become objects, including zero bytes at their end."""
        array = convert(tf.string, value)
        x = tf.placeholder(tf.string)
        result = sess.run(tf.identity(x), {x: array})
        expected = [v.encode() if isinstance(v, str) else v for v in np.asarray(value, object).ravel().tolist()]
        assert expected == np.asarray(result, object).ravel().tolist()


class TestShape:
    def test_unknown_dimensions(self):
        """An unknown dimension accepts any size, for each datapoint anew."""
        to_arrays = DatapointConverter("FeedInput", [TensorSpec([None, 3], tf.float32, "x")])
        for size in (4, 2, 2, 0):
            assert (size, 3) == to_arrays([np.zeros((size, 3), "float32")])[0].shape

    def test_unknown_rank(self):
        """An unknown shape accepts a scalar and a matrix."""
        assert () == convert(tf.float32, 1.0).shape
        assert (2, 2) == convert(tf.float32, np.zeros((2, 2))).shape

    @pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 1), ()])
    def test_wrong_shape(self, shape):
        """A wrong rank or known dimension raises ValueError."""
        with pytest.raises(
            ValueError,
            match=r"component 0 'x' has the wrong shape \(expected float32 \[None, 3\], got float32 \(",
        ):
            convert(tf.float32, np.zeros(shape, "float32"), [None, 3])

    def test_wrong_shape_after_a_right_one(self):
        """A wrong shape is found after a right shape was remembered."""
        to_arrays = DatapointConverter("FeedInput", [TensorSpec([None, 3], tf.float32, "x")])
        to_arrays([np.zeros((2, 3), "float32")])
        with pytest.raises(ValueError, match="expected float32"):
            to_arrays([np.zeros((2, 4), "float32")])

    def test_ragged_list(self):
        """Lists of different lengths cannot be converted to an array."""
        with pytest.raises((ValueError, TypeError), match=r"component 0 'x' .*\(expected float32"):
            convert(tf.float32, [[1.0], [1.0, 2.0]])


class Failing(DataFlow):
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield [1]
        raise self.error


class FailingAtOnce(DataFlow):
    def __iter__(self):
        raise KeyError("no file")


class TestIterateNamed:
    def test_names_the_stage_and_keeps_the_type(self):
        """The error names input and DataFlow, and has the original error as its cause."""
        error = KeyError("planted")
        source = Failing(error)
        with pytest.raises(KeyError, match="QueueInput: the DataFlow Failing failed: planted") as caught:
            list(iterate_named(source, "QueueInput", source))
        assert error is caught.value.__cause__

    def test_error_that_cannot_be_rebuilt(self):
        """An error with other constructor arguments is raised unchanged."""
        error = OSError(2, "planted")
        source = Failing(error)
        with pytest.raises(OSError, match="planted") as caught:
            list(iterate_named(source, "QueueInput", source))
        assert error is caught.value
        assert caught.value.__cause__ is None

    def test_iter_itself_fails(self):
        """An error of an `__iter__` that is not a generator is named, too."""
        with pytest.raises(KeyError, match="the DataFlow FailingAtOnce failed: no file"):
            list(iterate_named(FailingAtOnce(), "QueueInput", FailingAtOnce()))

    def test_terminated(self):
        """DataFlowTerminated is raised unchanged."""
        source = Failing(DataFlowTerminated())
        with pytest.raises(DataFlowTerminated):
            list(iterate_named(source, "QueueInput", source))


def test_missing_batch_axis():
    """A datapoint without the first axis names BatchData; one with another wrong shape does not."""
    convert = DatapointConverter("FeedInput", [TensorSpec([None, 8, 8], tf.float32, "image")])
    with pytest.raises(
        ValueError,
        match=r"got float32 \(8, 8\)\)\. The first axis, that of the batch, is missing: put BatchData",
    ):
        convert([np.zeros([8, 8], "float32")])
    with pytest.raises(ValueError, match=r"got float32 \(8, 7\)\)\. Convert it in the DataFlow"):
        convert([np.zeros([8, 7], "float32")])


X_Y = [TensorSpec([None, 8], tf.float32, "x"), TensorSpec([None], tf.int32, "y")]


class TestAdvice:
    @pytest.mark.parametrize(
        "swapped",
        [
            [np.zeros(20, "int32"), np.zeros([20, 8], "float32")],
            [np.zeros(20, "float32"), np.zeros([20, 8], "float32")],
        ],
        ids=["int32", "float32"],
    )
    def test_swapped_components(self, swapped):
        """Components in the wrong order raise an error with the dtype of the given array, which asks for the order."""
        match = (
            rf"component 0 'x' has the wrong shape \(expected float32 \[None, 8\], got {swapped[0].dtype.name} \(20,\)\)\..*"
            r"Component 1 fits 'x': is the order swapped\?$"
        )
        with pytest.raises(ValueError, match=match):
            DatapointConverter("FeedInput", X_Y)(swapped)

    def test_a_component_that_is_in_its_place(self):
        """A component that fits its own input is not taken for another one."""
        signature = [TensorSpec([None, 8], tf.float32, "x"), TensorSpec([None, 8], tf.float32, "z")]
        with pytest.raises(ValueError, match=r"got float32 \(20, 7\)\)\. Convert it in the DataFlow[^?]*$"):
            DatapointConverter("FeedInput", signature)([np.zeros([20, 7], "float32"), np.zeros([20, 8])])

    @pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
    def test_one_hot_labels(self, dtype):
        """One-hot labels for an input of numbers raise an error that names np.argmax."""
        labels = np.eye(3)[[0, 2, 2, 1]].astype(dtype)
        with pytest.raises(
            (TypeError, ValueError), match=r"\(4, 3\)\)\. One-hot labels\? .*np\.argmax\(labels, -1\)\.$"
        ):
            convert("int32", labels, [None])

    @pytest.mark.parametrize(
        "labels",
        [
            np.full([4, 2], 0.5),
            np.zeros([4, 2]),
            np.ones([4, 1]),
            np.ones([4, 2]),
            np.eye(4)[None],
            np.eye(4)[0],
        ],
        ids=["shares", "zeros", "a column", "ones", "more axes", "no batch"],
    )
    def test_other_arrays_are_not_one_hot(self, labels):
        """Arrays without exactly one 1 in each row, or with another number of axes, get the usual advice."""
        with pytest.raises((TypeError, ValueError), match="^[^?]*$"):
            convert("int32", labels, [None])

    def test_one_hot_labels_where_they_belong(self):
        """An input of one-hot labels gets the usual advice for another wrong shape."""
        with pytest.raises(ValueError, match="Convert it in the DataFlow"):
            convert("float32", np.eye(3)[None], [None, 3])

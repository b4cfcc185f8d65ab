"""Conversion of values to the arrays that are fed to one tensor."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf

_NO_BATCH_AXIS = "The first axis, that of the batch, is missing"


class FeedConverter:
    """
    Converter of values to arrays of one tensor's dtype, which also checks their shape.

    An array of the right dtype and shape is returned as it is; the check takes half a microsecond.

    Args:
        label: start of error messages, e.g. "FeedInput: component 0 'x'".
        dtype: a `tf.DType`.
        shape: a static shape. An unknown dimension accepts any size.
        is_strict: False converts other dtypes as `Session.run` does, which truncates floats to integers. True accepts
            conversions of NumPy's "same kind" (float64 to float32, int to float, bool to int) and integers
            that fit into a narrower integer type; other conversions, such as float to int, raise an error.
        advice: a sentence with the fix for a wrong dtype or shape.
        batch_advice: how to add the first axis, for a shape without it; None means `advice`.

    Example:
        >>> converter = FeedConverter("FeedInput: component 0 'x'", tf.float32, [None], is_strict=True)
        >>> converter.convert([1, 2])
        array([1., 2.], dtype=float32)
    """

    def __init__(
        self,
        label: str,
        dtype: tf.DType,
        shape: tf.TensorShape | Sequence[int | None] | None,
        is_strict: bool = False,
        advice: str = "",
        batch_advice: str | None = None,
    ) -> None:
        self._label = label
        self._advice, self._batch_advice = advice, batch_advice
        self._is_strict = is_strict
        self._dtype = np.dtype(dtype.as_numpy_dtype)
        self._shape = tf.TensorShape(shape)
        text = "of any shape" if self._shape.dims is None else str(self._shape.as_list())
        self._expected = f"{dtype.base_dtype.name} {text}"
        # The last compatible shape. Comparing tuples is faster than asking TensorFlow.
        self._good_shape: Any = None

    def convert(self, value: object) -> np.ndarray:
        """
        Convert one value.

        Raises:
            TypeError: the value is a tensor; if strict, its dtype cannot be converted.
            ValueError: the shape is wrong, or the value cannot be converted to an array; if strict, an
                integer does not fit.
        """
        array = value if type(value) is np.ndarray and value.dtype == self._dtype else self._cast(value)
        if array.shape != self._good_shape:
            if not self._shape.is_compatible_with(array.shape):
                passed = value if isinstance(value, np.ndarray) else array
                lacks_axis = self._shape.ndims and self._shape[1:].is_compatible_with(array.shape)
                advice = f"{_NO_BATCH_AXIS}: {self._batch_advice}" if self._batch_advice else None
                raise ValueError(self._message("has the wrong shape", passed, advice if lacks_axis else None))
            self._good_shape = array.shape
        return array

    def fits(self, value: object) -> bool:
        """Return whether `convert` accepts a value."""
        try:
            self.convert(value)
        except (TypeError, ValueError):
            return False
        return True

    def _cast(self, value: object) -> np.ndarray:
        if isinstance(value, tf.Tensor):
            raise TypeError(f"{self._label} is a tensor ({value.name}). Feed an array.")
        try:
            array = np.asarray(value, dtype=None if self._is_strict else self._dtype)
        except ValueError as error:
            raise ValueError(self._message(f"cannot be converted to an array: {error}", value)) from error
        return self._cast_strictly(value, array) if self._is_strict else array

    def _cast_strictly(self, value: object, array: np.ndarray) -> np.ndarray:
        kind, wanted = array.dtype.kind, self._dtype
        if array.dtype == wanted or array.size == 0:
            return array.astype(wanted, copy=False)
        if wanted.kind == "O" and kind in "SU":
            return np.asarray(value, dtype=object)  # `array` lacks the zero bytes at the end of its strings
        if wanted.kind in "iu" and kind in "iu":
            self._check_range(array)
        elif wanted.kind == "O" or not np.can_cast(array.dtype, wanted, "same_kind"):
            raise TypeError(self._message("has the wrong type", array))
        return array.astype(wanted)

    def _check_range(self, array: np.ndarray) -> None:
        if np.can_cast(array.dtype, self._dtype):
            return
        limits = np.iinfo(self._dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise ValueError(
                f"{self._label} does not fit into {self._dtype.name} (expected values from {limits.min} to {limits.max}, got "
                f"{describe_value(array)} with values from {low} to {high})."
            )

    def _message(self, problem: str, value: object, advice: str | None = None) -> str:
        sentence = f"{self._label} {problem} (expected {self._expected}, got {describe_value(value)})."
        if self._are_one_hot(value):
            advice = "One-hot labels? Convert them with np.argmax(labels, -1)."
        return f"{sentence} {self._advice if advice is None else advice}".rstrip()

    def _are_one_hot(self, value: object) -> bool:
        """Return whether the input takes the numbers of classes, and a value has one-hot rows instead."""
        if self._dtype.kind not in "iu" or not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
            return False
        if self._shape.ndims != value.ndim - 1 or not self._shape.is_compatible_with(value.shape[:-1]):
            return False
        is_one = value == 1
        return value.shape[-1] > 1 and bool(np.all(is_one | (value == 0)) and np.all(is_one.sum(-1) == 1))


def describe_value(value: object) -> str:
    """Return dtype and shape of an array, the length of a list or tuple, or the type of another object."""
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype.name} {value.shape}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__

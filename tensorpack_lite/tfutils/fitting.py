"""Conversion of an array to the shape and dtype of a variable."""

from __future__ import annotations

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger


def fit_to_variable(value: np.ndarray | float, var: tf.Variable, ignore_mismatch: bool = False) -> np.ndarray | None:
    """
    Convert an array to the shape and dtype of a variable; see `SessionUpdate.relaxed_value_for_var`.

    Args:
        value, var, ignore_mismatch: as in `relaxed_value_for_var`.

    Returns:
        The converted array, or None.

    Raises:
        ValueError, TypeError: as in `relaxed_value_for_var`.
    """
    array = np.asarray(value)
    wrong_shape = _shape_misfit(array, var)
    misfit = wrong_shape or _dtype_misfit(array, var)
    if misfit and ignore_mismatch:
        logger.warning(f"{misfit} It is skipped.")
        return None
    if misfit:
        kind = ValueError if wrong_shape else TypeError
        raise kind(f"{misfit} Leave it out, or pass ignore_mismatch=True.")
    shape, dtype, got = tf.TensorShape(var.shape), var.dtype.base_dtype, tf.as_dtype(array.dtype)
    if not shape.is_compatible_with(array.shape):
        new_shape = tuple(shape.as_list())
        logger.warning(f"Variable {var.op.name}: its new value is reshaped from {array.shape} to {new_shape}.")
        array = array.reshape(new_shape)
    if got != dtype:
        logger.warning(f"Variable {var.op.name}: its new value is cast from {got.name} to {dtype.name}.")
        array = array.astype(dtype.as_numpy_dtype)
    return array


def _shape_misfit(value: np.ndarray, var: tf.Variable) -> str:
    expected = tf.TensorShape(var.shape)
    if expected.is_compatible_with(value.shape) or expected.num_elements() == value.size:
        return ""
    return f"Variable {var.op.name} has shape {expected}, but its new value has shape {value.shape}."


def _dtype_misfit(value: np.ndarray, var: tf.Variable) -> str:
    expected, got = var.dtype.base_dtype, tf.as_dtype(value.dtype)
    if expected == got or (expected.is_floating and got.is_floating):
        return ""
    if expected.is_integer and got.is_integer:
        limits = np.iinfo(expected.as_numpy_dtype)
        if value.size == 0 or limits.min <= int(value.min()) <= int(value.max()) <= limits.max:
            return ""
    return f"Variable {var.op.name} has dtype {expected.name}, but its new value has dtype {got.name}."

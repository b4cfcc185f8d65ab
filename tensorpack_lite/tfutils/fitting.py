"""Conversion of an array to the shape and dtype of a variable."""

from __future__ import annotations

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["fit_to_variable"]


def fit_to_variable(
    value: np.ndarray | float, var: tf.Variable, ignore_mismatch: bool = False
) -> np.ndarray | None:
    """
    Convert an array to the shape and dtype of a variable; see `SessionUpdate.relaxed_value_for_var`.

    Args:
        value, var, ignore_mismatch: as in `relaxed_value_for_var`.

    Returns:
        The converted array, or None.

    Raises:
        ValueError, TypeError: as in `relaxed_value_for_var`.
    """
    value = np.asarray(value)
    wrong_shape = _shape_misfit(value, var)
    misfit = wrong_shape or _dtype_misfit(value, var)
    if misfit and ignore_mismatch:
        logger.warning(f"{misfit} It is skipped.")
        return None
    if misfit:
        kind = ValueError if wrong_shape else TypeError
        raise kind(f"{misfit} Leave it out, or pass ignore_mismatch=True.")
    return _cast(_reshape(value, var), var)


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


def _reshape(value: np.ndarray, var: tf.Variable) -> np.ndarray:
    shape = tf.TensorShape(var.shape)
    if shape.is_compatible_with(value.shape):
        return value
    logger.warning(
        f"Variable {var.op.name}: its new value is reshaped from {value.shape} to {tuple(shape.as_list())}."
    )
    return value.reshape(shape.as_list())


def _cast(value: np.ndarray, var: tf.Variable) -> np.ndarray:
    expected, got = var.dtype.base_dtype, tf.as_dtype(value.dtype)
    if expected == got:
        return value
    logger.warning(f"Variable {var.op.name}: its new value is cast from {got.name} to {expected.name}.")
    return value.astype(expected.as_numpy_dtype)

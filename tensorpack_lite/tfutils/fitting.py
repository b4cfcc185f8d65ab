"""An array in the shape and dtype of a variable."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["fit_to_variable"]


def fit_to_variable(value: Any, var: Any, ignore_mismatch: bool = False) -> np.ndarray | None:
    """
    Fit an array to a variable; what `SessionUpdate.relaxed_value_for_var` promises.

    Args:
        value, var, ignore_mismatch: as there.

    Returns:
        The array in the variable's shape and dtype, or None.

    Raises:
        ValueError, TypeError: as there.
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


def _shape_misfit(value: np.ndarray, var: Any) -> str:
    wanted = tf.TensorShape(var.shape)
    if wanted.is_compatible_with(value.shape) or wanted.num_elements() == value.size:
        return ""
    return f"Variable {var.op.name} has shape {wanted}, but its new value has shape {value.shape}."


def _dtype_misfit(value: np.ndarray, var: Any) -> str:
    wanted, got = var.dtype.base_dtype, tf.as_dtype(value.dtype)
    if wanted == got or (wanted.is_floating and got.is_floating):
        return ""
    if wanted.is_integer and got.is_integer and _all_fit(value, wanted):
        return ""
    return f"Variable {var.op.name} has dtype {wanted.name}, but its new value has dtype {got.name}."


def _all_fit(value: np.ndarray, dtype: Any) -> bool:
    limits = np.iinfo(dtype.as_numpy_dtype)
    return value.size == 0 or (int(value.min()) >= limits.min and int(value.max()) <= limits.max)


def _reshape(value: np.ndarray, var: Any) -> np.ndarray:
    shape = tf.TensorShape(var.shape)
    if shape.is_compatible_with(value.shape):
        return value
    logger.warning(
        f"Variable {var.op.name}: its new value is reshaped from {value.shape} to {tuple(shape.as_list())}."
    )
    return value.reshape(shape.as_list())


def _cast(value: np.ndarray, var: Any) -> np.ndarray:
    wanted, got = var.dtype.base_dtype, tf.as_dtype(value.dtype)
    if wanted == got:
        return value
    logger.warning(f"Variable {var.op.name}: its new value is cast from {got.name} to {wanted.name}.")
    return value.astype(wanted.as_numpy_dtype)

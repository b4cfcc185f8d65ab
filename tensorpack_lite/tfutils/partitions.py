"""
Variables with a partitioner. The graph has their parts, `emb/part_0`, `emb/part_1` ...; a checkpoint has the whole `emb`.

`tf.train.Saver` saves the parts as slices of the whole, so a graph with another number of parts can restore it. The functions here
do the same for values that the library reads and writes by name.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from ..compat import tfv1 as tf
from ..compat.variables import save_slice
from ..utils import logger


def name_in_files(variable: tf.Variable) -> str:
    """Return the name of a variable in a checkpoint, without `:0`; for a part, that of the whole."""
    return names_in_files(variable)[0][0]


def names_in_files(variable: tf.Variable) -> list[tuple[str, bool]]:
    """
    Return the names that a variable may have in a file.

    Returns:
        `[(name without ":0", whether the value is the whole of which the variable is a part)]`, the preferred name first.
    """
    part = save_slice(variable)
    own = (str(variable.op.name), False)
    return [own] if part is None else [(part.full_name, True), own]


def whole_shape(variable: tf.Variable) -> tf.TensorShape:
    """Return the shape of a variable; for a part, that of the whole."""
    part = save_slice(variable)
    return tf.TensorShape(variable.shape if part is None else part.full_shape)


def cut_part(whole: np.ndarray, variable: tf.Variable, ignore_mismatch: bool = False) -> np.ndarray | None:
    """
    Return the values of a part.

    Args:
        whole: the array of the whole variable.
        variable: the part.
        ignore_mismatch: return None, with a warning, instead of raising.

    Raises:
        ValueError: the whole has another shape.
    """
    part = save_slice(variable)
    if part is None:
        return whole
    if np.shape(whole) != part.full_shape:
        misfit = (
            f"Variable {part.full_name} has shape {part.full_shape}, but its new value has shape {np.shape(whole)}."
        )
        if not ignore_mismatch:
            raise ValueError(f"{misfit} Leave it out, or pass ignore_mismatch=True.")
        logger.warning(f"{misfit} Its part {variable.op.name} is skipped.")
        return None
    return whole[_index(part)]


def find_values(
    variables: Iterable[tf.Variable], values: Mapping[str, Any], ignore_mismatch: bool = False
) -> tuple[dict[str, np.ndarray], set[str]]:
    """
    Find the values of variables in a dictionary.

    Args:
        variables: the variables.
        values: arrays by their names without `:0`.
        ignore_mismatch: leave out parts whose whole has another shape, with a warning, instead of raising.

    Returns:
        `{name of a variable, with ":0": array}` of those that are found, and the names in `values` that are used.

    Raises:
        ValueError: a whole has another shape.
    """
    found: dict[str, np.ndarray] = {}
    used: set[str] = set()
    for variable in variables:
        name, is_whole = next((pair for pair in names_in_files(variable) if pair[0] in values), ("", False))
        if not name:
            continue
        used.add(name)
        value = cut_part(values[name], variable, ignore_mismatch) if is_whole else values[name]
        if value is not None:
            found[variable.name] = value
    return found, used


def join_parts(variables: Iterable[tf.Variable], values: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return values as a checkpoint has them, with wholes instead of parts.

    Args:
        variables: the variables to which the values belong, or more.
        values: arrays by the variables' names without `:0`.

    Returns:
        Arrays by their names in files. A part keeps its own name if other parts of the same whole are missing.
    """
    joined = dict(values)
    parts: dict[str, list[tuple[Any, str]]] = {}
    for variable in variables:
        part, name = save_slice(variable), variable.op.name
        if part is not None and name in joined:
            parts.setdefault(part.full_name, []).append((part, name))
    for whole_name, found in parts.items():
        shape = found[0][0].full_shape
        if sum(np.size(joined[name]) for _, name in found) != np.prod(shape, dtype=np.int64):
            continue
        whole = np.empty(shape, np.asarray(joined[found[0][1]]).dtype)
        for part, name in found:
            whole[_index(part)] = joined.pop(name)
        joined[whole_name] = whole
    return joined


def _index(part: Any) -> tuple[slice, ...]:
    return tuple(slice(start, start + size) for start, size in zip(part.offset, part.shape))

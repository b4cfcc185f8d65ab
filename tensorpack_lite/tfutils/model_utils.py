"""Descriptions of models as text."""

from __future__ import annotations

from tabulate import tabulate

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.naming import TOWER_PREFIX


def describe_trainable_vars() -> None:
    """
    Log a table of the trainable variables of the default graph, and their total size.

    Copies in other towers, with the name of another variable after "tower<i>/", are omitted. The table has a column
    for devices if they differ, and one for dtypes if not all are float32.
    """
    names = {var.op.name for var in tf.trainable_variables()}
    copies = {name for name in names if TOWER_PREFIX.match(name) and TOWER_PREFIX.sub("", name) in names}
    variables = [var for var in tf.trainable_variables() if var.op.name not in copies]
    if not variables:
        logger.warning("The graph has no trainable variables.")
        return
    show_device = len({var.device for var in variables}) > 1
    show_dtype = any(var.dtype.base_dtype != tf.float32 for var in variables)
    headers = ["name", "shape", "#elements"]
    headers += ["device"] * show_device + ["dtype"] * show_dtype
    rows = []
    for var in variables:
        row = [var.op.name, get_shape_str(var), var.shape.num_elements()]
        row += [var.device] * show_device + [var.dtype.base_dtype.name] * show_dtype
        rows.append(row)
    logger.info("List of trainable variables:\n%s\n%s", tabulate(rows, headers=headers), _totals(variables))


def static_bytes(tensor: tf.Tensor | tf.Variable) -> int:
    """Return the size of a tensor or variable; 0 if its shape is unknown."""
    return int((tensor.shape.num_elements() or 0) * tensor.dtype.base_dtype.size)


def get_shape_str(tensors: tf.Tensor | list[tf.Tensor] | tuple[tf.Tensor, ...]) -> str:
    """
    Return the static shape of a tensor, or those of a list of tensors, as text.

    Returns:
        For example `"[?, 28, 28]"` or `"[?, 3], [?]"`; `"<unknown>"` for an unknown rank.

    Example:
        >>> get_shape_str(tf.zeros([4, 2]))
        '[4, 2]'
    """
    if isinstance(tensors, (list, tuple)):
        return ", ".join(get_shape_str(tensor) for tensor in tensors)
    shape = tf.TensorShape(tensors.shape)
    if shape.dims is None:
        return "<unknown>"
    return "[" + ", ".join("?" if size is None else str(size) for size in shape.as_list()) + "]"


def _totals(variables: list[tf.Variable]) -> str:
    elements = [var.shape.num_elements() for var in variables]
    if None in elements:
        return f"Number of trainable variables: {len(variables)}"
    num_bytes = sum(count * var.dtype.base_dtype.size for count, var in zip(elements, variables))
    return (
        f"Number of trainable variables: {len(variables)}\n"
        f"Number of parameters (elements): {sum(elements)}\n"
        f"Storage space needed for all trainable variables: {num_bytes / 1024**2:.2f}MB"
    )

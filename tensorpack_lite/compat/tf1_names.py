"""
Private names of TensorFlow 1 that scripts import from `tensorflow.python`, and that TensorFlow 2 has removed.

`install` adds them to TensorFlow's modules, where they are absent. Only `tensorpack-lite run` calls it. Tried on
1.15, 2.15, 2.21.
"""

from __future__ import annotations

from typing import Any, Callable

from tensorflow.python.framework import graph_util as _graph_util
from tensorflow.python.framework import ops as _ops
from tensorflow.python.framework import tensor_shape as _tensor_shape

from . import tfv1 as tf
from .replacement import add


def install() -> None:
    """Add the names that are absent."""
    names: list[tuple[Any, str, Any]] = [
        (_ops, "RegisterShape", _register_shape),
        (_graph_util, "convert_variables_to_constants", tf.graph_util.convert_variables_to_constants),
        (_tensor_shape, "scalar", lambda: tf.TensorShape([])),
        (_tensor_shape, "vector", lambda length: tf.TensorShape([length])),
        (_tensor_shape, "matrix", lambda rows, columns: tf.TensorShape([rows, columns])),
    ]
    for module, name, value in names:
        if not hasattr(module, name):
            add(module, name, value)


def _register_shape(op_type: str) -> Callable[[Any], Any]:
    """Return a decorator that does nothing: since TensorFlow 1.0, operations know their shapes."""
    return lambda function: function

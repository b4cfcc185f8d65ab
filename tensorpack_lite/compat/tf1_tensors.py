"""
Shapes, tensors, variables and flags as in TensorFlow 1.

`install` changes TensorFlow for the whole process. Only `tensorpack-lite run` calls it.

Why private: what TensorFlow 2 has changed here has no public switch. Tried on 1.15, 2.15, 2.21.
"""

from __future__ import annotations

import functools
import inspect
import re
from functools import lru_cache
from typing import Any, Callable

import numpy as np
from tensorflow.python.framework import tensor_util as _tensor_util
from tensorflow.python.ops import gen_nn_ops as _gen_nn_ops
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops

from . import TF_VERSION
from . import tfv1 as tf
from .replacement import replace


@lru_cache(maxsize=None)
def install() -> None:
    """
    Give TensorFlow's objects the behavior of TensorFlow 1. Further calls do nothing.

    - A whole float is a valid dimension of a shape.
    - The static shape of a transposed convolution contains the batch size of its `output_shape`.
    - `variable += value` makes a tensor, also for resource variables.
    - A script may define flags that absl has already defined, such as "log_dir".
    """
    if TF_VERSION >= (2, 0):
        replace(tf.Dimension, "__init__", _accepting_floats(tf.Dimension.__init__))
        for name in (
            "conv2d_backprop_input",
            "conv3d_backprop_input_v2",
            "depthwise_conv2d_native_backprop_input",
        ):
            replace(_gen_nn_ops, name, _with_batch_size(getattr(_gen_nn_ops, name)))
    variable_class = _resource_variable_ops.BaseResourceVariable
    for name in list(vars(variable_class)):
        if re.fullmatch("__i(add|sub|mul|div|truediv|realdiv|pow)__", name):
            delattr(variable_class, name)  # Python then uses __add__ and the like
    for module, definitions in tf.flags.FLAGS.flags_by_module_dict().items():
        if module.startswith("absl."):
            for flag in definitions:
                flag.allow_override = True


def symbolic_tensor_class() -> type:
    """Return the class of the tensors of a graph, which in TensorFlow 2 is a subclass of `tf.Tensor`."""
    with tf.Graph().as_default():
        return type(tf.placeholder(tf.float32))


def _accepting_floats(original: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of `tf.Dimension` that converts whole floats to integers, as that of TensorFlow 1."""

    @functools.wraps(original)
    def wrapper(self: tf.Dimension, value: Any) -> None:
        is_scalar_array = isinstance(value, np.ndarray) and value.ndim == 0
        if (isinstance(value, (float, np.floating)) or is_scalar_array) and float(value).is_integer():
            value = int(value)
        original(self, value)

    return wrapper


def _with_batch_size(original: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """
    Return a function whose result has the static batch size that `input_sizes` determines.

    TensorFlow 2 takes the batch size only from the other input, where scripts of TensorFlow 1 often have None.
    """
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> tf.Tensor:
        images = original(*args, **kwargs)
        sizes = signature.bind(*args, **kwargs).arguments["input_sizes"]
        if images.shape.ndims and images.shape[0].value is None:
            known = _tensor_util.constant_value_as_shape(tf.convert_to_tensor(sizes))
            if known.ndims == images.shape.ndims:
                images.set_shape([known[0], *images.shape[1:]])
        return images

    return wrapper

"""Nonlinearities that have variables or change the shape."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from .batch_norm import BatchNorm
from .checks import layer_title, require_known_channels, require_rank
from .registry import layer_register
from .variables import VariableHolder

__all__ = ["BNReLU", "Maxout", "PReLU"]


@layer_register(use_scope=None)
def Maxout(x: Any, num_unit: int) -> Any:
    """
    Take the largest of each `num_unit` neighbouring channels, called `Maxout(x, num_unit)`.

    Shapes: [N, C] -> [N, C / num_unit]; [N, H, W, C] -> [N, H, W, C / num_unit].

    Args:
        x: [N, C] or [N, H, W, C]; C must be known and a multiple of num_unit.
        num_unit: how many channels become one.

    Returns:
        A tensor named `output` in the current scope.

    Raises:
        ValueError: wrong rank, C unknown or no multiple.

    Source: Goodfellow et al. 2013, "Maxout networks".
    tensorpack: same; there it fails on Python 3.
    """
    x = require_rank("Maxout", x, (2, 4))
    channels = require_known_channels("Maxout", x, -1)
    if channels % num_unit:
        raise ValueError(
            f"{layer_title('Maxout')}: the {channels} channels are no multiple of num_unit, which is {num_unit}."
        )
    shape = tf.concat([tf.shape(x)[:-1], [channels // num_unit, num_unit]], 0)
    outputs = tf.reduce_max(tf.reshape(x, shape), -1, name="output")
    outputs.set_shape(x.shape.as_list()[:-1] + [channels // num_unit])
    return outputs


@layer_register()
def PReLU(x: Any, init: float = 0.001, name: str | None = None) -> Any:
    """
    Rectify with a slope that is trained, called `PReLU(name, x)`.

    y = ((1 + alpha) x + (1 - alpha) |x|) / 2: x where it is positive, alpha x elsewhere.

    Shapes: any -> the same.

    Args:
        x: a tensor of any shape and floating dtype.
        init: the first value of alpha.
        name: not used any more.

    Returns:
        A tensor named `<name>/output`, with `.variables.alpha`.

    Variables: `alpha`, a scalar of the dtype of x, trained.

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers".
    tensorpack: same; there the output is named `Mul_<k>`.
    """
    x = tf.convert_to_tensor(x)
    alpha = tf.get_variable("alpha", [], x.dtype.base_dtype, tf.constant_initializer(init))
    slope = shared_read(alpha)
    outputs = tf.multiply((1 + slope) * x + (1 - slope) * tf.abs(x), 0.5, name="output")
    outputs.variables = VariableHolder(alpha=alpha)
    return outputs


@layer_register(use_scope=None)
def BNReLU(x: Any, name: str | None = None) -> Any:
    """
    Apply BatchNorm named `bn`, then ReLU: `BNReLU(x)`, or `Conv2D(..., activation=BNReLU)`.

    Shapes: as BatchNorm.

    Args:
        x: as the inputs of BatchNorm, which takes its other arguments from argscope.
        name: not used any more.

    Returns:
        A tensor named `Relu` in the current scope.

    Variables: those of BatchNorm, in `bn/`.

    Example:
        >>> x = Conv2D("conv0", x, 64, 3, activation=BNReLU)        # conv0/W, conv0/bn/gamma ...

    tensorpack: same.
    """
    return tf.nn.relu(BatchNorm("bn", x))

"""Nonlinearities that have variables or change the shape."""

from __future__ import annotations

from functools import partial

from ..compat import tfv1 as tf
from ..compat.variables import get_variable
from ..tfutils.early_read import shared_read
from ..tfutils.precision import variable_dtype
from ..tfutils.symbolic_functions import compute_in_float32
from .arguments import convert_to_tflayer_args
from .batch_norm import BatchNorm
from .checks import layer_title, require_integer, require_known_channels, require_rank
from .registry import layer_register
from .variables import VariableHolder


@layer_register(use_scope=None)
@convert_to_tflayer_args(args_names=["num_unit"], name_mapping={"nr_unit": "num_unit"})
def Maxout(x: tf.Tensor, num_unit: int) -> tf.Tensor:
    """
    Return the maximum of each `num_unit` neighboring channels, called `Maxout(x, num_unit)`.

    Shapes: [N, C] -> [N, C / num_unit]; [N, H, W, C] -> [N, H, W, C / num_unit].

    Args:
        x: [N, C] or [N, H, W, C]; C must be known and a multiple of num_unit.
        num_unit: the number of channels that become one.

    Returns:
        A tensor named `output` in the current scope.

    Raises:
        ValueError: the rank is wrong, or C is unknown or not a multiple.

    Source: Goodfellow et al. 2013, "Maxout networks".
    """
    x = require_rank("Maxout", x, (2, 4))
    channels = require_known_channels("Maxout", x, -1)
    num_unit = require_integer("Maxout", "num_unit", num_unit)
    if channels % num_unit:
        raise ValueError(
            f"{layer_title('Maxout')}: num_unit is invalid (expected a divisor of the {channels} channels, got {num_unit})."
        )
    shape = tf.concat([tf.shape(x)[:-1], [channels // num_unit, num_unit]], 0)
    # the gradient counts equal values, in the dtype of x
    outputs = tf.identity(compute_in_float32(partial(tf.reduce_max, axis=-1), tf.reshape(x, shape)), name="output")
    outputs.set_shape(x.shape.as_list()[:-1] + [channels // num_unit])
    return outputs


@layer_register()
def PReLU(x: tf.Tensor, init: float = 0.001, name: str | None = None) -> tf.Tensor:
    """
    Apply a rectified linear unit with a trained slope, called `PReLU(name, x)`.

    y = ((1 + alpha) x + (1 - alpha) |x|) / 2: x where x is positive, otherwise alpha x.

    Shapes: any -> the same.

    Args:
        x: a tensor of any shape and floating dtype.
        init: the initial value of alpha.
        name: ignored.

    Returns:
        A tensor named `<name>/output`, with `.variables.alpha`.

    Variables: `alpha`, a scalar of the dtype of x, trained.

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers".
    """
    x = tf.convert_to_tensor(x)
    alpha = get_variable("alpha", [], dtype=variable_dtype(x), initializer=tf.constant_initializer(init))

    def rectify(x: tf.Tensor, slope: tf.Tensor) -> tf.Tensor:
        return ((1 + slope) * x + (1 - slope) * tf.abs(x)) * 0.5

    outputs = tf.identity(compute_in_float32(rectify, x, shared_read(alpha)), name="output")
    outputs.variables = VariableHolder(alpha=alpha)
    return outputs


@layer_register(use_scope=None)
def BNReLU(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """
    Apply BatchNorm named `bn`, then ReLU: `BNReLU(x)`, or `Conv2D(..., activation=BNReLU)`.

    Shapes: as in BatchNorm.

    Args:
        x: as in BatchNorm, whose other arguments come from argscope.
        name: ignored.

    Returns:
        A tensor named `Relu` in the current scope.

    Variables: those of BatchNorm, with prefix `bn/`.

    Example:
        >>> x = Conv2D("conv0", x, 64, 3, activation=BNReLU)        # conv0/W, conv0/bn/gamma ...
    """
    return tf.nn.relu(BatchNorm("bn", x))

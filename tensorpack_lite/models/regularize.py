"""Regularization: costs on weights, and dropout."""

from __future__ import annotations

import re
from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..compat.private import inside_loop_or_xla
from ..tfutils.early_read import shared_read
from ..tfutils.random import dropout
from ..tfutils.symbolic_functions import widen
from ..utils import logger
from ..utils.argtools import graph_memoized, log_once
from ..utils.checks import check_fraction
from .checks import find_training, layer_title, require_tower_context, warn_if_called_twice
from .registry import layer_register


def l2_regularizer(scale: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """
    Return the regularizer: variable -> scale / 2 * sum of squares.

    Args:
        scale: the weight of the cost.

    Returns:
        A function of one tensor.

    Example:
        >>> wd_cost = regularize_cost("fc.*/W", l2_regularizer(1e-4))  # doctest: +SKIP
    """
    return _Regularizer("l2", scale, tf.nn.l2_loss)


def l1_regularizer(scale: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """
    Return the regularizer: variable -> scale * sum of absolute values.

    Args:
        scale: the weight of the cost.

    Returns:
        A function of one tensor.
    """
    return _Regularizer("l1", scale, lambda tensor: tf.reduce_sum(tf.abs(tensor)))


def regularize_cost(regex: str, func: Callable[[tf.Tensor], tf.Tensor], name: str = "regularize_cost") -> tf.Tensor:
    """
    Return the sum of a cost over the trainable variables whose name matches.

    A tower of replicated training only counts its copies of the variables. The matching variables are logged once per
    graph.

    Args:
        regex: a regular expression that is searched anywhere in the name of a variable, e.g. "conv.*/W". Do
            not anchor it with "^": in replicated training, names start with `tower<i>/`.
        func: variable -> scalar.
        name: the name of the resulting tensor.

    Returns:
        A float32 scalar. It is the constant 0, named `empty_<name>`, in inference or if no variable matches.

    Raises:
        ValueError: `regex` is empty.
        TypeError: `func` did not return a floating-point tensor.
        RuntimeError: the call is outside of a TowerContext.

    Example:
        >>> cost = tf.add(loss, regularize_cost("fc.*/W", l2_regularizer(1e-5)), name="cost")
    """
    if not regex:
        raise ValueError("regularize_cost: regex is empty. Use '.*' for all trainable variables.")
    variables = _collected_in_tower("regularize_cost", tf.GraphKeys.TRAINABLE_VARIABLES)
    if variables is None:
        return _no_cost(name)
    matching = [var for var in variables if re.search(regex, var.op.name)]
    if not matching:
        logger.warning(f"regularize_cost: no trainable variable matches '{regex}', so the cost is 0.")
        return _no_cost(name)
    names = ", ".join(var.op.name for var in matching)
    _log_once_in_graph(f"regularize_cost: found {len(matching)} variables to regularize: {names}")
    if isinstance(func, _Regularizer):
        return func.of_all(matching, name)
    with tf.name_scope(f"{name}_internals"):
        costs = [_as_cost(func(var), var.op.name) for var in matching]
    return tf.add_n(costs, name=name)


def regularize_cost_from_collection(name: str = "regularize_cost") -> tf.Tensor:
    """
    Return the sum of REGULARIZATION_LOSSES, where layers collect the costs of `kernel_regularizer` and
    similar arguments.

    A tower of replicated training only counts the costs that it added.

    Args:
        name: the name of the resulting tensor.

    Returns:
        A float32 scalar. It is the constant 0, named `empty_<name>`, in inference or if the collection is empty.

    Raises:
        RuntimeError: the call is outside of a TowerContext.
    """
    costs = _collected_in_tower("regularize_cost_from_collection", tf.GraphKeys.REGULARIZATION_LOSSES)
    if not costs:
        return _no_cost(name)
    _log_once_in_graph(f"regularize_cost_from_collection: found {len(costs)} losses in REGULARIZATION_LOSSES.")
    tensors = [_find_tensor(cost) for cost in costs]
    return tf.add_n([_as_cost(tensor, tensor.op.name) for tensor in tensors], name=name)


@layer_register(use_scope=None)
def Dropout(
    x: tf.Tensor,
    *args: float,
    keep_prob: float | None = None,
    rate: float | tf.Tensor | None = None,
    is_training: bool | None = None,
    training: bool | None = None,
    noise_shape: Sequence[int | None] | tf.Tensor | None = None,
    seed: int | None = None,
    name: str | None = None,
    counter: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """
    In training, set random values to zero, and scale up the others so that the mean stays the same.

    Shapes: any -> the same.

    Args:
        x: a tensor of any floating dtype.
        *args: one number, the probability to **keep** a value, as in old scripts. It is a warning unless it is 0.5.
        keep_prob: the same by keyword.
        rate: the probability to drop a value, in [0, 1), a number or a scalar tensor. Without `rate` and
            `keep_prob`, 0.5.
        is_training, training: whether to drop values (two names of one argument). None: given by the TowerContext.
        noise_shape: a shape that broadcasts with that of x. Values along an axis of size 1 are dropped together.
        seed: the seed of the random numbers.
        name: the name of the operation.
        counter: in a loop, a scalar integer that differs between iterations, so that exact resume covers the layer; see
            `tfutils.random.uniform`.

    Returns:
        A tensor like x; in inference, x itself.

    Raises:
        TypeError: there are several positional numbers, or `training` is a tensor.
        ValueError: both names of an argument are given, or the rate is outside of [0, 1).
        RuntimeError: the call is outside of a TowerContext, and `training` is None.

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """
    rate = _drop_rate(args, keep_prob, rate)
    if is_training is not None and training is not None:
        raise ValueError(f"{layer_title('Dropout')}: is_training and training are the same argument. Keep training.")
    if not find_training("Dropout", training if is_training is None else is_training):
        return x
    warn_if_called_twice("Dropout", "the second mask differs from the first, and the gradients are wrong")
    if isinstance(rate, tf.Tensor):
        rate = tf.cast(rate, tf.float32 if x.dtype.size == 2 else x.dtype.base_dtype)
    return dropout(x, rate=rate, noise_shape=noise_shape, seed=seed, name=name, counter=counter)


class _Regularizer:
    """A norm of a tensor times a weight. The sum over many tensors needs one multiplication and short names: a small graph."""

    def __init__(self, name: str, scale: float, norm: Callable[[tf.Tensor], tf.Tensor]) -> None:
        self._name = name
        self._scale = scale
        self._norm = norm

    def __call__(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the cost of one tensor, in its dtype; in float32 if that has 16 bits."""
        with tf.name_scope(f"{self._name}_regularizer"):
            norm = self._norm(widen(shared_read(tensor)))
            return tf.multiply(tf.constant(self._scale, norm.dtype), norm)

    def of_all(self, tensors: Sequence[tf.Tensor], name: str) -> tf.Tensor:
        """Return the cost of all tensors together, in float32."""
        with tf.name_scope(self._name):
            norms = [tf.cast(self._norm(widen(shared_read(tensor))), tf.float32) for tensor in tensors]
            total = tf.add_n(norms)
            scale = tf.constant(self._scale, tf.float32)
        return tf.multiply(scale, total, name=name)


def _drop_rate(args: tuple, keep_prob: float | None, rate: float | tf.Tensor | None) -> float | tf.Tensor:
    who = layer_title("Dropout")
    if len(args) > 1:
        raise TypeError(
            f"{who}: too many positional arguments (expected 1: keep_prob, got {len(args)}). Pass the others by keyword."
        )
    if args:
        if keep_prob is not None:
            raise ValueError(
                f"{who}: keep_prob is given twice, {args[0]} by position and {keep_prob} by keyword. Keep one."
            )
        if not isinstance(args[0], float) or args[0] != 0.5:
            log_once(
                f"{who}: the positional argument is the probability to keep a value. Pass rate=..., that to drop it.",
                func="warning",
            )
        keep_prob = args[0]
    if keep_prob is not None:
        if rate is not None:
            raise ValueError(f"{who}: keep_prob and rate cannot be combined. Keep rate, the probability to drop.")
        rate = 1 - keep_prob
    if rate is None:
        return 0.5
    return check_fraction(f"{who}: rate", rate) if isinstance(rate, (int, float)) else rate


def _collected_in_tower(who: str, key: str) -> list[tf.Tensor] | None:
    """Return the members of a collection that belong to the current tower; None in inference."""
    context = require_tower_context(who)
    if not context.is_training:
        return None
    return context.get_collection_in_tower(key) if context.has_own_variables else tf.get_collection(key)


def _find_tensor(cost: Any) -> tf.Tensor:
    """
    Return the tensor of a member of REGULARIZATION_LOSSES.

    TensorFlow 2 collects objects that compute the cost again at each use. Their names lead to the existing tensors, unless
    these are inside a condition or a loop, and cannot be used outside.
    """
    graph = tf.get_default_graph()
    if cost.graph is graph:
        tensor = graph.get_tensor_by_name(cost.name)
        if not inside_loop_or_xla(tensor.op):
            return tensor
    return tf.convert_to_tensor(cost)


def _as_cost(value: object, var_name: str) -> tf.Tensor:
    if not isinstance(value, tf.Tensor) or not value.dtype.is_floating:
        got = value.dtype.name if isinstance(value, tf.Tensor) else type(value).__name__
        raise TypeError(
            f"regularize_cost: the cost of '{var_name}' has the wrong type (expected a floating-point tensor, got {got})."
        )
    return tf.cast(value, tf.float32)


def _no_cost(name: str) -> tf.Tensor:
    return tf.constant(0, dtype=tf.float32, name=f"empty_{name}")


@graph_memoized
def _log_once_in_graph(message: str) -> None:
    logger.info(message)

"""Costs on weights, and dropout."""

from __future__ import annotations

import re
from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from ..utils import logger
from ..utils.argtools import graph_memoized, log_once
from .checks import layer_title, require_tower_context
from .registry import layer_register

__all__ = [
    "Dropout",
    "l1_regularizer",
    "l2_regularizer",
    "regularize_cost",
    "regularize_cost_from_collection",
]


def l2_regularizer(scale: float) -> Callable[[Any], Any]:
    """
    Make a regularizer: variable -> scale / 2 * sum of squares.

    Args:
        scale: its weight.

    Returns:
        A function of one tensor.

    Example:
        >>> wd_cost = regularize_cost("fc.*/W", l2_regularizer(1e-4))

    tensorpack: same (it is tf.contrib's); like there, the half is part of it.
    """
    return _Regularizer("l2", scale, tf.nn.l2_loss)


def l1_regularizer(scale: float) -> Callable[[Any], Any]:
    """
    Make a regularizer: variable -> scale * sum of absolute values.

    Args:
        scale: its weight.

    Returns:
        A function of one tensor.

    tensorpack: same.
    """
    return _Regularizer("l1", scale, lambda tensor: tf.reduce_sum(tf.abs(tensor)))


def regularize_cost(regex: str, func: Callable[[Any], Any], name: str = "regularize_cost") -> Any:
    """
    Sum a cost over the trained variables whose name matches.

    In a tower with variables of its own only those count. The variables found are logged once a graph.

    Args:
        regex: looked for anywhere in the name of a variable, e.g. "conv.*/W". In replicated towers names begin with
            `tower<i>/`, so do not anchor it with "^".
        func: variable -> scalar.
        name: of the resulting tensor.

    Returns:
        A float32 scalar; the constant 0, named `empty_<name>`, in a tower that is not trained or where nothing matches.

    Raises:
        ValueError: `regex` is empty.
        TypeError: `func` returned something that is no floating-point tensor.
        RuntimeError: called outside of a TowerContext.

    Example:
        >>> cost = tf.add(loss, regularize_cost("fc.*/W", l2_regularizer(1e-5)), name="cost")

    tensorpack: same.
    """
    if not regex:
        raise ValueError("regularize_cost: regex is empty. Use '.*' for all trained variables.")
    variables = _collected_in_tower("regularize_cost", tf.GraphKeys.TRAINABLE_VARIABLES)
    if variables is None:
        return _no_cost(name)
    matching = [var for var in variables if re.search(regex, var.op.name)]
    if not matching:
        logger.warning(f"regularize_cost: no trained variable matches '{regex}', so the cost is 0.")
        return _no_cost(name)
    names = ", ".join(var.op.name for var in matching)
    _log_once_in_graph(f"regularize_cost: found {len(matching)} variables to regularize: {names}")
    if isinstance(func, _Regularizer):
        return func.of_all(matching, name)
    with tf.name_scope(f"{name}_internals"):
        costs = [_as_cost(func(var), var.op.name) for var in matching]
    return tf.add_n(costs, name=name)


def regularize_cost_from_collection(name: str = "regularize_cost") -> Any:
    """
    Sum the costs in REGULARIZATION_LOSSES, where layers put theirs for `kernel_regularizer` and the like.

    In a tower with variables of its own only what the tower added counts.

    Args:
        name: of the resulting tensor.

    Returns:
        A float32 scalar; the constant 0, named `empty_<name>`, in a tower that is not trained or where there are none.

    Raises:
        RuntimeError: called outside of a TowerContext.

    tensorpack: same.
    """
    costs = _collected_in_tower("regularize_cost_from_collection", tf.GraphKeys.REGULARIZATION_LOSSES)
    if not costs:
        return _no_cost(name)
    _log_once_in_graph(
        f"regularize_cost_from_collection: found {len(costs)} losses in REGULARIZATION_LOSSES."
    )
    # TensorFlow 2 collects objects that compute the cost again at each use; their names are those of the plain tensors.
    tensors = [cost.graph.get_tensor_by_name(cost.name) for cost in costs]
    return tf.add_n([_as_cost(tensor, tensor.op.name) for tensor in tensors], name=name)


@layer_register(use_scope=None)
def Dropout(
    x: Any,
    *args: Any,
    keep_prob: float | None = None,
    rate: Any = None,
    is_training: bool | None = None,
    training: bool | None = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """
    Set values to zero at random in training, and scale up the others so that the mean stays.

    Shapes: any -> the same.

    Args:
        x: a tensor of any floating dtype.
        *args: one value, the probability to **keep**: an old habit, with a warning unless it is 0.5.
        keep_prob: the same by keyword.
        rate: the probability to drop, in [0, 1), or a scalar tensor of it; without it and keep_prob it is 0.5.
        is_training, training: whether to drop (two names of one argument); None asks the TowerContext.
        noise_shape: a shape that broadcasts to that of x: what is 1 in it is dropped together.
        seed: of the random numbers.
        name: of the operation.

    Returns:
        x itself where nothing is trained.

    Raises:
        TypeError: more than one positional value; `training` is a tensor.
        ValueError: both keep_prob and rate, both is_training and training, or a rate outside of [0, 1).
        RuntimeError: outside of a TowerContext, and `training` was not given.

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    tensorpack: same; there noise_shape, seed and name are ignored.
    """
    rate = _drop_rate(args, keep_prob, rate)
    if not _is_training(is_training, training):
        return x
    if isinstance(rate, tf.Tensor):
        rate = tf.cast(rate, x.dtype.base_dtype)
    return tf.nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed, name=name)


class _Regularizer:
    """A norm of a tensor times a weight. For many tensors it is multiplied once, in a scope of few letters: large graphs stay small."""

    def __init__(self, name: str, scale: float, norm: Callable[[Any], Any]) -> None:
        self._name = name
        self._scale = scale
        self._norm = norm

    def __call__(self, tensor: Any) -> Any:
        """Give the cost of one tensor, in its dtype."""
        with tf.name_scope(f"{self._name}_regularizer"):
            norm = self._norm(shared_read(tensor))
            return tf.multiply(tf.constant(self._scale, norm.dtype), norm)

    def of_all(self, tensors: Sequence[Any], name: str) -> Any:
        """Give the cost of all tensors together, in float32."""
        with tf.name_scope(self._name):
            norms = [tf.cast(self._norm(shared_read(tensor)), tf.float32) for tensor in tensors]
            total = tf.add_n(norms)
            scale = tf.constant(self._scale, tf.float32)
        return tf.multiply(scale, total, name=name)


def _drop_rate(args: tuple, keep_prob: Any, rate: Any) -> Any:
    who = layer_title("Dropout")
    if len(args) > 1:
        raise TypeError(
            f"{who}: takes one positional value, keep_prob, got {len(args)}. Pass the others by keyword."
        )
    if args:
        if keep_prob is not None:
            raise ValueError(
                f"{who}: keep_prob was given twice, {args[0]} by position and {keep_prob} by keyword."
            )
        if not isinstance(args[0], float) or args[0] != 0.5:
            log_once(
                f"{who}: the positional argument is the probability to keep. Write rate=... for the probability to drop.",
                func="warning",
            )
        keep_prob = args[0]
    if keep_prob is not None:
        if rate is not None:
            raise ValueError(f"{who}: got both keep_prob and rate. Keep rate, the probability to drop.")
        rate = 1 - keep_prob
    if rate is None:
        return 0.5
    if isinstance(rate, (int, float)) and not 0 <= rate < 1:
        raise ValueError(f"{who}: rate is {rate}, the probability to drop, wanted 0 <= rate < 1.")
    return rate


def _is_training(is_training: Any, training: Any) -> bool:
    if is_training is not None and training is not None:
        raise ValueError(f"{layer_title('Dropout')}: got both is_training and training. Keep training.")
    wanted = training if is_training is None else is_training
    if wanted is None:
        return require_tower_context(layer_title("Dropout"), "Or pass training=True or False.").is_training
    if isinstance(wanted, tf.Tensor):
        raise TypeError(
            f"{layer_title('Dropout')}: training takes True or False, got a tensor. Build one tower for each."
        )
    return bool(wanted)


def _collected_in_tower(who: str, key: str) -> list[Any] | None:
    """Get the members of a collection that concern the current tower; None if it is not trained."""
    context = require_tower_context(who)
    if not context.is_training:
        return None
    return context.get_collection_in_tower(key) if context.has_own_variables else tf.get_collection(key)


def _as_cost(value: Any, var_name: str) -> Any:
    if not isinstance(value, tf.Tensor) or not value.dtype.is_floating:
        got = value.dtype.name if isinstance(value, tf.Tensor) else type(value).__name__
        raise TypeError(f"regularize_cost: the cost of '{var_name}' is a floating-point tensor, got {got}.")
    return tf.cast(value, tf.float32)


def _no_cost(name: str) -> Any:
    return tf.constant(0, dtype=tf.float32, name=f"empty_{name}")


@graph_memoized
def _log_once_in_graph(message: str) -> None:
    logger.info(message)

"""Gradients of one tower."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..tfutils.dependency import operations_needed
from ..tfutils.gradproc import FilterNoneGrad, GradVars
from ..tfutils.tower.context import BaseTowerContext, get_current_tower_context
from ..utils.gpu import get_num_gpu


class GradientOptions(NamedTuple):
    """Options of `Optimizer.compute_gradients`; see the attributes of `SingleCostTrainer`."""

    gate_gradients: Any = None  # see `_are_gated`
    colocate: bool = True
    aggregation_method: Any = None
    xla_compile: bool = False


def make_get_grads(
    get_inputs: Callable[[], Sequence[tf.Tensor]],
    get_cost_fn: Callable[..., tf.Tensor],
    get_opt_fn: Callable[[], tf.train.Optimizer],
    options: GradientOptions,
) -> Callable[[], GradVars | None]:
    """
    Return the function that builds one training tower.

    Args:
        get_inputs: returns the input tensors of a tower.
        get_cost_fn: builds the model on them and returns a scalar cost.
        get_opt_fn: returns the optimizer. Its first call happens inside the first tower.
        options: the options of the gradients.

    Returns:
        A function without arguments, to be called in a tower context. It returns the `(gradient, variable)`
        pairs of the tower, for its copies of the variables if it has any, otherwise for all trainable
        variables. It leaves out variables without gradient, with a warning. In an inference tower, it returns
        None.
    """

    def get_grads() -> GradVars | None:
        inputs = get_inputs()
        if options.xla_compile:
            return _grads_under_xla(lambda: _checked_cost(get_cost_fn(*inputs)), get_opt_fn, options)
        cost = _checked_cost(get_cost_fn(*inputs))
        if not _tower_or_raise().is_training:
            return None
        return FilterNoneGrad().process(_compute(cost, get_opt_fn, options))

    return get_grads


def _are_gated(cost: tf.Tensor) -> bool:
    """
    Return whether the gradients of one operation should wait for each other, if nothing is set.

    On a CPU, the gradient of a kernel and that of the input are both large and need the same cores, so one after the other is up to
    8 % faster (benchmarks/threads.py --gated 0 1). The gradient of a batch normalization needs memory instead, and is computed
    at the same time: with it, waiting is up to 5 % slower.
    """
    return not get_num_gpu() and not any(op.type.startswith("FusedBatchNorm") for op in operations_needed([cost]))


def _compute(cost: tf.Tensor, get_opt_fn: Callable[[], tf.train.Optimizer], options: GradientOptions) -> GradVars:
    gated = _are_gated(cost) if options.gate_gradients is None else options.gate_gradients
    return get_opt_fn().compute_gradients(
        cost,
        var_list=_variables_to_train(),
        gate_gradients=gated,
        colocate_gradients_with_ops=options.colocate,
        aggregation_method=options.aggregation_method,
    )


def _grads_under_xla(
    get_cost: Callable[[], tf.Tensor], get_opt_fn: Callable[[], tf.train.Optimizer], options: GradientOptions
) -> GradVars:
    """Compile the cost and gradients together. The same variables are found again outside, in the same order."""
    xla: Any = getattr(getattr(tensorflow, "xla", tf.xla), "experimental", None)
    if not hasattr(xla, "compile"):
        raise RuntimeError(
            f"XLA_COMPILE: TensorFlow {tensorflow.__version__} has no tf.xla.experimental.compile. Set XLA_COMPILE = False."
        )

    def only_grads() -> list[tf.Tensor]:
        return [grad for grad, _ in FilterNoneGrad().process(_compute(get_cost(), get_opt_fn, options))]

    grads = xla.compile(only_grads)
    variables = _variables_to_train()
    if len(grads) != len(variables):
        raise ValueError(
            f"XLA_COMPILE: some variables have no gradient (expected {len(variables)} gradients, got {len(grads)}). Use each "
            "trainable variable in the cost, or set XLA_COMPILE = False."
        )
    return list(zip(grads, variables))


def _variables_to_train() -> list[tf.Variable]:
    context = _tower_or_raise()
    if context.has_own_variables:
        variables = context.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    else:
        variables = tf.trainable_variables()
    if not variables:
        raise ValueError(
            f"{context}: the model has no trainable variables. Create them with tf.get_variable inside the tower function."
        )
    return variables


def _checked_cost(cost: object) -> tf.Tensor:
    if not isinstance(cost, tf.Tensor):
        raise TypeError(
            f"The tower function returned the wrong type (expected the cost, a scalar tensor, got {type(cost).__name__}). End "
            "build_graph with `return cost`."
        )
    if cost.shape.ndims != 0:
        raise ValueError(
            f"The tower function returned a cost of the wrong shape (expected a scalar, got {cost.shape}: {cost.name}). Use "
            "tf.reduce_mean."
        )
    return cost


def _tower_or_raise() -> BaseTowerContext:
    context = get_current_tower_context()
    if context is None:
        raise RuntimeError("make_get_grads: the function was called outside of a tower. Call it in a TowerContext.")
    return context

"""From a cost to the gradients of one tower."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..tfutils.gradproc import FilterNoneGrad, GradVars
from ..tfutils.tower.context import get_current_tower_context

__all__ = ["GradientOptions", "make_get_grads"]


class GradientOptions(NamedTuple):
    """How `Optimizer.compute_gradients` is called; see the switches of `SingleCostTrainer`."""

    gate_gradients: Any = False
    colocate: bool = True
    aggregation_method: Any = None
    xla_compile: bool = False


def make_get_grads(
    get_inputs: Callable[[], Sequence[Any]],
    get_cost_fn: Callable[..., Any],
    get_opt_fn: Callable[[], Any],
    options: GradientOptions,
) -> Callable[[], GradVars | None]:
    """
    Make the function that builds one training tower.

    Args:
        get_inputs: gives the input tensors of a tower.
        get_cost_fn: builds the model on them; returns a scalar cost.
        get_opt_fn: gives the optimizer; its first call happens inside the first tower.
        options: how gradients are taken.

    Returns:
        A function without arguments, to be called under a tower context: returns the tower's `(gradient, variable)`
        pairs, of variables made in this tower if it has its own, else of all trainable ones; None in an
        inference tower. Variables without gradient are left out, with a warning.
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


def _compute(cost: Any, get_opt_fn: Callable[[], Any], options: GradientOptions) -> GradVars:
    return get_opt_fn().compute_gradients(
        cost,
        var_list=_variables_to_train(),
        gate_gradients=options.gate_gradients,
        colocate_gradients_with_ops=options.colocate,
        aggregation_method=options.aggregation_method,
    )


def _grads_under_xla(
    get_cost: Callable[[], Any], get_opt_fn: Callable[[], Any], options: GradientOptions
) -> GradVars:
    """Compile cost and gradients as one; the variables are found again outside, by the same rule and in the same order."""
    xla = getattr(getattr(tensorflow, "xla", tf.xla), "experimental", None)
    if not hasattr(xla, "compile"):
        raise RuntimeError(
            f"XLA_COMPILE: TensorFlow {tensorflow.__version__} has no tf.xla.experimental.compile. Leave XLA_COMPILE False."
        )

    def only_grads() -> list[Any]:
        return [grad for grad, _ in FilterNoneGrad().process(_compute(get_cost(), get_opt_fn, options))]

    grads = xla.compile(only_grads)
    variables = _variables_to_train()
    if len(grads) != len(variables):
        raise ValueError(
            f"XLA_COMPILE: {len(grads)} gradients came for {len(variables)} trainable variables. Under XLA each variable "
            "must have a gradient."
        )
    return list(zip(grads, variables))


def _variables_to_train() -> list[Any]:
    context = _tower_or_raise()
    if context.has_own_variables:
        variables = context.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    else:
        variables = tf.trainable_variables()
    if not variables:
        raise ValueError(
            f"{context}: the model has no trainable variables, so there is nothing to train. Make them with "
            "tf.get_variable inside the tower function."
        )
    return variables


def _checked_cost(cost: Any) -> Any:
    if not isinstance(cost, tf.Tensor):
        raise TypeError(
            f"The tower function returned {type(cost).__name__}, wanted the cost, a scalar tensor. Does build_graph end in "
            "`return cost`?"
        )
    if cost.shape.ndims != 0:
        raise ValueError(
            f"The tower function returned cost {cost.name} of shape {cost.shape}, wanted a scalar. Use tf.reduce_mean."
        )
    return cost


def _tower_or_raise() -> Any:
    context = get_current_tower_context()
    if context is None:
        raise RuntimeError("Gradients of a tower are taken under its TowerContext, and there is none here.")
    return context

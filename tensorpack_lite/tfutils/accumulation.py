"""Optimizer wrapper that accumulates gradients."""

from __future__ import annotations

import functools
from typing import Any

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.variables import save_like
from ..utils.checks import check_at_least
from ..utils.errors import type_error
from ..utils.naming import TOWER_PREFIX
from .gradproc import GradVars
from .proxy_optimizer import ProxyOptimizer, apply_if, is_resource


class AccumGradOptimizer(ProxyOptimizer):
    """
    Optimizer wrapper that adds up the gradients of `niter` calls and applies their sum: a larger batch in less memory.

    The wrapped optimizer gets the sum, not the mean. For the mean, divide the cost or the learning rate by `niter`.

    Args:
        opt: a `tf.train.Optimizer`.
        niter: n, >= 1. The variables are updated at calls n, 2n, 3n ...

    Raises:
        TypeError: `niter` is not an integer. Raised by `apply_gradients`: a gradient or a variable has another type.
        ValueError: `niter` is less than 1. Raised by `apply_gradients`: no variable has a gradient, or a
            variable is a ref variable while TF 2's control flow is enabled.

    Variables:
        `<var>/AccumGrad` with the shape of each variable, and for each tower the int32 counter
        `AccumGrad/counter` (after the name scope of the call) on the CPU. None is trained, and all are saved
        with the model like other slots. Those for a tower's copies of variables are local, like the copies,
        and their names start with `tower<i>/`.

    Example:
        >>> AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), niter=4)

    Note: processors that create summaries must be outside: `apply_grad_processors(AccumGradOptimizer(opt, n), [...])`.
    """

    def __init__(self, opt: tf.train.Optimizer, niter: int) -> None:
        super().__init__(opt, "AccumGrad")
        if isinstance(niter, bool) or not isinstance(niter, int):
            raise type_error("AccumGradOptimizer: niter", "an integer", niter)
        self._niter = check_at_least("AccumGradOptimizer: niter", niter, 1)
        self._accumulators: dict[tuple[int, ...], tuple[list[Any], list[Any], Any]] = {}

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """
        Add the gradients to the sums, and apply the sums at every `niter`-th call.

        Args:
            grads_and_vars: as for other optimizers. Pairs without a gradient are omitted.
            global_step: a variable to increment at each call, or None.
            name: name of the operation. None means `AccumGradOptimizer/cond_update_grad`.

        Returns:
            An operation.
        """
        grads_and_vars = self._with_gradient(grads_and_vars)
        _check(grads_and_vars)
        # AsyncMultiGPUTrainer passes several gradients of each variable, which have one sum
        variables = list({id(var): var for _, var in grads_and_vars}.values())
        sums, counter = self._sums_and_counter(variables)
        sum_of = {id(var): total for var, total in zip(variables, sums)}
        outer_scope = tf.get_default_graph().get_name_scope()
        with tf.name_scope("AccumGradOptimizer"):
            added = [_add(sum_of[id(var)], grad) for grad, var in grads_and_vars]
            with tf.control_dependencies(added):  # a step that fails, e.g. for lack of data, does not count
                counted = counter.assign_add(1, read_value=False)
            with tf.control_dependencies([counted]):
                is_due = tf.equal(tf.mod(counter.read_value(), self._niter), 0)
            apply = functools.partial(self._apply_sums, sums, variables, outer_scope)
            done = apply_if("AccumGradOptimizer", is_due, variables, apply)
            with tf.control_dependencies([done]):
                stepped = [] if global_step is None else [global_step.assign_add(1, read_value=False)]
            if name is None:
                return tf.group(done, *stepped, name="cond_update_grad")
        return tf.group(done, *stepped, name=name)

    def _apply_sums(self, sums: list[tf.Variable], variables: list[tf.Variable], outer_scope: str) -> tf.Tensor:
        """Apply and clear the sums. The wrapped optimizer's variables get the same names as without accumulation."""
        with tf.name_scope(f"{outer_scope}/" if outer_scope else None):
            update = self._opt.apply_gradients([(total.read_value(), var) for total, var in zip(sums, variables)])
        with tf.control_dependencies([update]):
            cleared = [total.assign(tf.zeros(total.shape, total.dtype.base_dtype), read_value=False) for total in sums]
        with tf.control_dependencies(cleared):
            return tf.constant(True)

    def _sums_and_counter(self, variables: list[tf.Variable]) -> tuple[list[tf.Variable], tf.Variable]:
        """Return the sums and the counter of these variables. A second call with the same variables returns the same ones."""
        key = tuple(id(var) for var in variables)
        if key not in self._accumulators:
            with tf.control_dependencies(None):
                sums = [_make_sum(var) for var in variables]
                counter = _make_counter(variables)
            # a reference to the variables, so that their ids stay valid
            self._accumulators[key] = (variables, sums, counter)
        return self._accumulators[key][1:]


def _check(grads_and_vars: GradVars) -> None:
    for grad, var in grads_and_vars:
        if not isinstance(grad, (tf.Tensor, tf.IndexedSlices)):
            raise type_error("AccumGradOptimizer: a gradient", "a tensor or IndexedSlices", grad)
        if not isinstance(var, tensorflow.Variable):
            raise type_error("AccumGradOptimizer", "a variable for each gradient", var)


def _make_sum(var: tf.Variable) -> tf.Variable:
    with tf.device(var.device):
        name = f"{_name_in_current_scope(var.op.name)}/AccumGrad"
        total = _make_zeros(name, var.shape, var.dtype.base_dtype, var)
    save_like(total, var)
    return total


def _make_counter(variables: list[tf.Variable]) -> tf.Variable:
    """Create the counter of a tower. Its name starts with the tower's prefix if the names of the variables do."""
    tower = TOWER_PREFIX.match(variables[0].op.name)
    name_scope = tf.get_default_graph().get_name_scope()
    scope = (tower.group() if tower else "") + (f"{name_scope}/" if name_scope else "") + "AccumGrad"
    with tf.variable_scope(None, default_name=scope, auxiliary_name_scope=False), tf.device("/cpu:0"):
        return _make_zeros("counter", [], tf.int32, variables[0])


def _make_zeros(name: str, shape: tf.TensorShape | list[int], dtype: tf.DType, like: tf.Variable) -> tf.Variable:
    """Create a variable that is not trained, a resource variable if another one is."""
    return tf.get_variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=is_resource(like),
    )


def _name_in_current_scope(name: str) -> str:
    """Return a variable's name relative to the current variable scope, which `tf.get_variable` adds again."""
    scope = tf.get_variable_scope().name
    return name[len(scope) + 1 :] if scope and name.startswith(f"{scope}/") else name


def _add(total: tf.Variable, grad: tf.Tensor | tf.IndexedSlices) -> tf.Operation | tf.Tensor:
    """Add a gradient to its sum. Returns an operation or tensor to wait for."""
    if isinstance(grad, tf.IndexedSlices):
        return tf.scatter_add(total, grad.indices, tf.cast(grad.values, total.dtype.base_dtype))
    return total.assign_add(tf.cast(grad, total.dtype.base_dtype), read_value=False)


def steps_per_update(optimizer: tf.train.Optimizer) -> int:
    """Return the number of steps for which an optimizer accumulates gradients."""
    while isinstance(optimizer, ProxyOptimizer):
        if isinstance(optimizer, AccumGradOptimizer):
            return optimizer._niter
        optimizer = optimizer._opt
    return 1

"""Optimizers around optimizers: process gradients first, accumulate them, or do something after the update."""

from __future__ import annotations

import re
from typing import Any, Callable, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..utils.errors import type_error
from .gradproc import FilterNoneGrad, GradientProcessor, GradVars

__all__ = [
    "AccumGradOptimizer",
    "PostProcessOptimizer",
    "ProxyOptimizer",
    "VariableAssignmentOptimizer",
    "apply_grad_processors",
    "split_processors",
]

_TOWER_PREFIX = re.compile(r"tower[0-9]+/")


class ProxyOptimizer(tf.train.Optimizer):
    """
    An optimizer that leaves everything to another one; a base class.

    Args:
        opt: a `tf.train.Optimizer`.
        name: of this one.

    Raises:
        TypeError: `opt` is something else, e.g. a Keras optimizer.

    tensorpack: same.
    """

    def __init__(self, opt: Any, name: str = "ProxyOptimizer") -> None:
        if not isinstance(opt, tf.train.Optimizer):
            raise type_error(name, "a tf.train.Optimizer", opt, "Use tfv1.train.AdamOptimizer and the like.")
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradVars:
        """Compute gradients as the other optimizer does."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Apply gradients as the other optimizer does; returns an operation."""
        return self._opt.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Get a slot of the other optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Name the slots of the other optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        """List the variables of the other optimizer."""
        return self._opt.variables()


def apply_grad_processors(opt: Any, gradprocs: Sequence[GradientProcessor]) -> ProxyOptimizer:
    """
    Wrap an optimizer so that gradients pass through processors before they are applied.

    Args:
        opt: a `tf.train.Optimizer`.
        gradprocs: a list of GradientProcessor, used in this order.

    Returns:
        A `tf.train.Optimizer`.

    Raises:
        TypeError: something else.

    Example:
        >>> apply_grad_processors(opt, [GlobalNormClip(5.0), SummaryGradient()])

    Note: processing is part of `apply_gradients`. In trainers that combine the gradients of several towers it comes after that;
    in AsyncMultiGPUTrainer, which does not combine them, it sees those of each tower.

    tensorpack: same; there the errors are AssertionErrors.
    """
    if not isinstance(gradprocs, (list, tuple)):
        raise type_error("apply_grad_processors", "a list of GradientProcessor", gradprocs)
    for processor in gradprocs:
        if not isinstance(processor, GradientProcessor):
            raise type_error("apply_grad_processors", "a list of GradientProcessor", processor)
    return _ProcessingOptimizer(opt, gradprocs)


class _ProcessingOptimizer(ProxyOptimizer):
    """What `apply_grad_processors` returns."""

    def __init__(self, opt: Any, processors: Sequence[GradientProcessor]) -> None:
        super().__init__(opt, "apply_grad_processors")
        self._processors = list(processors)

    def process(self, grads: GradVars) -> GradVars:
        """Process gradients without applying them."""
        for processor in self._processors:
            grads = processor.process(grads)
        return grads

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Process the gradients, then apply them."""
        grads = self.process(list(grads_and_vars))
        return self._opt.apply_gradients(grads, global_step=global_step, name=name)


def split_processors(opt: Any) -> tuple[Callable[[GradVars], GradVars], Any]:
    """
    Take off the gradient processors that are around an optimizer, for a trainer that applies gradients in parts.

    Args:
        opt: a `tf.train.Optimizer`.

    Returns:
        A function that processes the gradients of a tower, and the optimizer to apply the results with. Processors inside of
        another optimizer, such as an AccumGradOptimizer, stay where they are.
    """
    if not isinstance(opt, _ProcessingOptimizer):
        return list, opt
    process_rest, inner = split_processors(opt._opt)
    return lambda grads: process_rest(opt.process(grads)), inner


class PostProcessOptimizer(ProxyOptimizer):
    """
    Do something to each variable after its update.

    Args:
        opt: a `tf.train.Optimizer`.
        func: `f(var)` -> an operation, or None for nothing. What it creates runs after the update.
        colocate: place what it creates on the device of the variable.

    Raises:
        TypeError: in `apply_gradients`: `func` returned something else.

    Note: with a ref variable, use `var.read_value()` in `func`; its plain value may be that of before the update.

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self, opt: Any, func: Callable[[Any], Any], colocate: bool = True) -> None:
        super().__init__(opt, "PostProcessOptimizer")
        self._func = func
        self._colocate = colocate

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Apply the gradients, then post-process the variables; returns an operation."""
        grads_and_vars = list(grads_and_vars)
        update = self._opt.apply_gradients(grads_and_vars, global_step=global_step)
        with tf.control_dependencies([update]):
            done = [self._post_process(var) for _, var in grads_and_vars]
        return tf.group(update, *[op for op in done if op is not None], name=name)

    def _post_process(self, var: Any) -> Any:
        with tf.device(var.device if self._colocate else None):
            op = self._func(var)
        if op is not None and not isinstance(op, tf.Operation):
            raise type_error(
                type(self).__name__, "func to return an operation or None", op, "Return tensor.op?"
            )
        return op


class VariableAssignmentOptimizer(PostProcessOptimizer):
    """
    Assign a new value to each variable after its update, e.g. to clip or to quantise it.

    Args:
        opt: a `tf.train.Optimizer`.
        func: `f(var)` -> its new value, a tensor; or None to leave it.

    Example:
        >>> VariableAssignmentOptimizer(opt, lambda var: tf.clip_by_value(var, -1.0, 1.0))

    Note: with a ref variable, use `var.read_value()` in `func`; its plain value may be that of before the update.

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self, opt: Any, func: Callable[[Any], Any]) -> None:
        super().__init__(opt, self._assign)
        self._new_value = func

    def _assign(self, var: Any) -> Any:
        value = self._new_value(var)
        return None if value is None else var.assign(value, read_value=False)


class AccumGradOptimizer(ProxyOptimizer):
    """
    Add the gradients of `niter` calls up, and apply the sum at every `niter`-th call: a larger batch in less memory.

    The other optimizer sees the sum, not the mean. Divide the cost, or the learning rate, if you want the mean.

    Args:
        opt: a `tf.train.Optimizer`.
        niter: n; the variables change at calls n, 2n, 3n ...; >= 1.

    Raises:
        TypeError: `niter` is no integer; in `apply_gradients`: gradients or variables of another kind.
        ValueError: `niter` is below 1; in `apply_gradients`: there is no gradient at all, or a variable of the old kind
            under TF 2's control flow.

    Variables:
        `<var>/AccumGrad` as large as each variable, and the int32 counter `AccumGrad/counter` (behind the name scope of the call)
        on the CPU, one for each tower. None is trained; all are saved with the model like other slots. Those of a tower's own
        copies begin with `tower<i>/` and are local, like the copies.

    Example:
        >>> AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), niter=4)

    Note: processors that make summaries belong outside: `apply_grad_processors(AccumGradOptimizer(opt, n), [...])`.

    tensorpack: same; there the counter is read before or after its increment, as it happens, and all towers but the first
    keep it in the checkpoint.
    """

    def __init__(self, opt: Any, niter: int) -> None:
        super().__init__(opt, "AccumGrad")
        if isinstance(niter, bool) or not isinstance(niter, int):
            raise type_error("AccumGradOptimizer", "an integer as niter", niter)
        if niter < 1:
            raise ValueError(f"AccumGradOptimizer: niter is {niter}, wanted >= 1.")
        self._niter = niter
        self._accumulators: dict[tuple[int, ...], tuple[list[Any], list[Any], Any]] = {}

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: Any = None, name: str | None = None
    ) -> Any:
        """
        Add the gradients to the sums, and apply the sums if it is time.

        Args:
            grads_and_vars: as of other optimizers; pairs without gradient are left out.
            global_step: a variable to increment at each call, or None.
            name: of the operation; None means `AccumGradOptimizer/cond_update_grad`.

        Returns:
            An operation.
        """
        grads_and_vars = FilterNoneGrad().process(list(grads_and_vars))
        _check(grads_and_vars)
        # AsyncMultiGPUTrainer gives each variable with several gradients: they have one sum.
        variables = list({id(var): var for _, var in grads_and_vars}.values())
        sums, counter = self._sums_and_counter(variables)
        sum_of = {id(var): total for var, total in zip(variables, sums)}
        outer_scope = tf.get_default_graph().get_name_scope()
        with tf.name_scope("AccumGradOptimizer"):
            added = [_add(sum_of[id(var)], grad) for grad, var in grads_and_vars]
            counted = counter.assign_add(1, read_value=False)
            with tf.control_dependencies([counted, *added]):
                is_time = tf.equal(tf.mod(counter.read_value(), self._niter), 0)
            done = tf.cond(
                is_time, lambda: self._apply_sums(sums, variables, outer_scope), lambda: tf.constant(False)
            )
            with tf.control_dependencies([done]):
                stepped = [] if global_step is None else [global_step.assign_add(1, read_value=False)]
            if name is None:
                return tf.group(done, *stepped, name="cond_update_grad")
        return tf.group(done, *stepped, name=name)

    def _apply_sums(self, sums: list[Any], variables: list[Any], outer_scope: str) -> Any:
        """Apply and clear the sums; variables that the other optimizer makes get the names they have without accumulation."""
        with tf.name_scope(f"{outer_scope}/" if outer_scope else None):
            update = self._opt.apply_gradients(
                [(total.read_value(), var) for total, var in zip(sums, variables)]
            )
        with tf.control_dependencies([update]):
            cleared = [
                total.assign(tf.zeros(total.shape, total.dtype.base_dtype), read_value=False)
                for total in sums
            ]
        with tf.control_dependencies(cleared):
            return tf.constant(True)

    def _sums_and_counter(self, variables: list[Any]) -> tuple[list[Any], Any]:
        """Make what is accumulated for these variables; the same for a second call with the same ones."""
        key = tuple(id(var) for var in variables)
        if key not in self._accumulators:
            with tf.control_dependencies(None):
                sums = [_make_sum(var) for var in variables]
                counter = _make_counter(variables)
            # with the variables, so that their ids stay theirs
            self._accumulators[key] = (variables, sums, counter)
        return self._accumulators[key][1:]


def _check(grads_and_vars: GradVars) -> None:
    if not grads_and_vars:
        raise ValueError(
            "AccumGradOptimizer: no variable has a gradient. Does the cost depend on the variables?"
        )
    for grad, var in grads_and_vars:
        if not isinstance(grad, (tf.Tensor, tf.IndexedSlices)):
            raise type_error("AccumGradOptimizer", "tensors or IndexedSlices as gradients", grad)
        if not isinstance(var, tensorflow.Variable):
            raise type_error("AccumGradOptimizer", "variables to apply gradients to", var)
        if tf.control_flow_v2_enabled() and not _is_resource(var):
            raise ValueError(
                f"AccumGradOptimizer: '{var.op.name}' is a ref variable, which TF 2's control flow cannot assign. Create it with "
                "use_resource=True, or call tf.compat.v1.disable_control_flow_v2() first."
            )


def _is_resource(var: Any) -> bool:
    return var.op.type == "VarHandleOp"


def _make_sum(var: Any) -> Any:
    with tf.device(var.device):
        return tf.get_variable(
            f"{_name_in_current_scope(var.op.name)}/AccumGrad",
            shape=var.shape,
            dtype=var.dtype.base_dtype,
            initializer=tf.zeros_initializer(),
            trainable=False,
            use_resource=_is_resource(var),
        )


def _make_counter(variables: list[Any]) -> Any:
    """Make a counter of its own for each tower, under a name that ties it to the tower like the variables themselves."""
    tower = _TOWER_PREFIX.match(variables[0].op.name)
    name_scope = tf.get_default_graph().get_name_scope()
    scope = (tower.group() if tower else "") + (f"{name_scope}/" if name_scope else "") + "AccumGrad"
    with tf.variable_scope(None, default_name=scope, auxiliary_name_scope=False), tf.device("/cpu:0"):
        return tf.get_variable(
            "counter",
            shape=[],
            dtype=tf.int32,
            initializer=tf.zeros_initializer(),
            trainable=False,
            use_resource=_is_resource(variables[0]),
        )


def _name_in_current_scope(name: str) -> str:
    """Make a variable's full name relative to the current variable scope, which `tf.get_variable` puts before."""
    scope = tf.get_variable_scope().name
    return name[len(scope) + 1 :] if scope and name.startswith(f"{scope}/") else name


def _add(total: Any, grad: Any) -> Any:
    """Add a gradient to its sum; returns an operation or tensor to wait for."""
    if isinstance(grad, tf.IndexedSlices):
        return tf.scatter_add(total, grad.indices, tf.cast(grad.values, total.dtype.base_dtype))
    return total.assign_add(tf.cast(grad, total.dtype.base_dtype), read_value=False)

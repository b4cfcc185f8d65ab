"""
Optimizers, and wrappers that process or accumulate gradients, or change variables after the update.

The larger classes are defined in separate modules; scripts find all of them here.
"""

from __future__ import annotations

from typing import Callable, Sequence

from ..compat import tfv1 as tf
from ..utils.checks import check_at_least, check_positive, check_type
from ..utils.errors import type_error
from .accumulation import AccumGradOptimizer
from .gradproc import GlobalNormClip, GradientProcessor, GradVars, MapGradient, ScaleGradient
from .lamb import LAMBOptimizer
from .proxy_optimizer import ProxyOptimizer
from .symbolic_functions import map_values, sum_repeated_rows
from .weight_decay import AdamWOptimizer, DecoupledDecayOptimizer, SGDWOptimizer

__all__ = [
    "AccumGradOptimizer", "AdamWOptimizer", "DecoupledDecayOptimizer", "LAMBOptimizer",
    "PostProcessOptimizer", "ProxyOptimizer", "SGDWOptimizer", "VariableAssignmentOptimizer",
    "accumulate_gradients", "apply_grad_processors", "clip_by_global_norm", "clip_by_norm", "clip_by_value",
]  # fmt: skip


def apply_grad_processors(opt: tf.train.Optimizer, gradprocs: Sequence[GradientProcessor]) -> ProxyOptimizer:
    """
    Return an optimizer that processes gradients before it applies them.

    Args:
        opt: a `tf.train.Optimizer`.
        gradprocs: a list of GradientProcessor, applied in this order.

    Returns:
        A `tf.train.Optimizer`.

    Raises:
        TypeError: an argument has another type.

    Example:
        >>> apply_grad_processors(opt, [GlobalNormClip(5.0), SummaryGradient()])

    Note: `apply_gradients` processes the gradients. Trainers that combine the gradients of several towers
    combine them first. AsyncMultiGPUTrainer does not combine them, so it processes those of each tower.
    """
    check_type("apply_grad_processors: gradprocs", gradprocs, (list, tuple))
    for processor in gradprocs:
        check_type("apply_grad_processors: an item of gradprocs", processor, GradientProcessor)
    return _ProcessingOptimizer(opt, gradprocs)


class _ProcessingOptimizer(ProxyOptimizer):
    """The optimizer that `apply_grad_processors` returns."""

    def __init__(self, opt: tf.train.Optimizer, processors: Sequence[GradientProcessor]) -> None:
        super().__init__(opt, "apply_grad_processors")
        self._processors = list(processors)

    def process(self, grads: GradVars) -> GradVars:
        """Process gradients without applying them."""
        for processor in self._processors:
            grads = processor.process(grads)
        return grads

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Process the gradients, then apply them."""
        pairs = list(grads_and_vars)
        self.watch(pairs)
        return super().apply_gradients(self.process(pairs), global_step, name)


def clip_by_global_norm(opt: tf.train.Optimizer, norm: float) -> ProxyOptimizer:
    """
    Return an optimizer that scales down all gradients by a common factor if their joint L2 norm is above `norm`.

    Args:
        opt: a `tf.train.Optimizer`.
        norm: the maximum norm; > 0.

    Raises:
        ValueError: `norm` is not positive.

    Example:
        >>> clip_by_global_norm(tf.train.AdamOptimizer(1e-3), 1.0)
    """
    return apply_grad_processors(opt, [GlobalNormClip(norm)])


def clip_by_norm(opt: tf.train.Optimizer, norm: float) -> ProxyOptimizer:
    """Return an optimizer that scales down the gradient of each variable whose L2 norm is above `norm`, which is > 0."""
    limit = float(check_positive("clip_by_norm: norm", norm))
    return _clip_by(opt, lambda values: tf.clip_by_norm(values, limit))


def clip_by_value(opt: tf.train.Optimizer, limit: float) -> ProxyOptimizer:
    """Return an optimizer that limits each element of a gradient to -limit .. limit, with `limit` > 0."""
    limit = float(check_positive("clip_by_value: limit", limit))
    return _clip_by(opt, lambda values: tf.clip_by_value(values, -limit, limit))


def _clip_by(opt: tf.train.Optimizer, clip: Callable[[tf.Tensor], tf.Tensor]) -> ProxyOptimizer:
    """Return an optimizer that applies a function to each gradient; the slices of a row are added up first."""
    return apply_grad_processors(opt, [MapGradient(lambda grad: map_values(clip, sum_repeated_rows(grad)))])


def accumulate_gradients(opt: tf.train.Optimizer, steps: int) -> ProxyOptimizer:
    """
    Return an optimizer that applies the mean of the gradients of several steps, as one step with a larger batch would.

    Args:
        opt: a `tf.train.Optimizer`.
        steps: the number of steps for one update; >= 1.

    Example:
        >>> accumulate_gradients(AdamWOptimizer(1e-3), 4)

    Note: `AccumGradOptimizer`, which applies the sum, describes the variables. Gradient processors outside see the gradients of
    single steps as they are, not divided by their number. Those inside see the mean, which a larger batch would have:
    `accumulate_gradients(clip_by_global_norm(opt, 1.0), 4)`.
    """
    check_at_least("accumulate_gradients: steps", steps, 1)
    return apply_grad_processors(AccumGradOptimizer(opt, steps), [ScaleGradient((".*", 1.0 / steps), verbose=False)])


def split_processors(opt: tf.train.Optimizer) -> tuple[Callable[[GradVars], GradVars], tf.train.Optimizer]:
    """
    Separate an optimizer from the gradient processors around it, for a trainer that applies gradients in parts.

    Args:
        opt: a `tf.train.Optimizer`.

    Returns:
        A function that processes the gradients of a tower, and the optimizer that applies the results.
        Processors inside another wrapper, such as AccumGradOptimizer, are not separated.
    """
    if not isinstance(opt, _ProcessingOptimizer):
        return list, opt
    process_rest, inner = split_processors(opt._opt)
    return lambda grads: process_rest(opt.process(grads)), inner


def wrap_inside_processors(
    opt: tf.train.Optimizer, wrap: Callable[[tf.train.Optimizer], tf.train.Optimizer]
) -> tf.train.Optimizer:
    """
    Return an optimizer whose gradient processors are around a wrapper.

    Args:
        opt: a `tf.train.Optimizer`, perhaps a result of `apply_grad_processors`.
        wrap: called with the optimizer inside all processors; returns a wrapper around it.
    """
    if not isinstance(opt, _ProcessingOptimizer):
        return wrap(opt)
    return _ProcessingOptimizer(wrap_inside_processors(opt._opt, wrap), opt._processors)


class PostProcessOptimizer(ProxyOptimizer):
    """
    Optimizer wrapper that runs an operation on each variable after its update.

    Args:
        opt: a `tf.train.Optimizer`.
        func: `f(var)` -> an operation, or None. The operations it creates run after the update.
        colocate: place these operations on the device of the variable.

    Raises:
        TypeError: `func` returned something else. Raised by `apply_gradients`.

    Note: with a ref variable, use `var.read_value()` in `func`. Other reads may return the value from before
    the update.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        func: Callable[[tf.Variable], tf.Operation | None],
        colocate: bool = True,
    ) -> None:
        super().__init__(opt, "PostProcessOptimizer")
        self._func = func
        self._colocate = colocate

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Return an operation that applies the gradients, then post-processes the variables."""
        grads_and_vars = list(grads_and_vars)
        update = self._opt.apply_gradients(grads_and_vars, global_step=global_step)
        with tf.control_dependencies([update]):
            # each variable once: AsyncMultiGPUTrainer passes the gradients of all towers
            done = [self._post_process(var) for var in {id(var): var for _, var in grads_and_vars}.values()]
        return tf.group(update, *[op for op in done if op is not None], name=name)

    def _post_process(self, var: tf.Variable) -> tf.Operation | None:
        with tf.device(var.device if self._colocate else None):
            op = self._func(var)
        if op is not None and not isinstance(op, tf.Operation):
            raise type_error(
                f"{type(self).__name__}: the result of func", "an operation or None", op, "Return tensor.op."
            )
        return op


class VariableAssignmentOptimizer(PostProcessOptimizer):
    """
    Optimizer wrapper that assigns a new value to each variable after its update, e.g. to clip or quantize it.

    Args:
        opt: a `tf.train.Optimizer`.
        func: `f(var)` -> the new value, a tensor, or None to keep the value.

    Example:
        >>> VariableAssignmentOptimizer(opt, lambda var: tf.clip_by_value(var, -1.0, 1.0))

    Note: with a ref variable, use `var.read_value()` in `func`. Other reads may return the value from before
    the update.
    """

    def __init__(self, opt: tf.train.Optimizer, func: Callable[[tf.Variable], tf.Operation | None]) -> None:
        super().__init__(opt, self._assign)
        self._new_value = func

    def _assign(self, var: tf.Variable) -> tf.Operation | None:
        value = self._new_value(var)
        return None if value is None else var.assign(value, read_value=False)

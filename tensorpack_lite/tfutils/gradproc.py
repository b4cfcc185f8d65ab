"""Gradient processors: functions from `[(gradient, variable)]` to `[(gradient, variable)]`."""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta, abstractmethod
from typing import Callable, List, Sequence, Tuple

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.argtools import graph_memoized
from ..utils.checks import check_positive, check_type
from ..utils.errors import type_error
from ..utils.naming import TOWER_PREFIX
from .skipped_steps import skipped_steps
from .summary import add_moving_summary
from .symbolic_functions import map_values, print_stat, rms, sum_repeated_rows, values_of
from .tower.copies import without_tower

__all__ = [
    "CheckGradient", "FilterNoneGrad", "GlobalNormClip", "GradientProcessor", "MapGradient", "PrintGradient",
    "ScaleGradient", "SummaryGradient",
]  # fmt: skip

GradVars = List[Tuple[tf.Tensor, tf.Variable]]
"""The gradients of one tower: `(gradient, variable)` for each of its variables."""


class GradientProcessor(metaclass=ABCMeta):
    """
    Base class of processors, which change gradients before they are applied; see `optimizer.apply_grad_processors`.

    A subclass defines `_process`. All calls in a graph create their operations in one name scope, named after
    the class.
    """

    def process(self, grads: GradVars) -> GradVars:
        """
        Process gradients.

        Args:
            grads: a list of `(gradient, variable)`, where a gradient is a tensor, an `IndexedSlices` or None.

        Returns:
            A list of `(gradient, variable)`.
        """
        with tf.name_scope(_name_scope_of(self)):
            return self._process(grads)

    @abstractmethod
    def _process(self, grads: GradVars) -> GradVars:
        """Process gradients. Subclasses override this method."""


class FilterNoneGrad(GradientProcessor):
    """
    Gradient processor that drops the pairs without a gradient.

    Args:
        verbose: log a warning that lists their variables, without those that `tf.stop_gradient` freezes, as `freeze_variables` does.
    """

    def __init__(self, verbose: bool = True) -> None:
        self._verbose = verbose

    def _process(self, grads: GradVars) -> GradVars:
        without = [var.op.name for grad, var in grads if grad is None and not _is_frozen(var)]
        if without and self._verbose:
            logger.warning(f"No gradient w.r.t {len(without)} trainable variables: {', '.join(without)}")
        return [(grad, var) for grad, var in grads if grad is not None]


def _is_frozen(variable: tf.Variable) -> bool:
    """Return whether `tf.stop_gradient` takes the value of a variable directly."""
    readers = [op for tensor in variable.op.outputs for op in tensor.consumers()]
    users = [op for reader in readers for tensor in reader.outputs for op in tensor.consumers()]
    return any(op.type == "StopGradient" for op in (*readers, *users))


class GlobalNormClip(GradientProcessor):
    """
    Gradient processor that scales down all gradients of a tower by a common factor if their joint norm is too large.

    With gradients g_1 .. g_N and norm = sqrt(sum_i |g_i|^2), each g_i becomes g_i * c / max(norm, c), where c is
    `global_norm`. A gradient that is None stays None and does not count. The slices of one row of an `IndexedSlices` are added
    up first.

    Args:
        global_norm: c, the maximum joint L2 norm; > 0.

    Raises:
        ValueError: `global_norm` is not positive.

    Example:
        >>> GlobalNormClip(5.0).process([(grad, var)])          # grad [256, 10] float32

    Source: Pascanu, Mikolov, Bengio 2013, "On the difficulty of training recurrent neural networks", algorithm 1.

    Difference from tensorpack: in AsyncMultiGPUTrainer, tensorpack 0.11 clips the gradient of each variable
    separately. This library clips the gradients of each tower by their joint norm.
    """

    def __init__(self, global_norm: float) -> None:
        self._norm = float(check_positive("GlobalNormClip: global_norm", global_norm))

    def _process(self, grads: GradVars) -> GradVars:
        clipped, _ = tf.clip_by_global_norm(
            [sum_repeated_rows(grad) for grad, _ in grads], self._norm, name="clip_by_global_norm"
        )
        return [(grad, var) for grad, (_, var) in zip(clipped, grads)]


class MapGradient(GradientProcessor):
    """
    Gradient processor that applies a function to the gradients of some variables.

    Args:
        func: `f(grad)` or `f(grad, var)` -> a new gradient, or None to drop the pair.
        regex: selects the variables whose whole name (without `:0`) matches. A copy of a variable in another
            tower is matched without its prefix `tower<i>/`, so that copies stay equal.

    Raises:
        TypeError: `func` takes another number of arguments.

    Example:
        >>> MapGradient(lambda grad: tf.clip_by_value(grad, -0.1, 0.1), regex="fc/.*")

    Difference from tensorpack: tensorpack 0.11 matches the names of copies with their prefix, so `"fc/.*"`
    does not match `tower1/fc/W`. This library ignores the prefix.
    """

    def __init__(self, func: Callable[..., tf.Tensor | None], regex: str = ".*") -> None:
        self.func = func if _num_arguments(func) == 2 else lambda grad, _: func(grad)
        self.regex = regex

    def _process(self, grads: GradVars) -> GradVars:
        processed = []
        matched = False
        for grad, var in grads:
            if re.fullmatch(self.regex, without_tower(var)):
                matched = True
                grad = self.func(grad, var)
                if grad is None:
                    continue
            processed.append((grad, var))
        if not matched:
            logger.warning(f"{type(self).__name__}: '{self.regex}' matches no variable.")
        return processed


class SummaryGradient(MapGradient):
    """
    Gradient processor that summarizes each gradient: a histogram `<var>-grad`, and a moving average of its root mean square,
    `<var>/rms`.

    Each variable of a graph has one summary, and copies of variables in other towers have none. Only the
    existing rows of an `IndexedSlices` count, each as the sum of its slices.

    Args:
        regex: as in MapGradient.
        collections: the collections of the histograms. None means SUMMARIES.
    """

    def __init__(self, regex: str = ".*", collections: Sequence[str] | None = None) -> None:
        super().__init__(self._summarize, regex)
        self._collections = collections

    def _summarize(self, grad: tf.Tensor | None, var: tf.Variable) -> tf.Tensor | None:
        name = var.op.name
        if grad is not None and not TOWER_PREFIX.match(name) and _first_time("SummaryGradient", name):
            values = values_of(sum_repeated_rows(grad))
            shown = values
            if skipped_steps().is_applied() is not None:  # a histogram of infinity is an error
                flat = tf.reshape(values, [-1])
                shown = tf.boolean_mask(flat, tf.is_finite(flat))
            tf.summary.histogram(f"{name}-grad", shown, collections=self._collections)
            add_moving_summary(rms(values, name=f"{name}/rms"))
        return grad


class PrintGradient(MapGradient):
    """
    Gradient processor that prints the shape, mean, rms and some values of each gradient to stderr in each step. This is
    slow.

    Each variable of a graph is printed once per step.

    Args:
        regex: as in MapGradient.
    """

    def __init__(self, regex: str = ".*") -> None:
        super().__init__(self._print, regex)

    def _print(self, grad: tf.Tensor | None, var: tf.Variable) -> tf.Tensor | None:
        if grad is None or not _first_time("PrintGradient", var.op.name):
            return grad
        return map_values(lambda values: print_stat(values, message=f"{var.op.name}-grad"), grad)


class CheckGradient(MapGradient):
    """
    Gradient processor that raises `InvalidArgumentError` in the step if a gradient contains NaN or infinity. The message
    names the variable.

    A step that `DynamicLossScaleOptimizer` skips is checked only if its scale is 1: then there is another reason than the scale.
    """

    def __init__(self) -> None:
        super().__init__(self._check)

    def _check(self, grad: tf.Tensor | None, var: tf.Variable) -> tf.Tensor | None:
        if grad is None:
            return None
        message = f"CheckGradient/{var.op.name}"
        is_overflow = skipped_steps().is_overflow()
        if is_overflow is None:
            return map_values(lambda values: tf.debugging.check_numerics(values, message), grad)

        def check_others(values: tf.Tensor) -> tf.Tensor:
            checked = tf.where(is_overflow, tf.zeros_like(values), values)
            with tf.control_dependencies([tf.debugging.check_numerics(checked, message)]):
                return tf.identity(values)

        return map_values(check_others, grad)


class ScaleGradient(MapGradient):
    """
    Gradient processor that multiplies the gradients of some variables by a factor.

    If the optimizer is linear in the gradient, this gives these variables a separate learning rate.

    Args:
        multipliers: a pair `(regex, factor)` or a list of pairs. The first regex that matches a variable's whole name
            determines the factor. Factor 0 drops the gradient, so that the variable is not updated.
        verbose: log each variable whose gradient is scaled.

    Raises:
        TypeError: `multipliers` is something else, or `verbose` is not a bool.

    Example:
        >>> ScaleGradient([("conv0/.*", 0.0), (".*/b", 2.0)])
    """

    def __init__(self, multipliers: tuple[str, float] | list[tuple[str, float]], verbose: bool = True) -> None:
        if not isinstance(multipliers, list):
            multipliers = [multipliers]
        for pair in multipliers:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
                raise type_error("ScaleGradient", "a pair (regex, factor) or a list of them", pair)
        self._multipliers = multipliers
        self._verbose = check_type("ScaleGradient: verbose", verbose, bool, advice="Put several pairs into one list.")
        super().__init__(self._scale)

    def _scale(self, grad: tf.Tensor | None, var: tf.Variable) -> tf.Tensor | None:
        name = without_tower(var)
        factor = next((factor for regex, factor in self._multipliers if re.fullmatch(regex, name)), None)
        if factor is None or grad is None:
            return grad
        if self._verbose:
            logger.info(f"Gradient of '{var.op.name}' is " + (f"multiplied by {factor}" if factor else "dropped"))
        return tf.scalar_mul(tf.cast(factor, grad.dtype), grad) if factor else None


@graph_memoized
def _name_scope_of(processor: GradientProcessor) -> str:
    with tf.name_scope(type(processor).__name__) as scope:
        return scope


@graph_memoized
def _seen_in_graph(purpose: str) -> set[str]:
    return set()


def _first_time(purpose: str, name: str) -> bool:
    """Return whether this is the first call with these arguments in the default graph."""
    seen = _seen_in_graph(purpose)
    if name in seen:
        return False
    seen.add(name)
    return True


def _num_arguments(func: Callable[..., object]) -> int:
    parameters = inspect.signature(func).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    count = len(required) or len(positional)
    if count not in (1, 2):
        raise TypeError(
            f"MapGradient: func has the wrong signature (expected func(grad) or func(grad, var), got {count} arguments)."
        )
    return count

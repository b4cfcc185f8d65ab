"""Gradient processors: functions from `[(gradient, variable)]` to `[(gradient, variable)]`."""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta, abstractmethod
from typing import Any, Callable, List, Sequence, Tuple

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.argtools import graph_memoized
from ..utils.errors import type_error
from .summary import add_moving_summary
from .symbolic_functions import print_stat, rms

__all__ = [
    "CheckGradient",
    "FilterNoneGrad",
    "GlobalNormClip",
    "GradVars",
    "GradientProcessor",
    "MapGradient",
    "PrintGradient",
    "ScaleGradient",
    "SummaryGradient",
]

GradVars = List[Tuple[Any, Any]]
"""Gradients of one tower: `(gradient, variable)` for each of its variables."""

_OTHER_TOWER = re.compile(r"^tower[0-9]+/")


class GradientProcessor(metaclass=ABCMeta):
    """
    Changes gradients between their computation and their application; see `optimizer.apply_grad_processors`.

    A subclass defines `_process`. Its operations go into a name scope named after the class, the same one at each
    call in a graph.

    tensorpack: same.
    """

    def process(self, grads: GradVars) -> GradVars:
        """
        Process gradients.

        Args:
            grads: a list of `(gradient, variable)`; a gradient is a tensor, an `IndexedSlices` or None.

        Returns:
            A list of the same kind.
        """
        with tf.name_scope(_name_scope_of(self)):
            return self._process(grads)

    @abstractmethod
    def _process(self, grads: GradVars) -> GradVars:
        """Process gradients; override this."""


class FilterNoneGrad(GradientProcessor):
    """
    Drop the pairs without gradient.

    Args:
        verbose: warn of the variables that have none.

    tensorpack: same.
    """

    def __init__(self, verbose: bool = True) -> None:
        self._verbose = verbose

    def _process(self, grads: GradVars) -> GradVars:
        without = [var.op.name for grad, var in grads if grad is None]
        if without and self._verbose:
            logger.warning(f"No gradient w.r.t {len(without)} trainable variables: {', '.join(without)}")
        return [(grad, var) for grad, var in grads if grad is not None]


class GlobalNormClip(GradientProcessor):
    """
    Scale all gradients of a tower down together when their joint norm is too large.

    With gradients g_1 .. g_N and norm = sqrt(sum_i |g_i|^2), each g_i becomes g_i * c / max(norm, c), where c is
    `global_norm`. A gradient that is None stays None and does not count.

    Args:
        global_norm: c, the largest joint L2 norm let through; > 0, in the units of the gradients.

    Raises:
        ValueError: `global_norm` is not positive.

    Example:
        >>> GlobalNormClip(5.0).process([(grad, var)])          # grad [256, 10] float32

    Note: in AsyncMultiGPUTrainer the joint norm is that of each tower. There tensorpack clips each variable by itself.

    Source: Pascanu, Mikolov, Bengio 2013, "On the difficulty of training recurrent neural networks", algorithm 1.
    tensorpack: same name and arguments; there a non-positive norm is not refused.
    """

    def __init__(self, global_norm: float) -> None:
        if not global_norm > 0:
            raise ValueError(f"GlobalNormClip: global_norm is {global_norm}, wanted a number > 0.")
        self._norm = float(global_norm)

    def _process(self, grads: GradVars) -> GradVars:
        clipped, _ = tf.clip_by_global_norm(
            [grad for grad, _ in grads], self._norm, name="clip_by_global_norm"
        )
        return [(grad, var) for grad, (_, var) in zip(clipped, grads)]


class MapGradient(GradientProcessor):
    """
    Apply a function to the gradients of some variables.

    Args:
        func: `f(grad)` or `f(grad, var)` -> a new gradient, or None to drop the pair.
        regex: of the variables whose whole name (without `:0`) matches; others pass unchanged. The copy of a variable in another
            tower counts under the variable's own name, so that copies stay equal.

    Raises:
        TypeError: `func` takes another number of arguments.

    Example:
        >>> MapGradient(lambda grad: tf.clip_by_value(grad, -0.1, 0.1), regex="fc/.*")

    tensorpack: same; there the error is an AssertionError, and a regex that does not begin with `.*` misses the copies in other
    towers, which then drift apart.
    """

    def __init__(self, func: Callable[..., Any], regex: str = ".*") -> None:
        self.func = func if _num_arguments(func) == 2 else lambda grad, _: func(grad)
        self.regex = regex

    def _process(self, grads: GradVars) -> GradVars:
        processed = []
        matched = False
        for grad, var in grads:
            if re.fullmatch(self.regex, _name_without_tower(var)):
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
    Summarise each gradient: a histogram `<var>-grad`, and the moving average of its root mean square, `<var>/rms`.

    Once for each variable in a graph; not for the copies of variables in other towers. Of an `IndexedSlices` the
    rows that are there count.

    Args:
        regex: as in MapGradient.
        collections: get the histograms; None means SUMMARIES.

    tensorpack: same; there once for each name in a process, so that a second graph has no summaries.
    """

    def __init__(self, regex: str = ".*", collections: Sequence[str] | None = None) -> None:
        super().__init__(self._summarize, regex)
        self._collections = collections

    def _summarize(self, grad: Any, var: Any) -> Any:
        name = var.op.name
        if grad is not None and not _OTHER_TOWER.match(name) and _first_time("SummaryGradient", name):
            values = _values(grad)
            tf.summary.histogram(f"{name}-grad", values, collections=self._collections)
            add_moving_summary(rms(values, name=f"{name}/rms"))
        return grad


class PrintGradient(MapGradient):
    """
    Print the statistics of each gradient to stderr in each step: shape, mean, rms, some values. Slow.

    Once for each variable in a graph.

    Args:
        regex: as in MapGradient.

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self, regex: str = ".*") -> None:
        super().__init__(self._print, regex)

    def _print(self, grad: Any, var: Any) -> Any:
        if grad is None or not _first_time("PrintGradient", var.op.name):
            return grad
        return _map_values(lambda values: print_stat(values, message=f"{var.op.name}-grad"), grad)


class CheckGradient(MapGradient):
    """
    Fail the step with `InvalidArgumentError` when a gradient has a NaN or an infinity; the message names the variable.

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self) -> None:
        super().__init__(self._check)

    def _check(self, grad: Any, var: Any) -> Any:
        if grad is None:
            return None
        message = f"CheckGradient/{var.op.name}"
        return _map_values(lambda values: tf.debugging.check_numerics(values, message), grad)


class ScaleGradient(MapGradient):
    """
    Multiply the gradients of some variables: a learning rate of their own, with optimizers linear in the gradient.

    Args:
        multipliers: a pair `(regex, factor)` or a list of them. The first regex that matches a variable's whole name
            counts. Factor 0 drops the gradient: the variable is not updated at all.
        verbose: log each variable whose gradient is scaled.

    Raises:
        TypeError: not such pairs, or `verbose` is no bool.

    Example:
        >>> ScaleGradient([("conv0/.*", 0.0), (".*/b", 2.0)])

    tensorpack: same; there the errors are AssertionErrors.
    """

    def __init__(self, multipliers: Any, verbose: bool = True) -> None:
        if not isinstance(multipliers, list):
            multipliers = [multipliers]
        for pair in multipliers:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
                raise type_error("ScaleGradient", "a pair (regex, factor) or a list of them", pair)
        if not isinstance(verbose, bool):
            raise type_error(
                "ScaleGradient", "a bool as verbose", verbose, "Put several pairs into one list."
            )
        self._multipliers = multipliers
        self._verbose = verbose
        super().__init__(self._scale)

    def _scale(self, grad: Any, var: Any) -> Any:
        name = _name_without_tower(var)
        factor = next((factor for regex, factor in self._multipliers if re.fullmatch(regex, name)), None)
        if factor is None or grad is None:
            return grad
        if self._verbose:
            logger.info(
                f"Gradient of '{var.op.name}' is " + (f"multiplied by {factor}" if factor else "dropped")
            )
        return tf.scalar_mul(tf.cast(factor, grad.dtype), grad) if factor else None


@graph_memoized
def _name_scope_of(processor: GradientProcessor) -> str:
    with tf.name_scope(type(processor).__name__) as scope:
        return scope


@graph_memoized
def _seen_in_graph(purpose: str) -> set[str]:
    return set()


def _first_time(purpose: str, name: str) -> bool:
    """Tell whether this is the first call with these arguments in the default graph."""
    seen = _seen_in_graph(purpose)
    if name in seen:
        return False
    seen.add(name)
    return True


def _name_without_tower(var: Any) -> str:
    return _OTHER_TOWER.sub("", var.op.name, count=1)


def _num_arguments(func: Callable[..., Any]) -> int:
    parameters = inspect.signature(func).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    count = len(required) or len(positional)
    if count not in (1, 2):
        raise TypeError(f"MapGradient: func takes {count} arguments, wanted func(grad) or func(grad, var).")
    return count


def _values(grad: Any) -> Any:
    return grad.values if isinstance(grad, tf.IndexedSlices) else grad


def _map_values(func: Callable[[Any], Any], grad: Any) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(func(grad.values), grad.indices, grad.dense_shape)
    return func(grad)

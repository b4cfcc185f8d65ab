"""Which steps an optimizer skips because a gradient has overflowed, for what must not count them."""

from __future__ import annotations

from typing import Callable, Sequence

from ..compat import tfv1 as tf
from ..utils.argtools import graph_memoized
from .update_gate import change_only_if


class SkippedSteps:
    """Record of the tests by which an optimizer of one graph decides whether a step changes variables."""

    def __init__(self) -> None:
        self._tests: dict[int, list[tf.Tensor]] = {}
        self._can_recover: tf.Tensor | None = None
        self._results: dict[str, tf.Tensor] = {}

    def add(self, optimizer: tf.train.Optimizer, is_finite: tf.Tensor, can_recover: tf.Tensor) -> None:
        """
        Add a test. A step is applied if all tests of its optimizer pass.

        Args:
            optimizer: the optimizer that skips the step.
            is_finite: the test, a scalar bool.
            can_recover: whether the optimizer avoids the overflow in a later step, a scalar bool.
        """
        self._tests.setdefault(id(optimizer), []).append(is_finite)
        self._can_recover = can_recover

    def is_applied(self) -> tf.Tensor | None:
        """Return whether a step is applied, a scalar bool; None if no optimizer skips steps, or several do, each its own."""
        if len(self._tests) != 1:
            return None
        (tests,) = self._tests.values()
        return self._once(f"{len(tests)} tests", lambda: tf.reduce_all(tf.stack(tests)))

    def is_overflow(self) -> tf.Tensor | None:
        """Return whether a step is skipped because of an overflow that a later step avoids; None as in `is_applied`."""
        is_applied = self.is_applied()
        if is_applied is None:
            return None
        return self._once(
            f"overflow of {is_applied.name}",
            lambda: tf.logical_and(tf.logical_not(is_applied), self._can_recover),
        )

    def _once(self, key: str, make: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Return a result that is computed from the tests so far."""
        if key not in self._results:
            with tf.name_scope("skipped_steps"), tf.control_dependencies(None):
                self._results[key] = make()
        return self._results[key]


@graph_memoized
def skipped_steps() -> SkippedSteps:
    """Return the record of the default graph."""
    return SkippedSteps()


def update_only_in_applied_steps(targets: Sequence[tf.Operation | tf.Tensor]) -> None:
    """
    Let updates of variables, such as those of moving averages, change nothing in a step that the optimizer skips.

    Args:
        targets: operations; they and whatever they depend on are searched for updates. Those that the gradients depend on are
            not changed.
    """
    is_applied = skipped_steps().is_applied()
    if is_applied is not None:
        change_only_if(is_applied, targets)

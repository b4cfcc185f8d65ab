"""Loss scaling, which prevents underflow of gradients in half precision."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..compat.private import inside_control_flow, inside_xla
from ..utils.checks import check_at_least
from .collection import inside_branch
from .gradproc import GradVars
from .optimizer import wrap_inside_processors
from .proxy_optimizer import ProxyOptimizer, apply_if
from .skipped_steps import skipped_steps
from .symbolic_functions import map_values, values_of
from .tower.context import get_current_tower_context
from .tower.copies import without_tower

__all__ = ["DynamicLossScaleOptimizer"]


class DynamicLossScaleOptimizer(ProxyOptimizer):
    """
    Optimizer wrapper that scales the loss by an automatically chosen factor, and unscales the gradients.

    If a gradient of a tower is not finite, or becomes so before it is applied, the step updates no variable and the scale is
    divided by `factor`, but it is never less than 1. This holds whatever gradient processors do to it, inside or outside of this
    wrapper. After `growth_steps` finite steps in a row, the scale is multiplied by `factor`.

    Args:
        opt: a `tf.train.Optimizer`.
        initial_scale: initial scale of the loss, >= 1.
        growth_steps: finite steps in a row before the scale grows, >= 1.
        factor: factor by which the scale grows and shrinks, > 1.

    Attributes:
        scale: the variable, from `compute_gradients` on.

    Raises:
        TypeError: `opt` is not a `tf.train.Optimizer`.
        ValueError: a number is out of its range. Raised by `apply_gradients`: no variable has a gradient, or
            `compute_gradients` of this optimizer was not called before, or a variable is a ref variable while TF 2's control
            flow is enabled.

    Variables:
        `loss_scale/scale` (float32) and `loss_scale/good_steps` (int32), scalars, not trained, saved with the model.

    Example:
        >>> DynamicLossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))

    Note: `compute_gradients` returns unscaled gradients in the dtype of the variables, so gradient processors
    see the true values. Keep variables in float32 and cast in the model. A skipped step does not increment
    `global_step` of `apply_gradients`, and the callbacks `MovingAverageSummary` and `RunUpdateOps` do not average it.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        initial_scale: float = 2.0**15,
        growth_steps: int = 2000,
        factor: float = 2.0,
    ) -> None:
        super().__init__(opt, "DynamicLossScale")
        who = "DynamicLossScaleOptimizer"
        self._initial_scale = float(check_at_least(f"{who}: initial_scale", initial_scale, 1))
        self._growth_steps = check_at_least(f"{who}: growth_steps", growth_steps, 1)
        self._factor = float(factor)
        if not self._factor > 1:
            raise ValueError(f"{who}: factor is too small (expected more than 1, got {factor}).")
        self.scale: Any = None
        self._good_steps: Any = None
        self._is_finite: Any = None
        self._tests: dict[str, list[tf.Tensor]] = {}  # of the gradients from `compute_gradients`, by variable
        self._results: dict[tuple[str, ...], tf.Tensor] = {}  # of tests, by the gradients
        self._watched: list[tf.Tensor] = []  # tests of gradients that are about to be processed

    def compute_gradients(self, loss: tf.Tensor, *args: Any, **kwargs: Any) -> GradVars:
        """Compute the gradients of the scaled loss and unscale them. Values that overflowed stay infinite or NaN."""
        if self.scale is None:
            self._make_variables()
        scale = self.scale.read_value()
        pairs = self._opt.compute_gradients(loss * tf.cast(scale, loss.dtype), *args, **kwargs)

        def unscale(values: tf.Tensor) -> tf.Tensor:
            return values / tf.cast(scale, values.dtype)

        pairs = [(None if grad is None else map_values(unscale, grad), var) for grad, var in pairs]
        if not self._is_tested_later():
            test = self._test([grad for grad, _ in pairs])
            for _, var in pairs:
                self._tests.setdefault(without_tower(var), []).append(test)
        return pairs

    @staticmethod
    def _is_tested_later() -> bool:
        """
        Return whether only the reduced gradients can be tested.

        Of several processes, all must come to the same decision. XLA's tensors cannot be used outside of a cluster.
        """
        ranks = getattr(get_current_tower_context(), "ranks", None)
        return inside_xla(tf.get_default_graph()) or (ranks is not None and ranks.size > 1)

    def watch(self, grads_and_vars: GradVars) -> None:
        """Test gradients that are about to be processed."""
        pairs = list(grads_and_vars)
        if self.scale is not None:
            self._watched.append(self._test([grad for grad, _ in pairs]))
        super().watch(pairs)

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Return an operation that applies the gradients if all are finite, and adapts the scale."""
        if self.scale is None:
            raise ValueError("DynamicLossScaleOptimizer: call its compute_gradients before apply_gradients.")
        pairs = self._with_gradient(grads_and_vars)
        tests = [test for _, var in pairs for test in self._tests.get(without_tower(var), ())]
        tests += [self._test([grad for grad, _ in pairs]), *self._watched]
        self._watched = []
        is_finite = tf.reduce_all(tf.stack(list({test.name: test for test in tests}.values())))

        outer_scope = tf.get_default_graph().get_name_scope()

        def apply() -> tf.Tensor:
            # the variables of the wrapped optimizer get the same names as without loss scale
            with tf.name_scope(f"{outer_scope}/" if outer_scope else None):
                update = self._opt.apply_gradients(pairs, global_step=global_step)
            with tf.control_dependencies([update]):
                return tf.constant(True)

        done = apply_if("DynamicLossScaleOptimizer", is_finite, [var for _, var in pairs], apply)
        self._is_finite = is_finite
        with tf.control_dependencies([done]):
            return self._finish([done.op], name)

    def _finish(self, update_ops: Sequence[tf.Operation], name_scope: str | None) -> tf.Operation:
        """
        Return an operation that adapts the scale after the updates. TensorFlow calls this method once per step.

        Trainers that apply gradients in parts call it only for the last part.
        """
        is_finite = self._is_finite
        good_steps = tf.where(is_finite, self._good_steps.read_value() + 1, 0)
        grows = good_steps >= self._growth_steps
        scale = self.scale.read_value()
        larger = tf.where(grows, scale * self._factor, scale)
        larger = tf.where(tf.is_finite(larger), larger, scale)
        smaller = tf.maximum(scale / self._factor, 1.0)
        new_scale, new_steps = tf.where(is_finite, larger, smaller), tf.where(grows, 0, good_steps)
        with tf.control_dependencies([new_scale, new_steps]):
            adapted = [
                self.scale.assign(new_scale, read_value=False),
                self._good_steps.assign(new_steps, read_value=False),
            ]
        return tf.group(*update_ops, *adapted, name=name_scope)

    def _test(self, grads: Sequence[Any]) -> tf.Tensor:
        """Return whether all gradients are finite. What averages or checks gradients sees the test, unless it is in a branch."""
        values = [values_of(grad) for grad in grads if grad is not None]
        key = tuple(value.name for value in values)
        if key not in self._results:
            finite = [tf.reduce_all(tf.is_finite(value)) for value in values]
            result = tf.reduce_all(tf.stack(finite)) if finite else tf.constant(True)
            if inside_branch() or inside_control_flow(result.op):
                return result
            self._results[key] = result
            skipped_steps().add(self, result, self.scale.read_value() > 1)
        return self._results[key]

    def _make_variables(self) -> None:
        with tf.control_dependencies(None), tf.variable_scope("loss_scale", reuse=tf.AUTO_REUSE):
            options = {"shape": [], "trainable": False, "use_resource": True}
            initial = tf.constant_initializer(self._initial_scale)
            self.scale = tf.get_variable("scale", dtype=tf.float32, initializer=initial, **options)
            self._good_steps = tf.get_variable(
                "good_steps", dtype=tf.int32, initializer=tf.zeros_initializer(), **options
            )


def scale_loss(opt: tf.train.Optimizer) -> tf.train.Optimizer:
    """
    Return an optimizer with a `DynamicLossScaleOptimizer`, inside its gradient processors, which see unscaled gradients.

    Args:
        opt: a `tf.train.Optimizer`. One that has a `DynamicLossScaleOptimizer` already is returned itself.

    Raises:
        TypeError: `opt` is not a `tf.train.Optimizer`.
    """
    inner = opt
    while isinstance(inner, ProxyOptimizer):
        if isinstance(inner, DynamicLossScaleOptimizer):
            return opt
        inner = inner._opt
    return wrap_inside_processors(opt, DynamicLossScaleOptimizer)

"""Loss scaling: keeps small gradients of half-precision models from vanishing."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from .gradproc import FilterNoneGrad, GradVars
from .optimizer import ProxyOptimizer

__all__ = ["DynamicLossScaleOptimizer"]


class DynamicLossScaleOptimizer(ProxyOptimizer):
    """
    Multiply the loss before the gradients are computed, and divide the gradients again; find the factor by itself.

    When a gradient is not finite, the step changes nothing and the scale is divided by `factor`, down to 1 at least. After
    `growth_steps` good steps in a row it is multiplied by `factor`.

    Args:
        opt: a `tf.train.Optimizer`.
        initial_scale: of the loss at the beginning, >= 1.
        growth_steps: good steps in a row before the scale grows, >= 1.
        factor: by which it grows and shrinks, > 1.

    Attributes:
        scale: the variable, from `compute_gradients` on.

    Raises:
        TypeError: `opt` is no `tf.train.Optimizer`.
        ValueError: a number out of its range; in `apply_gradients`: there is no gradient, or `compute_gradients` of this
            optimizer was not called before.

    Variables:
        `loss_scale/scale` (float32) and `loss_scale/good_steps` (int32), scalars, not trained, saved with the model.

    Example:
        >>> DynamicLossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))

    Note: gradients leave `compute_gradients` unscaled, in float32 where the variables are: processors see true values. Keep
    variables in float32 and cast in the model. A skipped step leaves `global_step` of `apply_gradients` as it is.

    tensorpack: has none.
    """

    def __init__(
        self, opt: Any, initial_scale: float = 2.0**15, growth_steps: int = 2000, factor: float = 2.0
    ) -> None:
        super().__init__(opt, "DynamicLossScale")
        if initial_scale < 1 or growth_steps < 1 or factor <= 1:
            raise ValueError(
                f"DynamicLossScaleOptimizer: got initial_scale={initial_scale}, growth_steps={growth_steps}, factor={factor}; "
                "wanted >= 1, >= 1 and > 1."
            )
        self._initial_scale = float(initial_scale)
        self._growth_steps = growth_steps
        self._factor = float(factor)
        self.scale: Any = None
        self._good_steps: Any = None
        self._is_finite: Any = None

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> GradVars:
        """Compute gradients of the scaled loss, and unscale them; what overflowed stays infinite or NaN."""
        if self.scale is None:
            self._make_variables()
        scale = self.scale.read_value()
        pairs = self._opt.compute_gradients(loss * tf.cast(scale, loss.dtype), *args, **kwargs)
        return [(None if grad is None else _divide(grad, scale), var) for grad, var in pairs]

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Apply the gradients if all are finite, and adapt the scale; returns an operation."""
        if self.scale is None:
            raise ValueError("DynamicLossScaleOptimizer: call its compute_gradients before apply_gradients.")
        pairs = FilterNoneGrad().process(list(grads_and_vars))
        if not pairs:
            raise ValueError("DynamicLossScaleOptimizer: no variable has a gradient.")
        values = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad, _ in pairs]
        is_finite = tf.reduce_all([tf.reduce_all(tf.is_finite(value)) for value in values])

        def apply() -> Any:
            update = self._opt.apply_gradients(pairs, global_step=global_step)
            with tf.control_dependencies([update]):
                return tf.constant(True)

        done = tf.cond(is_finite, apply, lambda: tf.constant(False))
        self._is_finite = is_finite
        with tf.control_dependencies([done]):
            return self._finish([done.op], name)

    def _finish(self, update_ops: Any, name_scope: str | None) -> Any:
        """What TensorFlow calls once a step: multi-device trainers leave it out of all applications but the last."""
        return tf.group(*update_ops, *self._adapt(self._is_finite), name=name_scope)

    def _adapt(self, is_finite: Any) -> list[Any]:
        good_steps = tf.where(is_finite, self._good_steps.read_value() + 1, 0)
        grows = good_steps >= self._growth_steps
        scale = self.scale.read_value()
        larger = tf.where(grows, scale * self._factor, scale)
        larger = tf.where(tf.is_finite(larger), larger, scale)
        smaller = tf.maximum(scale / self._factor, 1.0)
        new_scale, new_steps = tf.where(is_finite, larger, smaller), tf.where(grows, 0, good_steps)
        with tf.control_dependencies([new_scale, new_steps]):
            return [
                self.scale.assign(new_scale, read_value=False),
                self._good_steps.assign(new_steps, read_value=False),
            ]

    def _make_variables(self) -> None:
        with tf.control_dependencies(None), tf.variable_scope("loss_scale", reuse=tf.AUTO_REUSE):
            options = {"shape": [], "trainable": False, "use_resource": True}
            initial = tf.constant_initializer(self._initial_scale)
            self.scale = tf.get_variable("scale", dtype=tf.float32, initializer=initial, **options)
            self._good_steps = tf.get_variable(
                "good_steps", dtype=tf.int32, initializer=tf.zeros_initializer(), **options
            )


def _divide(grad: Any, scale: Any) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(_divide(grad.values, scale), grad.indices, grad.dense_shape)
    return grad / tf.cast(scale, grad.dtype)

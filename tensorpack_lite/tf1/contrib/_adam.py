"""Variants of Adam of `tf.contrib.opt`."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf


class _Adam(tf.train.AdamOptimizer):
    """Adam whose sparse update is written once, for both kinds of variables."""

    def _values(self, var: tf.Variable) -> tuple[tf.Tensor, ...]:
        """Return the corrected learning rate, beta1, beta2 and epsilon, in the variable's dtype, and both slots."""
        powers = self._get_beta_accumulators()
        values = (*powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)
        power1, power2, lr, beta1, beta2, epsilon = (tf.cast(v, var.dtype.base_dtype) for v in values)
        lr = lr * tf.sqrt(1 - power2) / (1 - power1)
        return lr, beta1, beta2, epsilon, self.get_slot(var, "m"), self.get_slot(var, "v")

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return self._resource_apply_sparse(grad.values, var, grad.indices)


class LazyAdamOptimizer(_Adam):
    """Adam that updates, for a sparse gradient, only the moments of the rows that the gradient contains."""

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        lr, beta1, beta2, epsilon, m, v = self._values(var)
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        return _update(var, (m, new_m), (v, new_v), lr * new_m / (tf.sqrt(new_v) + epsilon), indices)


class NadamOptimizer(_Adam):
    """Adam with Nesterov momentum (http://cs229.stanford.edu/proj2015/054_report.pdf). The arguments are Adam's."""

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        lr, beta1, beta2, epsilon, m, v = self._values(var)
        new_m = beta1 * m + (1 - beta1) * grad
        new_v = beta2 * v + (1 - beta2) * tf.square(grad)
        step = beta1 * new_m + (1 - beta1) * grad
        return _update(var, (m, new_m), (v, new_v), lr * step / (tf.sqrt(new_v) + epsilon))

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return self._apply_dense(grad, var)

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        lr, beta1, beta2, epsilon, m, v = self._values(var)
        shape = tf.shape(var, out_type=indices.dtype)
        new_m = beta1 * m + tf.scatter_nd(indices[:, None], (1 - beta1) * grad, shape)
        new_v = beta2 * v + tf.scatter_nd(indices[:, None], (1 - beta2) * tf.square(grad), shape)
        step = beta1 * tf.gather(new_m, indices) + (1 - beta1) * grad
        step = step / (tf.sqrt(tf.gather(new_v, indices)) + epsilon)
        return _update(var, (m, new_m), (v, new_v), tf.scatter_nd(indices[:, None], lr * step, shape))


class AdaMaxOptimizer(_Adam):
    """
    Adam with the infinity norm of the gradients (https://arxiv.org/abs/1412.6980, section 7.1).

    Args: those of `tf.train.AdamOptimizer`. The default of `name` is "AdaMax".

    Variables: the slots `m` and `v`, and `beta1_power`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return self._get_non_slot_variable("beta1_power", graph=tf.get_default_graph()), 0.0

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        first = min(var_list, key=lambda variable: variable.name)
        self._create_non_slot_variable(self._beta1, "beta1_power", colocate_with=first)
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        lr, beta1, beta2, epsilon, m, v = self._values(var)
        new_m = beta1 * m + (1 - beta1) * grad
        new_v = tf.maximum(beta2 * v, tf.abs(grad))
        return _update(var, (m, new_m), (v, new_v), lr * new_m / (new_v + epsilon))

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return self._apply_dense(grad, var)

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        lr, beta1, beta2, epsilon, m, v = self._values(var)
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = tf.maximum(beta2 * tf.gather(v, indices), tf.abs(grad))
        return _update(var, (m, new_m), (v, new_v), lr * new_m / (new_v + epsilon), indices)

    def _finish(self, update_ops: list[tf.Operation], name_scope: str) -> tf.Operation:
        power, _ = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops):
            advance = tf.assign(power, power * self._beta1_t)
        return tf.group(*update_ops, advance, name=name_scope)


def _update(var: tf.Variable, m: Any, v: Any, step: tf.Tensor, rows: Any = None) -> tf.Operation:
    """Assign new values to both slots, given as (slot, value), and subtract a step from the variable; or only in some rows."""
    with tf.control_dependencies([step, m[1], v[1]]):  # read before write
        if rows is None:
            return tf.group(tf.assign(*m), tf.assign(*v), tf.assign_sub(var, step))
        updates = [tf.scatter_update(slot, rows, value) for slot, value in (m, v)]
        return tf.group(*updates, tf.scatter_sub(var, rows, step))

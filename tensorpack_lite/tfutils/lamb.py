"""LAMB, an optimizer for large batches."""

from __future__ import annotations

from ..compat import tfv1 as tf
from ..utils.checks import check_at_least, check_fraction, check_positive
from .weight_decay import Rate, is_selected


class LAMBOptimizer(tf.train.Optimizer):
    """
    Optimizer: Adam with decoupled weight decay, in which the length of each variable's update is proportional to the length of
    the variable.

    With the moments m and v of Adam, corrected for their first values, and u = m / (sqrt(v) + epsilon) + weight_decay * var:
    var -= learning_rate * |var| / |u| * u. The factor |var| / |u| is 1 where one of them is 0, and for variables without decay.

    Args:
        learning_rate: a number, a variable, a tensor, or a function that returns one of them.
        weight_decay: the rate of the decay.
        beta1, beta2: the weights of the old moments, in [0, 1).
        epsilon: > 0.
        regex: selects the variables to decay and to scale, whose whole name (without `:0`) matches; others get the update of
            Adam. `".*/W"` leaves out biases and normalization, as the authors do.
        name: the name of the optimizer.

    Raises:
        ValueError: a number is out of range.

    Variables: `<variable>/LAMB`, `<variable>/LAMB_1`, the moments, and `<variable>/LAMB_2`, a scalar that counts the updates.

    Example:
        >>> LAMBOptimizer(0.002, weight_decay=0.01, regex=".*/W")

    Note: a gradient that is an `IndexedSlices` updates the whole variable.

    Source: You et al. 2019, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", algorithm 2, with the
    identity as function of the norm.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        regex: str = ".*",
        name: str = "LAMB",
    ) -> None:
        super().__init__(False, name)
        self._learning_rate = learning_rate
        self._weight_decay = check_at_least("LAMBOptimizer: weight_decay", weight_decay, 0)
        self._beta1 = check_fraction("LAMBOptimizer: beta1", beta1)
        self._beta2 = check_fraction("LAMBOptimizer: beta2", beta2)
        self._epsilon = check_positive("LAMBOptimizer: epsilon", epsilon)
        self._regex = regex

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)
            zero = tf.zeros([], tf.float32)
            self._get_or_make_slot(var, zero, "count", self._name)

    def _prepare(self) -> None:
        rate = self._learning_rate
        self._rate = tf.convert_to_tensor(self._call_if_callable(rate), name="learning_rate")

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        m, v, count = (self.get_slot(var, name) for name in ("m", "v", "count"))
        dtype = var.dtype.base_dtype
        new_m = m.read_value() * self._beta1 + grad * (1 - self._beta1)
        new_v = v.read_value() * self._beta2 + tf.square(grad) * (1 - self._beta2)
        num = count.read_value() + 1.0
        m_hat = new_m / tf.cast(1 - tf.pow(self._beta1, num), dtype)
        v_hat = new_v / tf.cast(1 - tf.pow(self._beta2, num), dtype)
        update = m_hat / (tf.sqrt(v_hat) + self._epsilon)
        if is_selected(var, self._regex):
            value = var.read_value()
            update += self._weight_decay * value
            update *= _trust_ratio(value, update)
        change = tf.cast(self._rate, dtype) * update
        with tf.control_dependencies([change, new_m, new_v]):
            assigned = [
                tf.assign_sub(var, change),
                tf.assign(m, new_m),
                tf.assign(v, new_v),
                tf.assign(count, num),
            ]
            return tf.group(*assigned)

    _apply_dense = _resource_apply_dense

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        shape = tf.shape(var.read_value(), out_type=indices.dtype)
        return self._resource_apply_dense(tf.scatter_nd(indices[:, None], grad, shape), var)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return self._resource_apply_sparse(grad.values, var, grad.indices)


def _trust_ratio(value: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    """Return |value| / |update|, or 1 if one of them is 0."""
    norm, length = tf.norm(value), tf.norm(update)
    is_positive = tf.logical_and(norm > 0, length > 0)
    return tf.where(is_positive, norm / tf.where(length > 0, length, tf.ones_like(length)), tf.ones_like(norm))

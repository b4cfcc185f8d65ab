"""Optimizers with decoupled weight decay: the variables decay by themselves, apart from the gradients."""

from __future__ import annotations

import re
from typing import Any, Callable, Union

from ..compat import tfv1 as tf
from .gradproc import GradVars
from .proxy_optimizer import ProxyOptimizer
from .skipped_steps import skipped_steps
from .symbolic_functions import values_of
from .tower.copies import without_tower

Rate = Union[float, tf.Tensor, tf.Variable, Callable[[], Any]]
"""A number, a scalar tensor or variable, or a function without arguments that returns one of them."""


class DecoupledDecayOptimizer(ProxyOptimizer):
    """
    Optimizer wrapper that subtracts `learning_rate * weight_decay * var` from each variable, before the wrapped optimizer
    updates it with a gradient that knows nothing of the decay.

    With plain gradient descent, this equals `l2_regularizer(weight_decay)` in the cost. With momentum or Adam, it does not:
    the decay is neither averaged nor divided by the size of the gradients. A variable whose gradient is an `IndexedSlices`, such
    as an embedding, decays as a whole. Variables without a gradient do not decay. What a trainer does to the gradients, such as
    adding up those of all towers instead of averaging them, it does to the decay, too.

    Put it inside other wrappers: `AccumGradOptimizer(AdamWOptimizer(1e-3), 4)` decays once per update.

    Args:
        opt: a `tf.train.Optimizer`.
        learning_rate: that of the optimizer; a number, a variable, a tensor, or a function that returns one of them.
        weight_decay: the rate of the decay, likewise.
        regex: selects the variables to decay, whose whole name (without `:0`) matches. A copy of a variable in another tower
            is matched without its prefix `tower<i>/`. `".*/W"` leaves out biases and normalization.

    Raises:
        TypeError: `opt` is not a `tf.train.Optimizer`.

    Example:
        >>> DecoupledDecayOptimizer(tf.train.RMSPropOptimizer(1e-3), 1e-3, 0.05, regex=".*/W")

    Source: Loshchilov, Hutter 2017, "Decoupled Weight Decay Regularization", with the decay multiplied by the learning rate as in
    PyTorch and Keras.
    """

    def __init__(self, opt: tf.train.Optimizer, learning_rate: Rate, weight_decay: Rate, regex: str = ".*") -> None:
        super().__init__(opt, type(self).__name__)
        self.learning_rate, self.weight_decay, self.regex = learning_rate, weight_decay, regex
        self._gradient_factor = 1.0

    def set_gradient_factor(self, factor: float) -> None:
        """Multiply the decay by the factor by which a trainer multiplies the mean gradient."""
        self._gradient_factor = factor
        super().set_gradient_factor(factor)

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Return an operation that decays the variables, then applies the gradients."""
        pairs = list(grads_and_vars)
        grads = [values_of(grad) for grad, _ in pairs if grad is not None]
        with tf.control_dependencies(grads):  # which are computed from the variables before the decay
            # each variable once: AsyncMultiGPUTrainer passes the gradients of all towers
            variables = {id(var): var for grad, var in pairs if grad is not None}
            decays = [self._decay(var) for var in variables.values() if is_selected(var, self.regex)]
        with tf.control_dependencies(decays):
            return super().apply_gradients(pairs, global_step, name)

    def _decay(self, var: tf.Variable) -> tf.Operation:
        with tf.device(var.device):
            factors = [tf.cast(_value(rate), var.dtype.base_dtype) for rate in (self.learning_rate, self.weight_decay)]
            rate = factors[0] * factors[1]
            if self._gradient_factor != 1:
                rate *= tf.cast(self._gradient_factor, rate.dtype)
            is_applied = skipped_steps().is_applied()
            if is_applied is not None:  # by a loss scale inside
                rate = tf.where(is_applied, rate, tf.zeros_like(rate))
            return tf.group(tf.assign_sub(var, rate * var.read_value()))


class AdamWOptimizer(DecoupledDecayOptimizer):
    """
    Optimizer: Adam with decoupled weight decay. Its variables are those of `tf.train.AdamOptimizer`.

    Args:
        learning_rate, weight_decay, regex: see DecoupledDecayOptimizer.
        beta1, beta2, epsilon: see `tf.train.AdamOptimizer`.

    Example:
        >>> AdamWOptimizer(1e-3, weight_decay=0.05, regex=".*/W")

    Source: Loshchilov, Hutter 2017, "Decoupled Weight Decay Regularization", algorithm 2.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        weight_decay: Rate = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        regex: str = ".*",
    ) -> None:
        adam = tf.train.AdamOptimizer(learning_rate, beta1, beta2, epsilon)
        super().__init__(adam, learning_rate, weight_decay, regex)


class SGDWOptimizer(DecoupledDecayOptimizer):
    """
    Optimizer: gradient descent with momentum and decoupled weight decay. Its variables are those of
    `tf.train.MomentumOptimizer`.

    Args:
        learning_rate, weight_decay, regex: see DecoupledDecayOptimizer.
        momentum, use_nesterov: see `tf.train.MomentumOptimizer`.

    Example:
        >>> SGDWOptimizer(0.1, weight_decay=5e-4, regex=".*/W")

    Source: Loshchilov, Hutter 2017, "Decoupled Weight Decay Regularization", algorithm 1.
    """

    def __init__(
        self,
        learning_rate: Rate,
        weight_decay: Rate = 1e-4,
        momentum: float = 0.9,
        use_nesterov: bool = False,
        regex: str = ".*",
    ) -> None:
        sgd = tf.train.MomentumOptimizer(learning_rate, momentum, use_nesterov=use_nesterov)
        super().__init__(sgd, learning_rate, weight_decay, regex)


def is_selected(var: tf.Variable, regex: str) -> bool:
    """Return whether the whole name of a variable matches, without the prefix that its copy in another tower has."""
    return re.fullmatch(regex, without_tower(var)) is not None


def _value(rate: Rate) -> Any:
    return rate() if callable(rate) and not isinstance(rate, tf.Variable) else rate

"""`tf.contrib.opt`: optimizers with decoupled weight decay, and variants of Adam and momentum."""

from __future__ import annotations

from typing import Any, Sequence

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__, sources=("tensorpack_lite.tf1.contrib._adam", "tensorpack_lite.tf1.contrib._moving_average")
)


class DecoupledWeightDecayExtension:
    """
    Weight decay that changes the variables before the update, not the gradients.

    Derive from this class and from an optimizer, in this order.

    Args:
        weight_decay: the fraction of each variable that is subtracted at each step; a number, a tensor, or a function
            that returns one of them.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._decayed: set[str] = set()
        self._weight_decay = weight_decay
        super().__init__(**kwargs)

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = tf.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
        decay_var_list: Sequence[tf.Variable] | None = None,
    ) -> tf.Operation:
        """Minimize like `tf.train.Optimizer.minimize`. `decay_var_list` lists the variables to decay; None means all."""
        optimizer: Any = self
        pairs = optimizer.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
        )
        return optimizer.apply_gradients(pairs, global_step, name, decay_var_list=decay_var_list)

    def apply_gradients(
        self,
        grads_and_vars: Any,
        global_step: Any = None,
        name: str | None = None,
        decay_var_list: Sequence[tf.Variable] | None = None,
    ) -> tf.Operation:
        """Apply gradients like `tf.train.Optimizer.apply_gradients`. `decay_var_list` is that of `minimize`."""
        self._decayed = {variable.name for variable in decay_var_list or ()}
        return super().apply_gradients(grads_and_vars, global_step, name)  # type: ignore[misc]

    def _after_decay(self, var: tf.Variable, rows: tf.Tensor | None = None) -> Any:
        """Subtract the decay from a variable or some of its rows, and return a context for operations after that."""
        if self._decayed and var.name not in self._decayed:
            return tf.control_dependencies([])
        decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        decay = tf.cast(decay, var.dtype.base_dtype)
        if rows is None:
            return tf.control_dependencies([tf.group(tf.assign_sub(var, decay * var))])
        decayed = tf.scatter_sub(var, rows, decay * tf.gather(var, rows))
        return tf.control_dependencies([tf.group(decayed)])

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        with self._after_decay(var):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        with self._after_decay(var):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        with self._after_decay(var, grad.indices):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        with self._after_decay(var, indices):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type[tf.train.Optimizer]) -> type[tf.train.Optimizer]:
    """Return a subclass of an optimizer class whose first argument is the weight decay. The others need names."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore
        """An optimizer with decoupled weight decay."""

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """
    Adam with decoupled weight decay (https://arxiv.org/abs/1711.05101).

    Args:
        weight_decay: see `DecoupledWeightDecayExtension`.
        learning_rate, beta1, beta2, epsilon, use_locking, name: see `tf.train.AdamOptimizer`.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """
    Momentum with decoupled weight decay (https://arxiv.org/abs/1711.05101).

    Args:
        weight_decay: see `DecoupledWeightDecayExtension`.
        learning_rate, momentum, use_locking, name, use_nesterov: see `tf.train.MomentumOptimizer`.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: float,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


class LARSOptimizer(tf.train.MomentumOptimizer):
    """
    Momentum with a learning rate for each variable in proportion to its norm (https://arxiv.org/abs/1708.03888).

    Args:
        learning_rate: the learning rate that each variable's rate multiplies.
        momentum: the momentum.
        weight_decay: the factor of the variable that is added to its gradient.
        eeta: the coefficient of the ratio of norms.
        epsilon: added to the norm of the gradient.
        name: prefix of the slots.
        skip_list: variables whose names contain one of these strings use `learning_rate` and no weight decay.
        use_nesterov: use Nesterov momentum.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, momentum, name=name, use_nesterov=use_nesterov)
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skipped = tuple(skip_list or ())

    def _scale(self, grad: tf.Tensor, var: tf.Variable) -> tf.Tensor:
        if any(part in var.name for part in self._skipped):
            return grad
        weight_norm, grad_norm = tf.norm(var), tf.norm(grad)
        ratio = self._eeta * weight_norm / (grad_norm + self._weight_decay * weight_norm + self._epsilon)
        trust = tf.where((weight_norm > 0) & (grad_norm > 0), ratio, tf.ones_like(ratio))
        return trust * (grad + self._weight_decay * var)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return super()._apply_dense(self._scale(grad, var), var)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return super()._resource_apply_dense(self._scale(grad, var), var)


def clip_gradients_by_global_norm(
    gradients_variables: Sequence[tuple[tf.Tensor, tf.Variable]], clip_norm: float = 20.0
) -> tuple[list[tuple[tf.Tensor, tf.Variable]], tf.Tensor]:
    """Return the pairs with gradients clipped to a global norm, and the norm before clipping."""
    gradients, variables = zip(*gradients_variables)
    norm = tf.global_norm(gradients)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    return list(zip(clipped, variables)), norm

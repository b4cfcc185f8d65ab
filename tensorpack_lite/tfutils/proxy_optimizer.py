"""The base class of optimizer wrappers."""

from __future__ import annotations

from typing import Any, Callable, Iterable

from ..compat import tfv1 as tf
from ..utils.argtools import graph_memoized
from ..utils.errors import type_error
from .gradproc import FilterNoneGrad, GradVars


class ProxyOptimizer(tf.train.Optimizer):
    """
    Base class of optimizer wrappers. It forwards every method to the wrapped optimizer.

    Args:
        opt: a `tf.train.Optimizer`.
        name: name of the wrapper.

    Raises:
        TypeError: `opt` is something else, e.g. a Keras optimizer.
    """

    def __init__(self, opt: tf.train.Optimizer, name: str = "ProxyOptimizer") -> None:
        if not isinstance(opt, tf.train.Optimizer):
            raise type_error(
                type(self).__name__, "a tf.train.Optimizer", opt, "For example, use tfv1.train.AdamOptimizer."
            )
        super().__init__(False, name)
        self._opt = opt
        created_wrappers().append(self)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradVars:
        """Compute gradients with the wrapped optimizer."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: GradVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Return an operation that applies gradients with the wrapped optimizer."""
        return self._opt.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def watch(self, grads_and_vars: GradVars) -> None:
        """
        Show gradients to the wrapped optimizer before they are processed. A `DynamicLossScaleOptimizer` skips the step if one of
        them is not finite, whatever the processed gradients are.
        """
        if isinstance(self._opt, ProxyOptimizer):
            self._opt.watch(grads_and_vars)

    def set_gradient_factor(self, factor: float) -> None:
        """
        Announce the factor between the gradients of a step and the mean gradient of all towers or processes.

        A wrapper that changes variables apart from the gradients multiplies its changes by the same factor.
        """
        set_gradient_factor(self._opt, factor)

    def get_slot(self, *args: object, **kwargs: object) -> tf.Variable | None:
        """Return a slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: object, **kwargs: object) -> list[str]:
        """Return the names of the slots of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the wrapped optimizer."""
        return self._opt.variables()

    def _with_gradient(self, grads_and_vars: GradVars) -> GradVars:
        """Leave out variables without a gradient. Raises ValueError if no variable has one."""
        pairs = FilterNoneGrad().process(list(grads_and_vars))
        if not pairs:
            raise ValueError(
                f"{type(self).__name__}: no variable has a gradient. Does the cost depend on the variables?"
            )
        return pairs


@graph_memoized
def created_wrappers() -> list[ProxyOptimizer]:
    """Return the wrappers that were created under the default graph. Lint looks for those that nothing uses."""
    return []


def set_gradient_factor(optimizer: tf.train.Optimizer, factor: float) -> None:
    """
    Tell an optimizer's wrappers what a trainer does to gradients; see `ProxyOptimizer.set_gradient_factor`.

    Args:
        optimizer: a `tf.train.Optimizer`.
        factor: 1 if the trainer applies the mean of the gradients, their number if it applies the sum.
    """
    if isinstance(optimizer, ProxyOptimizer):
        optimizer.set_gradient_factor(factor)


def apply_if(
    who: str, condition: tf.Tensor, variables: Iterable[tf.Variable], apply: Callable[[], tf.Tensor]
) -> tf.Tensor:
    """
    Return a tensor that is the result of a function if a condition is true; otherwise False.

    The function assigns variables in the steps that fulfill the condition. It may create variables, as optimizers create slots.

    Args:
        who: the caller's class, for the error message.
        condition: a scalar bool tensor.
        variables: the variables of the model that the function assigns.
        apply: the function, which returns a scalar bool tensor.

    Raises:
        ValueError: a variable is a ref variable while TF 2's control flow is enabled.
    """
    refs = [var.op.name for var in variables if not is_resource(var)]
    if refs and tf.control_flow_v2_enabled():
        raise ValueError(
            f"{who}: '{refs[0]}' is a ref variable, which TF 2's control flow cannot assign. Create it with "
            "use_resource=True, or call tf.compat.v1.disable_control_flow_v2() first."
        )
    # In a branch, TensorFlow 2 creates the slots of the optimizer in the graph that was entered last; without one, eagerly.
    with tf.get_default_graph().as_default():
        return tf.cond(condition, apply, lambda: tf.constant(False))


def is_resource(var: tf.Variable) -> bool:
    """Return whether a variable is a resource variable, not a ref variable."""
    return var.op.type == "VarHandleOp"

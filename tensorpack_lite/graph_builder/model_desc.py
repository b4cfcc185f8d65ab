"""What a user writes: the inputs of a model, its graph, and the optimizer."""

from __future__ import annotations

from typing import Any

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..tfutils.tower.context import get_current_tower_context
from ..utils.argtools import memoized_method

__all__ = ["ModelDesc", "ModelDescBase"]


class ModelDescBase:
    """
    A model: what it takes, and how it is built.

    A subclass defines `inputs` and `build_graph`. It has no constructor to call.

    tensorpack: same.
    """

    def inputs(self) -> list[Any]:
        """
        Say what the model takes; override it.

        Returns:
            A list of `tf.TensorSpec(shape, dtype, name)`, one for each argument of `build_graph`; placeholders made in this
            method are taken too.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: define inputs(), which returns a list of tf.TensorSpec."
        )

    def build_graph(self, *args: Any) -> Any:
        """
        Build the model; override it. It may be called several times and follows the rules of tower functions.

        Args:
            args: one tensor for each entry of `inputs()`.

        Returns:
            What the trainer needs: with a `SingleCostTrainer`, the cost, a scalar tensor.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: define build_graph(), which builds the model from its inputs."
        )

    @memoized_method
    def get_input_signature(self) -> list[Any]:
        """
        Ask `inputs()` once, in a graph of its own.

        Returns:
            A list of `TensorSpec`, each with a name.

        Raises:
            TypeError: an input is neither a TensorSpec nor a placeholder.
            ValueError: a placeholder was made outside of `inputs()`.

        tensorpack: same.
        """
        with tf.Graph().as_default() as graph:
            inputs = self.inputs()
            if not isinstance(inputs, (list, tuple)):
                raise _wrong_return(self, "inputs", inputs, "a list of tf.TensorSpec")
            return [self._to_spec(one, graph) for one in inputs]

    def _to_spec(self, one: Any, graph: Any) -> Any:
        if isinstance(one, TensorSpec):
            return one
        if not isinstance(one, tf.Tensor):
            raise _wrong_return(self, "inputs", one, "only tf.TensorSpec (or placeholders) in its list")
        if one.graph is not graph:
            raise ValueError(
                f"{type(self).__name__}.inputs: {one.name} was made elsewhere. Make it inside inputs(), or use TensorSpec."
            )
        return TensorSpec(shape=one.shape, dtype=one.dtype, name=one.op.name)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [spec.name for spec in self.get_input_signature()]

    @property
    def training(self) -> bool:
        """Whether the tower that is being built is trained."""
        context = get_current_tower_context()
        if context is None:
            raise AttributeError(
                f"{type(self).__name__}.training: known only while the model is built under a TowerContext."
            )
        return context.is_training


class ModelDesc(ModelDescBase):
    """
    A model with a single cost and an optimizer.

    Besides `inputs` and `build_graph`, which returns the cost, a subclass defines `optimizer`.

    Example:
        >>> class Model(ModelDesc):
        ...     def inputs(self):
        ...         return [tf.TensorSpec([None], tf.float32, "x")]
        ...     def build_graph(self, x):
        ...         w = tf.get_variable("w", shape=[])
        ...         return tf.reduce_mean((w - x) ** 2, name="cost")
        ...     def optimizer(self):
        ...         return tf.train.GradientDescentOptimizer(0.1)

    tensorpack: same.
    """

    def optimizer(self) -> Any:
        """Make the optimizer, a `tf.train.Optimizer`; override it. Called once, inside the first tower."""
        raise NotImplementedError(
            f"{type(self).__name__}: define optimizer(), which returns a tf.train.Optimizer."
        )

    @memoized_method
    def get_optimizer(self) -> Any:
        """
        Ask `optimizer()` once.

        Raises:
            TypeError: it is no `tf.train.Optimizer` of TF1.

        tensorpack: same.
        """
        optimizer = self.optimizer()
        if not isinstance(optimizer, tf.train.Optimizer):
            raise _wrong_return(
                self, "optimizer", optimizer, "a tf.train.Optimizer of tfv1, not one of Keras"
            )
        return optimizer


def _wrong_return(model: ModelDescBase, method: str, got: object, wanted: str) -> TypeError:
    return TypeError(f"{type(model).__name__}.{method}() returned {type(got).__name__}, wanted {wanted}.")

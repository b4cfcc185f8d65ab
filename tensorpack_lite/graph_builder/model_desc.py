"""Base classes for a user's model: its inputs, its graph and the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.tower.error_hints import explain_mistakes
from ..utils.argtools import memoized_method
from ..utils.errors import type_error
from ..utils.missing_names import explain_missing_names

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)


class ModelDescBase:
    """
    Base class for models. Subclasses define `inputs` and `build_graph`, and need not call a constructor.
    """

    def inputs(self) -> list[tf.TensorSpec | tf.Tensor]:
        """
        Return the inputs of the model; subclasses override it.

        Returns:
            A list of `tf.TensorSpec(shape, dtype, name)`, one for each argument of `build_graph`.
            Placeholders that this method creates are valid, too.
        """
        raise NotImplementedError(f"{type(self).__name__}: define inputs(), which returns a list of tf.TensorSpec.")

    def build_graph(self, *args: Any, **kwargs: Any) -> Any:  # type checkers accept any override of this
        """
        Build the model; subclasses override it. It may be called several times, and follows the rules of
        tower functions.

        Args:
            args: one tensor for each element of `inputs()`.

        Returns:
            The value that the trainer expects. For a `SingleCostTrainer`, this is the cost, a scalar tensor.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: define build_graph(), which builds the model from its inputs."
        )

    @memoized_method
    def get_input_signature(self) -> list[tf.TensorSpec]:
        """
        Return the inputs as a list of `TensorSpec` with names. `inputs()` is called once, in a temporary graph.

        Raises:
            TypeError: an input is neither a TensorSpec nor a placeholder.
            ValueError: a placeholder was created outside of `inputs()`.
        """
        with tf.Graph().as_default() as graph:
            with explain_mistakes(f"{type(self).__name__}.inputs"):
                inputs = self.inputs()
            if not isinstance(inputs, (list, tuple)):
                raise _wrong_return(self, "inputs", "a list of tf.TensorSpec", inputs)
            return [self._to_spec(entry, graph) for entry in inputs]

    def _to_spec(self, entry: object, graph: tf.Graph) -> tf.TensorSpec:
        if isinstance(entry, TensorSpec):
            return entry
        if not isinstance(entry, tf.Tensor):
            raise _wrong_return(self, "inputs", "a list of only tf.TensorSpec or placeholders", entry)
        if entry.graph is not graph:
            raise ValueError(
                f"{type(self).__name__}.inputs: {entry.name} was created outside of this method. Create it inside, or use "
                "tf.TensorSpec."
            )
        return TensorSpec(shape=entry.shape, dtype=entry.dtype, name=entry.op.name)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [spec.name for spec in self.get_input_signature()]

    @property
    def training(self) -> bool:
        """Whether the current tower is built for training."""
        context = get_current_tower_context()
        if context is None:
            raise AttributeError(
                f"{type(self).__name__}.training: used outside of a tower. It is only known while the model is built."
            )
        return context.is_training

    @training.setter
    def training(self, value: bool) -> None:
        raise AttributeError(
            f"{type(self).__name__}.training: cannot be assigned, because the tower decides whether the model is trained. Use "
            "another name for a value of your own. An old script runs unchanged with `tensorpack-lite run`."
        )


class ModelDesc(ModelDescBase):
    """
    Base class for models with a single cost, which `build_graph` returns, and an optimizer.

    Subclasses define `inputs`, `build_graph` and `optimizer`.

    Example:
        >>> class Model(ModelDesc):
        ...     def inputs(self):
        ...         return [tf.TensorSpec([None], tf.float32, "x")]
        ...     def build_graph(self, x):
        ...         w = tf.get_variable("w", shape=[])
        ...         return tf.reduce_mean((w - x) ** 2, name="cost")
        ...     def optimizer(self):
        ...         return tf.train.GradientDescentOptimizer(0.1)
    """

    def optimizer(self) -> tf.train.Optimizer:
        """Return a `tf.train.Optimizer`; subclasses override it. It is called once, inside the first tower."""
        raise NotImplementedError(f"{type(self).__name__}: define optimizer(), which returns a tf.train.Optimizer.")

    @memoized_method
    def get_optimizer(self) -> tf.train.Optimizer:
        """
        Return the optimizer. `optimizer()` is called once.

        Raises:
            TypeError: `optimizer()` did not return a `tf.train.Optimizer` of TensorFlow 1.
        """
        with explain_mistakes(f"{type(self).__name__}.optimizer"):
            optimizer = self.optimizer()
        if not isinstance(optimizer, tf.train.Optimizer):
            expected = "a tf.train.Optimizer of tfv1, not of Keras"
            raise _wrong_return(self, "optimizer", expected, optimizer, "Write tf.train.AdamOptimizer(0.01).")
        return optimizer


def _wrong_return(model: ModelDescBase, method: str, expected: str, got: object, advice: str = "") -> TypeError:
    if got is None:
        advice = f"End {method}() with `return`."
    elif isinstance(got, type):  # whose description explains what to write
        advice = ""
    return type_error(f"{type(model).__name__}.{method}() returned the wrong type", expected, got, advice)

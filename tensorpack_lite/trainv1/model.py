"""Models that set `self.cost`."""

from __future__ import annotations

import inspect
from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..graph_builder import model_desc
from ..input_source.base import InputSource
from ..tfutils.gradproc import GradientProcessor
from ..tfutils.optimizer import apply_grad_processors
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..tfutils.tower.context import get_current_tower_context
from .inputs import InputDesc, InputSpec


class ModelDesc(model_desc.ModelDesc):
    """
    A model that sets `self.cost` instead of returning the cost.

    A subclass defines `_get_inputs`, `_build_graph` and `_get_optimizer`. It may instead override any of the current
    methods `inputs`, `build_graph` and `optimizer`.

    Attributes:
        cost: the cost that `_build_graph` set for the most recent tower, or None.

    Example:
        >>> class Model(ModelDesc):
        ...     def _get_inputs(self):
        ...         return [InputDesc(tf.float32, (None,), "x")]
        ...     def _build_graph(self, inputs):
        ...         w = tf.get_variable("w", shape=[])
        ...         self.cost = tf.reduce_mean((w - inputs[0]) ** 2, name="cost")
        ...     def _get_optimizer(self):
        ...         return tf.train.GradientDescentOptimizer(0.1)
    """

    cost: tf.Tensor | None = None
    _training: bool | None = None

    # Methods that a subclass defines ---------------------------------------------------------------------------------
    def _get_inputs(self) -> list[InputDesc | tf.TensorSpec | tf.Tensor]:
        """Return the inputs: a list of InputDesc, TensorSpec, or placeholders that this method creates."""
        return self._get_input_vars()

    def _get_input_vars(self) -> list[InputDesc | tf.TensorSpec | tf.Tensor]:
        """Return the inputs: the name of `_get_inputs` in 2016."""
        raise NotImplementedError(
            f"{type(self).__name__}: define inputs(), or _get_inputs() as in 2017. It returns a list of tf.TensorSpec or InputDesc."
        )

    def _build_graph(self, inputs: list[tf.Tensor]) -> None:
        """
        Build the model from a list of tensors and set `self.cost`. May be called several times.

        A method with a second argument without a default, as in 2016, gets whether the tower is built for training.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: define build_graph(*inputs), which returns the cost, or _build_graph(inputs) as in 2017, which sets self.cost."
        )

    def _get_optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer, a `tf.train.Optimizer`."""
        raise NotImplementedError(
            f"{type(self).__name__}: define optimizer(), or _get_optimizer() as in 2017. It returns a tf.train.Optimizer."
        )

    def _get_cost(self) -> tf.Tensor | None:
        """Return the cost of the tower that `_build_graph` has just built: `self.cost`."""
        return self.cost

    def get_gradient_processor(self) -> Sequence[GradientProcessor]:
        """Return the gradient processors that the optimizer applies, in order: none."""
        return []

    # The current interface, in terms of the methods above ------------------------------------------------------------
    def inputs(self) -> list[tf.TensorSpec | tf.Tensor]:
        """Return `_get_inputs()` as a list of TensorSpec or placeholders."""
        return [one.to_spec() if isinstance(one, InputDesc) else one for one in self._get_inputs()]

    def build_graph(self, *args: tf.Tensor | list[tf.Tensor] | InputSource) -> tf.Tensor | None:
        """
        Call `_build_graph`.

        Args:
            args: the input tensors, a list of them, or an InputSource.

        Returns:
            The cost, or None if it was not set.
        """
        inputs = _as_tensors(args)
        vars(self).pop("cost", None)  # of the previous tower
        build: Any = self._build_graph
        if _takes_is_training(build):
            build(inputs, _is_training())
        else:
            build(inputs)
        return self.get_cost() if _is_training() else self.cost

    def optimizer(self) -> tf.train.Optimizer:
        """Return `_get_optimizer()`, with the model's gradient processors."""
        processors = self.get_gradient_processor()
        optimizer = self._get_optimizer()
        return apply_grad_processors(optimizer, processors) if processors else optimizer

    # Methods that trainers of scripts call ---------------------------------------------------------------------------
    def get_inputs_desc(self) -> list[InputSpec]:
        """Return the input signature, like `get_input_signature`. Its elements also have the methods of InputDesc."""
        return [InputSpec(spec.shape, spec.dtype, spec.name) for spec in self.get_input_signature()]

    def get_reused_placehdrs(self) -> list[tf.Tensor]:
        """Return the placeholders of the inputs in the default graph. Create those that do not exist."""
        return [build_or_reuse_placeholder(spec) for spec in self.get_input_signature()]

    get_input_vars = reuse_input_vars = get_reused_placehdrs

    def get_cost(self) -> tf.Tensor | None:
        """Return the cost of the most recent tower."""
        return self._get_cost()

    @property
    def training(self) -> bool:
        """Whether the current tower is built for training; or the value that the model has assigned."""
        return super().training if self._training is None else self._training

    @training.setter
    def training(self, value: bool) -> None:
        self._training = value


class AnyGeneration:
    """
    The first base class of a model that `tensorpack-lite run` creates: it accepts all that models ever returned.

    `inputs` may return InputDesc, and `build_graph` may set `self.cost` instead of returning it.
    """

    cost: Any

    def inputs(self) -> list[tf.TensorSpec | tf.Tensor]:
        """Return the inputs of the model with each InputDesc as a TensorSpec."""
        inputs = super().inputs()  # type: ignore[misc]
        return [one.to_spec() if isinstance(one, InputDesc) else one for one in inputs]

    def build_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Build the model, and return its result; `self.cost` if it returned None and set the cost."""
        vars(self).pop("cost", None)  # of the previous tower
        result = super().build_graph(*args, **kwargs)  # type: ignore[misc]
        return self.cost if result is None else result


def _as_tensors(args: Sequence[Any]) -> list[tf.Tensor]:
    """Return the tensors of `build_graph(a, b)`, `build_graph([a, b])` or `build_graph(input_source)`."""
    if len(args) == 1 and isinstance(args[0], InputSource):
        return list(args[0].get_input_tensors())
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return list(args[0])
    return list(args)


def _takes_is_training(build: Any) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(build).parameters.values()
    return len([p for p in parameters if p.kind in kinds and p.default is p.empty]) > 1


def _is_training() -> bool:
    context = get_current_tower_context()
    return context is None or bool(context.is_training)

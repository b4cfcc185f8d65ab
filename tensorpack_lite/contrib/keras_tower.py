"""
Building a Keras model in a tower: its layers, variables and losses.

Each tower calls the user's function. Its layers create their variables by `tf.get_variable`, under the layer's name
without the tower's. So towers share variables by name, and checkpoints have the same names with every trainer.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Union

from ..compat import TF_VERSION, tensorflow
from ..compat import tfv1 as tf
from ..models.regularize import regularize_cost_from_collection
from ..tfutils.summary import add_moving_summary
from ..tfutils.tower.context import BaseTowerContext, get_current_tower_context
from ..utils.errors import type_error

_FIRST_WITH_KERAS_3 = (2, 16)

Function = Union[str, Callable[..., Any]]
"""A loss or metric: its name in Keras, or a function `(target, output) -> values`."""


def import_keras() -> ModuleType:
    """
    Return Keras 2, which can build graphs. A script that creates its layers with it runs on every TensorFlow.

    Returns:
        `tf.keras` on TensorFlow up to 2.15; later, when `tf.keras` is Keras 3, the module `tf_keras`.

    Raises:
        ImportError: `tf_keras` is required and not installed.

    Example:
        >>> keras = import_keras()
        >>> keras.layers.Dense(10)
    """
    if TF_VERSION < _FIRST_WITH_KERAS_3:
        return tensorflow.keras
    try:
        import tf_keras
    except ImportError as error:
        version = f"{TF_VERSION[0]}.{TF_VERSION[1]}"
        raise ImportError(
            f"contrib.keras: Keras 3, which TensorFlow {version} uses, cannot build graphs, and Keras 2 is not installed. Run: "
            f'pip install "tf_keras=={version}.*".'
        ) from error
    return tf_keras


class TowerCost:
    """
    The tower function, which computes the total cost from inputs, targets and weights of samples.

    Args:
        build: the builder of the model.
        num_inputs: how many of the tensors are inputs.
        losses: the terms of the cost, one for each output.
        metrics: the terms of the metrics.
        has_weights: whether a tensor of weights for each output follows the targets.
    """

    def __init__(
        self, build: TowerModel, num_inputs: int, losses: list[Term], metrics: list[Term], has_weights: bool
    ) -> None:
        self._build, self._num_inputs, self._losses, self._metrics = build, num_inputs, losses, metrics
        self._has_weights = has_weights

    def __call__(self, *tensors: tf.Tensor) -> tf.Tensor:
        """Build one tower and return `total_loss`, a scalar."""
        inputs, data = tensors[: self._num_inputs], list(tensors[self._num_inputs :])
        number = len(self._losses)
        targets, weights = data[:number], data[number:] if self._has_weights else [None] * number
        context = get_current_tower_context()
        assert context is not None, "bug: a tower function is called under a TowerContext"
        outputs, regularization = self._build(context, inputs)
        if len(outputs) != len(targets):
            raise ValueError(
                f"setup_keras_trainer: expected a model with {len(targets)} outputs, one for each target "
                f"({', '.join(target.op.name for target in targets)}), got {len(outputs)}."
            )
        costs = [term.build_loss(targets, outputs, weights) for term in self._losses]
        total = tf.add_n([*costs, *regularization], name="total_loss")
        metrics: list[tf.Tensor] = []
        if context.is_main_training_tower or not context.is_training:
            metrics = [term.build_metric(targets, outputs) for term in self._metrics]
        add_moving_summary(*costs, *metrics, total)
        return total


class TowerModel:
    """Builder of the Keras model of each tower."""

    def __init__(self, get_model: Callable[..., Any]) -> None:
        self._get_model = get_model
        self._keras = import_keras()
        self._models: list[tf.keras.Model] = []

    def __call__(self, context: BaseTowerContext, inputs: Sequence[tf.Tensor]) -> tuple[list[Any], list[Any]]:
        """Return the model's outputs and the losses of its regularizers."""
        self._keras.backend.reset_uids()  # layers without a name get the same default names in each tower
        with tf.variable_creator_scope(_make_creator(context)), self._phase(context.is_training):
            model = self._get_model(*inputs)
            self._check(model)
            if self._is_built_on(model, inputs):
                outputs, sources = model.outputs, model.inputs
            else:
                sources = list(inputs)
                outputs = model(sources[0] if len(sources) == 1 else sources)
            self._models.append(model)
            regularization = self._collect(context, model, sources)
        return (list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]), regularization

    def _check(self, model: tf.keras.Model) -> None:
        if not isinstance(model, self._keras.Model):
            raise TypeError(
                f"setup_keras_trainer: get_model returned {type(model).__module__}.{type(model).__name__}, expected a model of "
                f"{self._keras.__name__}. Create it with keras = tensorpack_lite.contrib.keras.import_keras()."
            )

    def _is_built_on(self, model: tf.keras.Model, inputs: Sequence[tf.Tensor]) -> bool:
        """Return whether the model is built on the tower's tensors; otherwise it must be called on them."""
        if not model.inputs or any(model is known for known in self._models):
            return False
        ours = {tensor.name for tensor in inputs}
        return any(tensor.name in ours or tensor.op.type != "Placeholder" for tensor in model.inputs)

    def _collect(self, context: BaseTowerContext, model: tf.keras.Model, sources: list[tf.Tensor]) -> list[tf.Tensor]:
        """Add the losses and updates of a model to TensorFlow's collections, and return the losses."""
        of_weights, of_activities = model.get_losses_for(None), model.get_losses_for(sources)
        if context.is_training and context.has_own_variables:
            _freeze(context, model)
            tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES).extend(of_weights)
        if context.is_main_training_tower:
            updates = [*model.get_updates_for(None), *model.get_updates_for(sources)]
            known = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
            known.extend(op for op in updates if not any(op is known_op for known_op in known))
        if context.is_training:  # once for all towers that share the weights
            has_any = bool(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
            of_weights = [regularize_cost_from_collection()] if has_any else []
        return [tf.cast(loss, tf.float32) for loss in [*of_activities, *of_weights]]

    @contextmanager
    def _phase(self, is_training: bool) -> Iterator[None]:
        """Set the learning phase, so that layers without `training=...` need no feed."""
        with ExitStack() as scopes:
            with warnings.catch_warnings():
                # The warning advises training=..., but the user's function makes the call.
                warnings.filterwarnings("ignore", message=".*learning_phase_scope` is deprecated")
                scopes.enter_context(self._keras.backend.learning_phase_scope(int(is_training)))
            yield


class Term(NamedTuple):
    """A loss or metric of one output."""

    name: str
    function: Callable[[Any, Any], Any]
    output: int

    def build_loss(
        self, targets: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor], weights: Sequence[tf.Tensor | None]
    ) -> tf.Tensor:
        """
        Return the mean of a loss over the batch as in Keras, a scalar tensor called `name`.

        Values behind a mask do not count; a weight multiplies the value of a sample, but does not count as more samples.
        """
        weight = weights[self.output]
        with tf.name_scope(f"{self.name}_internals"):
            values, valid = self._evaluate(targets, outputs)
            if weight is not None:
                values *= _expand(tf.cast(weight, tf.float32), values)
            tf.cast(tf.shape(targets[0])[0], tf.float32, name="weight")
            mean = tf.reduce_sum(values) / tf.maximum(tf.reduce_sum(valid), 1)
        return tf.identity(mean, name=self.name)

    def build_metric(self, targets: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the mean of a metric over the values of the batch, a scalar tensor called `name`."""
        with tf.name_scope(f"{self.name}_internals"):
            values, valid = self._evaluate(targets, outputs)
            weight = tf.reduce_sum(valid, name="weight")
            mean = tf.reduce_sum(values) / tf.maximum(weight, 1)
        return tf.identity(mean, name=self.name)

    @property
    def weight_name(self) -> str:
        """The name of the tensor with the weight of a batch among others."""
        return f"{self.name}_internals/weight"

    def _evaluate(self, targets: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the values, and 1 where they count and 0 behind the mask of the output, in the same shape."""
        target, output = targets[self.output], outputs[self.output]
        if target.shape.ndims == 1 and output.shape.ndims == 2 and output.shape.as_list()[1] == 1:
            target = tf.expand_dims(target, 1)  # otherwise they would be broadcast to [N, N]
        values = tf.cast(self.function(target, output), tf.float32)
        mask = getattr(output, "_keras_mask", None)
        if mask is None or values.shape.ndims == 0:
            return values, tf.ones_like(values)
        valid = tf.logical_and(_expand(tf.cast(mask, tf.bool), values), tf.ones_like(values, tf.bool))
        return tf.where(valid, values, tf.zeros_like(values)), tf.cast(valid, tf.float32)


def _expand(tensor: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Add axes of size 1 at the end, or remove such axes, until a tensor has as many as another one."""
    number = (like.shape.ndims or 0) - (tensor.shape.ndims or 0)
    for _ in range(abs(number)):
        tensor = tf.expand_dims(tensor, -1) if number > 0 else tf.squeeze(tensor, -1)
    return tensor


def make_losses(loss: Function | list[Function]) -> list[Term]:
    """Return the terms of a loss, or of a list with one loss for each output."""
    get = import_keras().losses.get
    losses = loss if isinstance(loss, (list, tuple)) else [loss]
    return [_make_term("loss", function, get, output) for output, function in enumerate(losses)]


def make_metrics(metrics: Function | list[Function] | None, losses: list[Term]) -> list[Term]:
    """Return the terms of each metric for each output, except those that are losses too."""
    metrics = metrics if isinstance(metrics, (list, tuple)) else [metrics] if metrics else []
    terms: list[Term] = []
    for loss in losses:
        for metric in metrics:
            term = _make_term("metric", metric, _get_metric, loss.output)
            if term.name not in [known.name for known in [*losses, *terms]]:
                terms.append(term)
    return terms


def _make_term(kind: str, term: Function, get: Callable[[str], Any], output: int) -> Term:
    function = get(term) if isinstance(term, str) else term
    name = term if isinstance(term, str) else getattr(term, "name", getattr(term, "__name__", ""))
    if not callable(function) or not name or hasattr(function, "update_state"):
        raise type_error(
            f"setup_keras_trainer: {kind}",
            "the name of a Keras function or a function (target, output) -> values",
            term,
        )
    return Term(f"{name}_{output}" if output else str(name), function, output)


def _get_metric(name: str) -> Callable[..., tf.Tensor]:
    return _accuracy if name in ("accuracy", "acc") else import_keras().metrics.get(name)


def _accuracy(target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
    """Compute binary accuracy for one unit, sparse accuracy for targets that are class numbers, or categorical accuracy."""
    metrics = import_keras().metrics
    if output.shape.as_list()[-1] == 1:
        return metrics.binary_accuracy(target, output)
    if target.shape.rank < output.shape.rank or target.shape.as_list()[-1] == 1:
        return metrics.sparse_categorical_accuracy(target, output)
    return metrics.categorical_accuracy(target, output)


def _make_creator(context: BaseTowerContext) -> Callable[..., tf.Variable]:
    """Return a variable creator that creates the variables of Keras layers by `tf.get_variable`."""

    def create(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        scope = tf.get_default_graph().get_name_scope() or ""
        shape, initial_value = kwargs.get("shape"), kwargs.get("initial_value")
        # tf.get_variable creates variables outside all name scopes; a layer creates them inside its own.
        if not scope or shape is None or not callable(initial_value):
            return next_creator(**kwargs)
        # tf.get_variable adds the variable scope, which the name scope contains too.
        in_tower = _without_prefix(scope, context.name)
        in_tower = _without_prefix(in_tower, _without_prefix(tf.get_variable_scope().name, context.vs_name))
        trainable = kwargs.get("trainable") is not False
        collections = [tf.GraphKeys.GLOBAL_VARIABLES]
        if not trainable and not context.vs_name:
            collections.append(tf.GraphKeys.MODEL_VARIABLES)
        return tf.get_variable(
            f"{in_tower}/{kwargs['name']}" if in_tower else kwargs["name"],
            shape=shape,
            dtype=kwargs.get("dtype"),
            initializer=lambda shape, dtype=None, partition_info=None: initial_value(),
            trainable=trainable,
            collections=collections,
            constraint=kwargs.get("constraint"),
        )

    return create


def _without_prefix(path: str, prefix: str) -> str:
    if prefix and f"{path}/".startswith(f"{prefix}/"):
        return path[len(prefix) + 1 :]
    return path


def _freeze(context: BaseTowerContext, model: tf.keras.Model) -> None:
    """Remove the weights of layers with `trainable = False` from TRAINABLE_VARIABLES."""
    frozen = {id(var) for var in model.weights} - {id(var) for var in model.trainable_weights}
    trained = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
    if not context.vs_name:
        moved = [var for var in trained if id(var) in frozen]
        tf.get_collection_ref(tf.GraphKeys.MODEL_VARIABLES).extend(moved)
    trained[:] = [var for var in trained if id(var) not in frozen]

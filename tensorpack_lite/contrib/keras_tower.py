"""
A Keras model in one tower: its layers, its variables, its losses.

Each tower calls the user's function again. Layers make their variables through `tf.get_variable` there, under the
layer's name without the tower's: so all towers share them by name, and a checkpoint has the same names under each trainer.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from ..compat import TF_VERSION, tensorflow
from ..compat import tfv1 as tf
from ..models.regularize import regularize_cost_from_collection
from ..tfutils.summary import add_moving_summary
from ..tfutils.tower.context import BaseTowerContext, get_current_tower_context
from ..utils.errors import type_error

__all__ = ["Term", "TowerCost", "TowerModel", "import_keras", "make_losses", "make_metrics"]

_FIRST_WITH_KERAS_3 = (2, 16)


def import_keras() -> Any:
    """
    Get the Keras that can build graphs; make your layers with it, and a script runs on every TensorFlow.

    Returns:
        `tf.keras` on TensorFlow up to 2.15; after that, where `tf.keras` is Keras 3, the module `tf_keras`.

    Raises:
        ImportError: `tf_keras` is needed and not installed.

    Example:
        >>> keras = import_keras()
        >>> keras.layers.Dense(10)

    tensorpack: not there.
    """
    if TF_VERSION < _FIRST_WITH_KERAS_3:
        return tensorflow.keras
    try:
        import tf_keras
    except ImportError as error:
        version = f"{TF_VERSION[0]}.{TF_VERSION[1]}"
        raise ImportError(
            f"contrib.keras: the Keras 3 of TensorFlow {version} cannot build graphs, and Keras 2 is not installed. Run: "
            f'pip install tf_keras (here: "tf_keras=={version}.*").'
        ) from error
    return tf_keras


class TowerCost:
    """The tower function: inputs and targets to the total cost."""

    def __init__(self, build: TowerModel, num_inputs: int, losses: list[Term], metrics: list[Term]) -> None:
        self._build, self._num_inputs, self._losses, self._metrics = build, num_inputs, losses, metrics

    def __call__(self, *tensors: Any) -> Any:
        """Build one tower; gives `total_loss`, a scalar."""
        inputs, targets = tensors[: self._num_inputs], tensors[self._num_inputs :]
        context = get_current_tower_context()
        assert context is not None, "bug: a tower function is called under a TowerContext"
        outputs, activity_losses = self._build(context, inputs)
        if len(outputs) != len(targets):
            raise ValueError(
                f"setup_keras_trainer: the model has {len(outputs)} outputs and there are {len(targets)} targets "
                f"({', '.join(target.op.name for target in targets)})."
            )
        costs = [term.build(targets, outputs) for term in self._losses]
        regularization = regularize_cost_from_collection()
        total = tf.add_n([*costs, *activity_losses, regularization], name="total_loss")
        metrics: list[Any] = []
        if context.is_main_training_tower or not context.is_training:
            metrics = [term.build(targets, outputs) for term in self._metrics]
        add_moving_summary(*costs, *metrics, total)
        return total


class TowerModel:
    """Builds the Keras model of one tower after the other."""

    def __init__(self, get_model: Callable[..., Any]) -> None:
        self._get_model = get_model
        self._keras = import_keras()
        self._models: list[Any] = []

    def __call__(self, context: BaseTowerContext, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Give the model's outputs, and in training the losses of its activities."""
        self._keras.backend.reset_uids()  # layers without a name are called the same in each tower
        with tf.variable_creator_scope(_make_creator(context)), self._phase(context.is_training):
            model = self._get_model(*inputs)
            self._check(model)
            if self._is_built_on(model, inputs):
                outputs, sources = model.outputs, model.inputs
            else:
                outputs, sources = model(_one_or_list(inputs)), list(inputs)
            self._models.append(model)
            activity_losses = self._collect(context, model, sources) if context.is_training else []
        return (list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]), activity_losses

    def _check(self, model: Any) -> None:
        if not isinstance(model, self._keras.Model):
            raise TypeError(
                f"setup_keras_trainer: get_model returned {type(model).__module__}.{type(model).__name__}, wanted a model of "
                f"{self._keras.__name__}. Make it with keras = tensorpack_lite.contrib.keras.import_keras()."
            )

    def _is_built_on(self, model: Any, inputs: Sequence[Any]) -> bool:
        """Tell a model that continues the tower's tensors from one that is to be called on them."""
        if not model.inputs or any(model is known for known in self._models):
            return False
        ours = {tensor.name for tensor in inputs}
        return any(one.name in ours or one.op.type != "Placeholder" for one in model.inputs)

    def _collect(self, context: BaseTowerContext, model: Any, sources: Any) -> list[Any]:
        """Put into TensorFlow's collections what Keras keeps to itself; gives the losses of activities."""
        if context.has_own_variables:
            _freeze(context, model)
            tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES).extend(model.get_losses_for(None))
        if context.is_main_training_tower:
            updates = [*model.get_updates_for(None), *model.get_updates_for(sources)]
            known = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
            known.extend(op for op in updates if not any(op is other for other in known))
        return [tf.cast(loss, tf.float32) for loss in model.get_losses_for(sources)]

    @contextmanager
    def _phase(self, is_training: bool) -> Iterator[None]:
        """Within it, layers without `training=...` are built for training, or for inference: nothing need be fed."""
        with ExitStack() as scopes:
            with warnings.catch_warnings():
                # It advises to call with training=...; but it is the user's function that calls.
                warnings.filterwarnings("ignore", message=".*learning_phase_scope` is deprecated")
                scopes.enter_context(self._keras.backend.learning_phase_scope(int(is_training)))
            yield


class Term(NamedTuple):
    """A loss or metric of one output; the mean over the batch is named after it."""

    name: str
    function: Callable[[Any, Any], Any]
    output: int

    def build(self, targets: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Give the mean over the batch, a scalar of that name."""
        with tf.name_scope(f"{self.name}_internals"):
            values = self.function(targets[self.output], outputs[self.output])
            values = tf.cast(values, tf.float32)
        return tf.reduce_mean(values, name=self.name)


def make_losses(loss: Any) -> list[Term]:
    """Make the terms of one loss, or of a list with one for each output."""
    get = import_keras().losses.get
    losses = loss if isinstance(loss, (list, tuple)) else [loss]
    terms = [_make_term("loss", one, get, output) for output, one in enumerate(losses)]
    return [term._replace(name=f"{term.name}_{index}") if index else term for index, term in enumerate(terms)]


def make_metrics(metrics: Any, losses: list[Term]) -> list[Term]:
    """Make each metric for each output; one that is a loss too is there already."""
    metrics = metrics if isinstance(metrics, (list, tuple)) else [metrics] if metrics else []
    terms: list[Term] = []
    for loss in losses:
        for metric in metrics:
            term = _make_term("metric", metric, _get_metric, loss.output)
            name = f"{term.name}_{loss.output}" if loss.output else term.name
            if name not in [known.name for known in [*losses, *terms]]:
                terms.append(term._replace(name=name))
    return terms


def _make_term(kind: str, given: Any, get: Callable[[str], Any], output: int) -> Term:
    function = get(given) if isinstance(given, str) else given
    name = given if isinstance(given, str) else getattr(given, "name", getattr(given, "__name__", ""))
    if not callable(function) or not name or hasattr(function, "update_state"):
        raise type_error(
            f"setup_keras_trainer: {kind}",
            "a name of Keras's or a function (target, output) -> values",
            given,
        )
    return Term(str(name), function, output)


def _get_metric(name: str) -> Any:
    return _accuracy if name in ("accuracy", "acc") else import_keras().metrics.get(name)


def _accuracy(target: Any, output: Any) -> Any:
    """The accuracy that fits: one unit is binary; a target with a class number instead of one value a class is sparse."""
    metrics = import_keras().metrics
    if output.shape.as_list()[-1] == 1:
        return metrics.binary_accuracy(target, output)
    if target.shape.rank < output.shape.rank or target.shape.as_list()[-1] == 1:
        return metrics.sparse_categorical_accuracy(target, output)
    return metrics.categorical_accuracy(target, output)


def _make_creator(context: BaseTowerContext) -> Callable[..., Any]:
    """Make the creator by which the variables of Keras's layers become those of `tf.get_variable`."""

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        scope = tf.get_default_graph().get_name_scope() or ""
        shape, initial_value = kwargs.get("shape"), kwargs.get("initial_value")
        # tf.get_variable makes its variables outside of every name scope; a layer has one of its own.
        if not scope or shape is None or not callable(initial_value):
            return next_creator(**kwargs)
        # What tf.get_variable puts before a name is in the name scope too.
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


def _freeze(context: BaseTowerContext, model: Any) -> None:
    """Take the weights of layers with `trainable = False` out of TRAINABLE_VARIABLES."""
    frozen = {id(var) for var in model.weights} - {id(var) for var in model.trainable_weights}
    trained = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
    for var in [var for var in trained if id(var) in frozen]:
        trained[:] = [other for other in trained if other is not var]
        if not context.vs_name:
            tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, var)


def _one_or_list(tensors: Sequence[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else list(tensors)

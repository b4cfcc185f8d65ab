"""
Training of Keras models with the library's trainers: Keras builds the model, and the library does everything else.

    model = KerasModel(build, inputs, targets, data)
    model.compile(optimizer, loss, metrics)
    model.fit(validation_data, callbacks=[...])

Keras here is Keras 2, which can build graphs: `tf.keras` on TensorFlow up to 2.15, the package `tf_keras` after that.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..callbacks.inference import ScalarStats
from ..callbacks.inference_runner import InferenceRunner, InferenceRunnerBase
from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..train.interface import apply_default_prefetch
from ..train.multi_gpu import SyncMultiGPUTrainerParameterServer
from ..train.simple import SimpleTrainer
from ..train.tower import SingleCostTrainer
from ..utils.errors import type_error
from ..utils.gpu import get_num_gpu
from .keras_tower import Function, TowerCost, TowerModel, import_keras, make_losses, make_metrics

__all__ = ["KerasModel", "KerasPhaseCallback", "import_keras", "setup_keras_trainer"]


class KerasPhaseCallback(Callback):
    """
    Callback that feeds Keras's learning phase to every run.

    Use it with a ModelDesc that calls a Keras model, `model(image)`, without `training=...`. `setup_keras_trainer` and
    `KerasModel` do not need it, because their towers set the phase.

    Runs at: before_run. In `setup_graph` it also registers itself, with False, at every InferenceRunner.

    Args:
        isTrain: the value to feed: True for training, False for inference.

    Raises:
        TypeError: `isTrain` is not a bool.
        ImportError: see `import_keras`.

    Example:
        >>> TrainConfig(..., callbacks=[KerasPhaseCallback(True), InferenceRunner(...)])  # doctest: +SKIP
    """

    def __init__(self, isTrain: bool) -> None:  # noqa: N803 (tensorpack's name)
        if not isinstance(isTrain, bool):
            raise type_error("KerasPhaseCallback: isTrain", "True or False", isTrain)
        ensure_graph_mode()
        self._is_training = isTrain
        self._keras = import_keras()
        self._args: tf.train.SessionRunArgs | None = None

    def _setup_graph(self) -> None:
        self._args = self._make_args()
        if self._args is not None:
            in_inference = dict.fromkeys(self._args.feed_dict, False)
            for runner in self.trainer.find_callbacks(InferenceRunnerBase):
                runner.register_hook(tf.train.FeedFnHook(lambda: in_inference))

    def _make_args(self) -> tf.train.SessionRunArgs | None:
        phase = self._keras.backend.learning_phase()
        if not isinstance(phase, tf.Tensor):
            return None  # the script has set a fixed phase
        return tf.train.SessionRunArgs([], feed_dict={phase: self._is_training})

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args


def setup_keras_trainer(  # noqa: PLR0913 (tensorpack has eight)
    trainer: SingleCostTrainer,
    get_model: Callable[..., Any],
    input_signature: Sequence[tf.TensorSpec],
    target_signature: Sequence[tf.TensorSpec],
    input: InputSource,
    optimizer: tf.train.Optimizer,
    loss: Function | list[Function],
    metrics: Function | list[Function] | None,
    *,
    weight_signature: Sequence[tf.TensorSpec] | None = None,
) -> None:
    """
    Build the graph of training for a Keras model. Call it instead of `trainer.setup_graph`.

    The cost is the sum of the losses, each averaged over the batch, and of the regularizers of the layers. Losses,
    metrics and the total equal those of Keras, even if a mask of the model (`mask_zero=True`, `Masking`) excludes time
    steps. The updates of layers, such as moving averages, are added to `UPDATE_OPS` by the first training tower.

    Args:
        trainer: a new SingleCostTrainer.
        get_model: a function that takes one tensor for each input and returns a `keras.Model`. Each tower calls it, so
            create the layers inside, with names that do not depend on the tower. The model is built on these tensors
            (`InputLayer(input_tensor=x)`, `Input(tensor=x)`); or it has other inputs or none, and is called
            on the tensors. The function may return the same model every time.
        input_signature: a list of `TensorSpec`, one for each input of the model.
        target_signature: a list of `TensorSpec`, one for each output of the model.
        input: an InputSource that produces the inputs, followed by the targets and, with `weight_signature`, the weights.
        optimizer: a `tf.train.Optimizer` of tfv1.
        loss: the name of a Keras loss, or a function `(target, output) -> losses`; for several outputs a list of these.
        metrics: a list of metrics for each output, or None; names or functions as for `loss`. "accuracy"
            selects the kind of accuracy by the shapes.
        weight_signature: a list of `TensorSpec`, one for the weights of the samples of each output, [N] or [N, T], or None. They
            multiply the values of the losses, like `sample_weight` of Keras, and not those of metrics.

    Raises:
        TypeError: an argument of the wrong type, or `get_model` did not return a `keras.Model`.
        ValueError: the numbers of targets, losses, outputs and weights differ.
        ImportError: see `import_keras`.

    Variables: those of the layers, under the layer's name, e.g. `dense/kernel`, `dense_1/bias`.

    Note: the tensors are named `<loss>`, `<metric>` and `total_loss`; those of the second output `<loss>_1` and so on.
    They have moving summaries. Keras's counters of layer names restart at each call of `get_model`.
    """
    if not isinstance(trainer, SingleCostTrainer):
        raise type_error("setup_keras_trainer: trainer", "a SingleCostTrainer", trainer)
    if not isinstance(input, InputSource):
        raise type_error("setup_keras_trainer: input", "an InputSource", input, "Try QueueInput(dataflow).")
    if not isinstance(optimizer, tf.train.Optimizer):
        raise type_error("setup_keras_trainer: optimizer", "a tf.train.Optimizer of tfv1", optimizer)
    losses = make_losses(loss)
    if len(losses) != len(target_signature):
        raise ValueError(
            f"setup_keras_trainer: expected one loss for each of the {len(target_signature)} targets, got {len(losses)}."
        )
    weights = list(weight_signature or [])
    if len(weights) not in (0, len(losses)):
        raise ValueError(
            f"setup_keras_trainer: expected weights for each of the {len(losses)} losses, got {len(weights)} of them."
        )
    terms = losses, make_metrics(metrics, losses)
    build = TowerCost(TowerModel(get_model), len(input_signature), *terms, bool(weights))
    trainer.setup_graph([*input_signature, *target_signature, *weights], input, build, lambda: optimizer)


class KerasModel:
    """
    A training with the interface of Keras: `compile`, then `fit`.

    Args:
        get_model, input_signature, target_signature: see `setup_keras_trainer`.
        input: a DataFlow or an InputSource that produces the inputs, followed by the targets and, with `weight_signature`, the
            weights. A DataFlow is fed as by `launch_train_with_config`.
        trainer: a new SingleCostTrainer. None means SyncMultiGPUTrainerParameterServer on all GPUs if there
            are several, otherwise SimpleTrainer.
        weight_signature: see `setup_keras_trainer`.

    Attributes:
        trainer: the trainer.

    Raises:
        TypeError: an argument is missing or of the wrong type.
        ImportError: see `import_keras`.

    Example:
        >>> model = KerasModel(build, [image_spec], [label_spec], QueueInput(train_data))
        >>> model.compile(tf.train.AdamOptimizer(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
        >>> model.fit(validation_data, steps_per_epoch=100, max_epoch=10, callbacks=[ModelSaver()])
    """

    def __init__(
        self,
        get_model: Callable[..., Any],
        input_signature: Sequence[tf.TensorSpec] | None = None,
        target_signature: Sequence[tf.TensorSpec] | None = None,
        input: InputSource | DataFlow | None = None,
        trainer: SingleCostTrainer | None = None,
        *,
        weight_signature: Sequence[tf.TensorSpec] | None = None,
    ) -> None:
        if not callable(get_model):
            raise type_error("KerasModel: get_model", "a function that returns a keras.Model", get_model)
        if not isinstance(input, (InputSource, DataFlow)):
            raise type_error("KerasModel: input", "a DataFlow or an InputSource", input)
        if input_signature is None or target_signature is None:
            raise TypeError(
                "KerasModel: input_signature and target_signature are required, as lists of tf.TensorSpec(shape, dtype, name)."
            )
        import_keras()
        self.get_model = get_model
        self.input_signature = list(input_signature)
        self.target_signature = list(target_signature)
        self.weight_signature = weight_signature
        self.trainer = trainer if trainer is not None else _default_trainer()
        self.input = apply_default_prefetch(input, self.trainer)
        self._stats: dict[str, str] = {}  # the tensors of validation, and those of their weights

    def compile(
        self,
        optimizer: tf.train.Optimizer,
        loss: Function | list[Function],
        metrics: Function | list[Function] | None = None,
    ) -> None:
        """
        Build the graph of training; see `setup_keras_trainer` for the arguments.

        Args:
            optimizer: a `tf.train.Optimizer` of tfv1.
            loss: a loss, or a list with one for each output.
            metrics: a metric, a list of metrics, or None.
        """
        losses = make_losses(loss)
        terms = [*losses, *make_metrics(metrics, losses)]
        self._stats = {**{term.name: term.weight_name for term in terms}, "total_loss": losses[0].weight_name}
        arguments = (self.input_signature, self.target_signature, self.input, optimizer, loss, metrics)
        setup_keras_trainer(self.trainer, self.get_model, *arguments, weight_signature=self.weight_signature)

    def fit(self, validation_data: InputSource | DataFlow | None = None, **kwargs: Any) -> None:
        """
        Train.

        Args:
            validation_data: evaluated at the end of each epoch, before other callbacks. The scalars are
                `validation_<loss>`, `validation_<metric>` and `validation_total_loss`, which are `val_<loss>`, `val_<metric>` and
                `val_loss` of Keras. The batches may have different sizes.
            kwargs: see `Trainer.train_with_defaults`. The default of `steps_per_epoch` is the length of the data.

        Raises:
            RuntimeError: `compile` has not been called.
        """
        if not self._stats:
            raise RuntimeError("KerasModel.fit: call compile(optimizer, loss, metrics) first.")
        callbacks = list(kwargs.pop("callbacks", None) or [])
        if validation_data is not None:
            means = [
                ScalarStats([name for name, other in self._stats.items() if other == weight], weight=weight)
                for weight in dict.fromkeys(self._stats.values())
            ]
            callbacks.insert(0, InferenceRunner(validation_data, means))
        if kwargs.get("steps_per_epoch") is None:
            kwargs["steps_per_epoch"] = self.input.size()
        self.trainer.train_with_defaults(callbacks=callbacks, **kwargs)


def _default_trainer() -> SingleCostTrainer:
    num_gpu = get_num_gpu()
    return SimpleTrainer() if num_gpu <= 1 else SyncMultiGPUTrainerParameterServer(num_gpu)

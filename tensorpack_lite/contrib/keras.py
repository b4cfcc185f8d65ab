"""
Keras models under the library's trainers: Keras builds the model, everything else is as ever.

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
from ..loop.hooks import CallbackToHook
from ..train.interface import apply_default_prefetch
from ..train.multi_gpu import SyncMultiGPUTrainerParameterServer
from ..train.simple import SimpleTrainer
from ..train.tower import SingleCostTrainer
from ..utils.errors import type_error
from ..utils.gpu import get_num_gpu
from .keras_tower import TowerCost, TowerModel, import_keras, make_losses, make_metrics

__all__ = ["KerasModel", "KerasPhaseCallback", "import_keras", "setup_keras_trainer"]


class KerasPhaseCallback(Callback):
    """
    Feed Keras's learning phase to every run: for models of yours that ask for it.

    `setup_keras_trainer` and `KerasModel` need it not: their towers know whether they are trained. It is for a ModelDesc
    that calls a Keras model, `model(image)`, without `training=...`.

    Runs at: before_run. In `setup_graph` it also registers itself, with False, at every InferenceRunner.

    Args:
        isTrain: what is fed: True for training, False for inference.

    Raises:
        TypeError: `isTrain` is no bool.
        ImportError: see `import_keras`.

    Example:
        >>> TrainConfig(..., callbacks=[KerasPhaseCallback(True), InferenceRunner(...)])

    tensorpack: same; there it fails on TensorFlow 2.
    """

    def __init__(self, isTrain: bool) -> None:  # noqa: N803 (tensorpack's name)
        if not isinstance(isTrain, bool):
            raise type_error("KerasPhaseCallback: isTrain", "True or False", isTrain)
        ensure_graph_mode()
        self._is_training = isTrain
        self._keras = import_keras()
        self._args: Any = None

    def _setup_graph(self) -> None:
        self._args = self._make_args()
        for cb in self.trainer._callbacks.cbs:
            if isinstance(cb, InferenceRunnerBase):
                inference = KerasPhaseCallback(False)
                inference._args = inference._make_args()
                cb.register_hook(CallbackToHook(inference))

    def _make_args(self) -> Any:
        phase = self._keras.backend.learning_phase()
        if not isinstance(phase, tf.Tensor):
            return None  # the script has set it for good
        return tf.train.SessionRunArgs([], feed_dict={phase: self._is_training})

    def _before_run(self, ctx: Any) -> Any:
        return self._args


def setup_keras_trainer(
    trainer: SingleCostTrainer,
    get_model: Callable[..., Any],
    input_signature: Sequence[Any],
    target_signature: Sequence[Any],
    input: InputSource,
    optimizer: Any,
    loss: Any,
    metrics: Any,
) -> None:
    """
    Build the graph of training for a Keras model: instead of `trainer.setup_graph`.

    The cost is the sum of the losses, each the mean over its batch, and of the regularizers of the layers. Updates of layers
    (moving averages) go into `UPDATE_OPS`, from the first training tower.

    Args:
        trainer: a new SingleCostTrainer.
        get_model: from one tensor for each input to a `keras.Model`. Called in each tower, with its layers made anew:
            build them inside, and under names that do not depend on the tower. Either it builds the model on these tensors
            (`InputLayer(input_tensor=x)`, `Input(tensor=x)`), or the model has inputs of its own (or none yet) and is
            called on them. It may also return one and the same model every time.
        input_signature: a list of `TensorSpec`: what the model takes.
        target_signature: a list of `TensorSpec`: what each of its outputs is compared with.
        input: gives the inputs, then the targets.
        optimizer: a `tf.train.Optimizer` of tfv1.
        loss: a name of Keras's, or a function `(target, output) -> losses`; a list of these, one for each output.
        metrics: a list of the same, or None; for each output each of them. "accuracy" is the one that fits the shapes.

    Raises:
        TypeError: an argument of another kind, or `get_model` returned no `keras.Model`.
        ValueError: the numbers of targets, losses and outputs are not the same.
        ImportError: see `import_keras`.

    Variables: those of the layers, under the layer's name, e.g. `dense/kernel`, `dense_1/bias`.

    Note: the tensors are named `<loss>`, `<metric>` and `total_loss`; those of the second output `<loss>_1` and so on.
    They have moving summaries. Keras's counters of layer names begin anew at each call of `get_model`.

    tensorpack: same; there inference calls the first tower's model again, and it fails on TensorFlow 2.
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
            f"setup_keras_trainer: got {len(losses)} losses and {len(target_signature)} targets. Give one loss for each target."
        )
    build = TowerCost(TowerModel(get_model), len(input_signature), losses, make_metrics(metrics, losses))
    trainer.setup_graph([*input_signature, *target_signature], input, build, lambda: optimizer)


class KerasModel:
    """
    A training in Keras's words: `compile`, then `fit`.

    Args:
        get_model, input_signature, target_signature: as for `setup_keras_trainer`.
        input: a DataFlow or an InputSource: the inputs, then the targets. A DataFlow is fed as `launch_train_with_config`
            would.
        trainer: a new SingleCostTrainer; None means SimpleTrainer or, where there are several
            GPUs, SyncMultiGPUTrainerParameterServer on all of them.

    Attributes:
        trainer: as given or made.

    Raises:
        TypeError: an argument is missing or of another kind.
        ImportError: see `import_keras`.

    Example:
        >>> model = KerasModel(build, [image_spec], [label_spec], QueueInput(train_data))
        >>> model.compile(tf.train.AdamOptimizer(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
        >>> model.fit(validation_data, steps_per_epoch=100, max_epoch=10, callbacks=[ModelSaver()])

    tensorpack: same.
    """

    def __init__(
        self,
        get_model: Callable[..., Any],
        input_signature: Sequence[Any] | None = None,
        target_signature: Sequence[Any] | None = None,
        input: InputSource | DataFlow | None = None,
        trainer: SingleCostTrainer | None = None,
    ) -> None:
        if not callable(get_model):
            raise type_error("KerasModel: get_model", "a function that returns a keras.Model", get_model)
        if not isinstance(input, (InputSource, DataFlow)):
            raise type_error("KerasModel: input", "a DataFlow or an InputSource", input)
        if input_signature is None or target_signature is None:
            raise TypeError(
                "KerasModel: input_signature and target_signature are needed, lists of tf.TensorSpec(shape, dtype, name)."
            )
        import_keras()
        self.get_model = get_model
        self.input_signature = list(input_signature)
        self.target_signature = list(target_signature)
        self.trainer = trainer if trainer is not None else _default_trainer()
        self.input = apply_default_prefetch(input, self.trainer)
        self._stats: list[str] = []

    def compile(self, optimizer: Any, loss: Any, metrics: Any = None) -> None:
        """
        Build the graph of training; see `setup_keras_trainer` for the arguments.

        Args:
            optimizer: a `tf.train.Optimizer` of tfv1.
            loss: one, or a list with one for each output.
            metrics: one, a list, or None.
        """
        losses = make_losses(loss)
        self._stats = [term.name for term in [*losses, *make_metrics(metrics, losses)]] + ["total_loss"]
        setup_keras_trainer(
            self.trainer,
            self.get_model,
            self.input_signature,
            self.target_signature,
            self.input,
            optimizer,
            loss,
            metrics,
        )

    def fit(self, validation_data: InputSource | DataFlow | None = None, **kwargs: Any) -> None:
        """
        Train.

        Args:
            validation_data: evaluated at the end of each epoch, before the other callbacks are triggered; the scalars are
                `validation_<loss>`, `validation_<metric>` and `validation_total_loss`.
            kwargs: as for `Trainer.train_with_defaults`. `steps_per_epoch` is the length of the data unless given.

        Raises:
            RuntimeError: before `compile`.
        """
        if not self._stats:
            raise RuntimeError("KerasModel.fit: call compile(optimizer, loss, metrics) first.")
        callbacks = list(kwargs.pop("callbacks", None) or [])
        if validation_data is not None:
            callbacks.insert(0, InferenceRunner(validation_data, ScalarStats(self._stats)))
        if kwargs.get("steps_per_epoch") is None:
            kwargs["steps_per_epoch"] = self.input.size()
        self.trainer.train_with_defaults(callbacks=callbacks, **kwargs)


def _default_trainer() -> SingleCostTrainer:
    num_gpu = get_num_gpu()
    return SimpleTrainer() if num_gpu <= 1 else SyncMultiGPUTrainerParameterServer(num_gpu)

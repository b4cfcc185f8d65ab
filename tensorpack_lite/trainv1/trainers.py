"""Trainers that take a config and are started by `train()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..input_source.base import InputSource
from ..input_source.feed import FeedInput
from ..input_source.queueing import QueueInput
from ..predict.base import OnlinePredictor
from ..tfutils.optimizer import apply_grad_processors
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.tower.func import TowerFunc
from ..train import config as today_config
from ..train import multi_gpu, simple
from ..train.defaults import DEFAULT_CALLBACKS, DEFAULT_MONITORS
from ..train.interface import apply_default_prefetch
from ..train.resume import advance_graph_seed
from ..train.tower import TowerTrainer
from ..utils import logger
from ..utils.errors import type_error


class Trainer(TowerTrainer):
    """
    Base class for trainers that take a config and are started by `train()`.

    To write a trainer, override `_setup`: set up `self._input_source`, build the graph, and set `self.train_op` or
    override `run_step`.

    Args:
        config: a TrainConfig.
        args, kwargs: for the current trainer that this one extends.

    Attributes:
        config, model: the config and its model.

    Raises:
        TypeError: `config` is not a TrainConfig.

    Example:
        >>> class MyTrainer(Trainer):
        ...     def _setup(self):
        ...         self.register_callback(self._input_source.setup(self.model.get_inputs_desc()))
        ...         with TowerContext("", is_training=True):
        ...             self.model.build_graph(self._input_source)
        ...             self.train_op = self.model.get_optimizer().minimize(self.model.get_cost())
        >>> MyTrainer(config).train()
    """

    _input_source: InputSource | None = None

    def __init__(self, config: today_config.TrainConfig, *args: Any, **kwargs: Any) -> None:
        if not isinstance(config, today_config.TrainConfig):
            advice = "Trainers in tensorpack_lite.train take no config."
            raise type_error(f"trainv1.{type(self).__name__}", "a TrainConfig", config, advice)
        super().__init__(*args, **kwargs)
        self.config = config
        self.model: Any = config.model
        if self._input_source is None:  # a subclass may have set it
            self._input_source = self._make_input_source()

    def _setup(self) -> None:
        """Build the training graph. Subclasses define this method."""
        raise NotImplementedError(f"{type(self).__name__}: define _setup(), which builds the graph.")

    def train(self) -> None:  # type: ignore[override]
        """
        Build the graph and train according to the config.

        Raises:
            Exception: any exception of the data, the model, a callback or a step.
        """
        with logger.unlock_dir_on_error():  # AutoResumeTrainConfig has locked it
            advance_graph_seed(self.step_to_resume_at(self.config.session_init))
            self._setup()
        if self._tower_func is None and self.model is not None:  # for get_predictor and InferenceRunner
            self.tower_func = TowerFunc(self.model.build_graph, self.model.get_input_signature())
        config = self.config
        extra_callbacks = DEFAULT_CALLBACKS() if config.extra_callbacks is None else config.extra_callbacks
        super().train(
            [*config.callbacks, *extra_callbacks],
            DEFAULT_MONITORS() if config.monitors is None else config.monitors,
            config.session_creator,
            config.session_init,
            config.steps_per_epoch,
            config.starting_epoch,
            config.max_epoch,
        )

    def get_predict_func(self, input_names: Sequence[str], output_names: Sequence[str]) -> OnlinePredictor:
        """Return a predictor, like `get_predictor`."""
        return self.get_predictor(input_names, output_names)

    def add_scalar_summary(self, name: str, value: float) -> None:
        """Send a scalar to the monitors."""
        self.monitors.put_scalar(name, value)

    write_scalar_summary = add_scalar_summary

    def _make_input_source(self) -> InputSource | None:
        source = self.config.data if self.config.data is not None else self.config.dataflow
        return None if source is None else apply_default_prefetch(source, self)


class _SingleCostTrainer(Trainer):
    """Mixin that gives a current trainer the interface of this module. It must be the first base class."""

    model: Any
    if TYPE_CHECKING:
        setup_graph: Callable[..., Any]  # of the current trainer

    def _setup(self) -> None:
        model, source = self.model, self._input_source
        if model is None or source is None:
            raise ValueError(f"trainv1.{type(self).__name__}: the config needs a model, and data or dataflow.")
        signature = model.get_input_signature()
        self.setup_graph(signature, source, self._build_graph_with_cost, self._get_optimizer)

    def _get_optimizer(self) -> tf.train.Optimizer:
        optimizer = getattr(self.config, "optimizer", None)
        if optimizer is None:
            return self.model.get_optimizer()
        processors: Any = getattr(self.model, "get_gradient_processor", list)()
        return apply_grad_processors(optimizer, processors) if processors else optimizer

    def _build_graph_with_cost(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        cost = self.model.build_graph(*inputs)
        context = get_current_tower_context()
        if cost is None and context is not None and context.is_training:
            raise TypeError(
                f"trainv1.{type(self).__name__}: {type(self.model).__name__} has no cost. Set self.cost to a "
                "scalar tensor in _build_graph()."
            )
        return cost


class SimpleTrainer(_SingleCostTrainer, simple.SimpleTrainer):
    """
    Trainer with one tower. A DataFlow is fed through placeholders.

    Args:
        config: a TrainConfig.
    """

    def _make_input_source(self) -> InputSource | None:
        return FeedInput(self.config.dataflow) if self.config.dataflow is not None else self.config.data


class NoOpTrainer(_SingleCostTrainer, simple.NoOpTrainer):
    """
    Trainer that runs the callbacks without training.

    Args:
        config: a TrainConfig.
    """


class QueueInputTrainer(_SingleCostTrainer, simple.QueueInputTrainer):
    """
    Trainer with one tower. A DataFlow is fed through a queue.

    Args:
        config: a TrainConfig.
        input_queue: a `tf.FIFOQueue`. The default holds 50 datapoints.
    """

    def __init__(self, config: today_config.TrainConfig, input_queue: tf.QueueBase | None = None) -> None:
        dataflow = getattr(config, "dataflow", None)
        if dataflow is not None:
            self._input_source = QueueInput(dataflow, input_queue)
        super().__init__(config)


class _MultiGPUTrainer(_SingleCostTrainer):
    """Mixin for trainers whose first argument is the list of GPUs, which the config has."""

    def __init__(self, config: today_config.TrainConfig, **kwargs: Any) -> None:
        super().__init__(config, getattr(config, "tower", [0]), **kwargs)


class SyncMultiGPUTrainerParameterServer(_MultiGPUTrainer, multi_gpu.SyncMultiGPUTrainerParameterServer):
    """
    Trainer with one tower on each GPU of `config.tower`, with shared variables and the mean gradient.

    Args:
        config: a TrainConfig.
        ps_device: a keyword argument of the current trainer.
    """


class SyncMultiGPUTrainerReplicated(_MultiGPUTrainer, multi_gpu.SyncMultiGPUTrainerReplicated):
    """
    Trainer with one tower on each GPU of `config.tower`. Each tower has its own copy of the variables.

    Args:
        config: a TrainConfig.
        average, mode: keyword arguments of the current trainer.
    """


class AsyncMultiGPUTrainer(_MultiGPUTrainer, multi_gpu.AsyncMultiGPUTrainer):
    """
    Trainer with one tower on each GPU of `config.tower`. Each tower updates the shared variables independently.

    Args:
        config: a TrainConfig.
        scale_gradient: a keyword argument of the current trainer.
    """


def SyncMultiGPUTrainer(config: today_config.TrainConfig) -> SyncMultiGPUTrainerParameterServer:  # noqa: N802
    """
    Return a `SyncMultiGPUTrainerParameterServer` with its variables on the CPU.

    Args:
        config: a TrainConfig.
    """
    return SyncMultiGPUTrainerParameterServer(config, ps_device="cpu")

"""
The first generation's interface: `SomeTrainer(config).train()`, and models that set `self.cost`.

Thin adaptors over today's trainers, for scripts that were written before tensorpack's `launch_train_with_config`. Such a
script changes its imports, and nothing else:

    from tensorpack_lite import *
    from tensorpack_lite.trainv1 import *
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .compat import TensorSpec
from .graph_builder import model_desc
from .input_source.base import InputSource
from .input_source.feed import FeedInput
from .input_source.queueing import QueueInput
from .tfutils.tower.context import get_current_tower_context
from .tfutils.tower.func import TowerFunc
from .train import config as today_config
from .train import multi_gpu, simple
from .train.defaults import DEFAULT_CALLBACKS, DEFAULT_MONITORS
from .train.interface import apply_default_prefetch
from .train.resume import advance_graph_seed
from .train.tower import TowerTrainer
from .utils import logger
from .utils.errors import type_error

__all__ = [
    "AsyncMultiGPUTrainer",
    "AutoResumeTrainConfig",
    "InputDesc",
    "ModelDesc",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "TrainConfig",
    "Trainer",
]


class InputDesc(NamedTuple):
    """
    One input of a model; today's word is `tf.TensorSpec(shape, type, name)`.

    Args:
        type: a `tf.DType`.
        shape: a list or tuple, None for what is not known.
        name: of the placeholder.

    Example:
        >>> InputDesc(tf.float32, (None, 28, 28), "image")
    """

    type: Any
    shape: Sequence[int | None]
    name: str


class ModelDesc(model_desc.ModelDesc):
    """
    A model of the first generation: it sets `self.cost` where today's returns it.

    A subclass defines the three methods with an underscore. Today's methods can be mixed in one by one.

    Attributes:
        cost: what `_build_graph` set it to in the tower built last; None if it did not.

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

    cost: Any = None

    # What a subclass defines -----------------------------------------------------------------------------------------
    def _get_inputs(self) -> list[Any]:
        """Say what the model takes: a list of InputDesc, of TensorSpec, or of placeholders made here."""
        raise NotImplementedError(
            f"{type(self).__name__}: define _get_inputs(), which returns a list of InputDesc."
        )

    def _build_graph(self, inputs: list[Any]) -> None:
        """Build the model from a list of tensors and set `self.cost`; it may be called several times."""
        raise NotImplementedError(
            f"{type(self).__name__}: define _build_graph(inputs), which sets self.cost."
        )

    def _get_optimizer(self) -> Any:
        """Make the optimizer, a `tf.train.Optimizer`."""
        raise NotImplementedError(
            f"{type(self).__name__}: define _get_optimizer(), which returns a tf.train.Optimizer."
        )

    # The same in today's words ---------------------------------------------------------------------------------------
    def inputs(self) -> list[Any]:
        """Give `_get_inputs()`, as a list of TensorSpec or placeholders."""
        return [
            TensorSpec(one.shape, one.type, one.name) if isinstance(one, InputDesc) else one
            for one in self._get_inputs()
        ]

    def build_graph(self, *args: Any) -> Any:
        """
        Call `_build_graph`.

        Args:
            args: the input tensors; or one list of them, or one InputSource that gives them.

        Returns:
            `self.cost`, None if it was not set.
        """
        if len(args) == 1 and isinstance(args[0], InputSource):
            args = tuple(args[0].get_input_tensors())
        elif len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        self.cost = None  # not that of the tower before
        self._build_graph(list(args))
        return self.cost

    def optimizer(self) -> Any:
        """Give `_get_optimizer()`."""
        return self._get_optimizer()

    def get_inputs_desc(self) -> list[Any]:
        """Give the signature; today's name is `get_input_signature`."""
        return self.get_input_signature()

    def get_cost(self) -> Any:
        """Give the cost of the tower built last."""
        return self.cost


class TrainConfig(today_config.TrainConfig):
    """
    Everything a training needs, and on which GPUs it runs.

    Args:
        nr_tower: how many GPUs, from the first on.
        tower: a list of GPU numbers, instead of `nr_tower`.
        predict_tower: taken and left alone: `get_predictor` and `InferenceRunner` take a device of their own.
        kwargs: as for today's `TrainConfig`.

    Attributes:
        tower: a list of GPU numbers; only trainers for several GPUs use it.

    Raises:
        ValueError: both `nr_tower` and `tower`.
    """

    def __init__(
        self,
        *,
        nr_tower: int = 1,
        tower: Sequence[int] | None = None,
        predict_tower: Any = None,
        **kwargs: Any,
    ) -> None:
        if tower is not None and nr_tower != 1:
            raise ValueError("TrainConfig: both nr_tower and tower were given. Pass one of them.")
        super().__init__(**kwargs)
        self.tower = list(range(nr_tower)) if tower is None else list(tower)
        self.predict_tower = predict_tower

    @property
    def nr_tower(self) -> int:
        """How many GPUs."""
        return len(self.tower)


class AutoResumeTrainConfig(today_config.AutoResumeTrainConfig, TrainConfig):
    """
    A TrainConfig that goes on where the last training in the logger's directory ended.

    Args:
        always_resume: as for today's `AutoResumeTrainConfig`.
        kwargs: as for `TrainConfig` above.
    """


class Trainer(TowerTrainer):
    """
    Base of all trainers here: made from a config, and started by `train()`.

    To make one of your own, override `_setup`: set up `self._input_source`, build the graph, set `self.train_op`; or
    override `run_step`.

    Args:
        config: a TrainConfig.
        args, kwargs: for today's trainer underneath.

    Attributes:
        config, model: as given.

    Raises:
        TypeError: `config` is none.

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

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(config, today_config.TrainConfig):
            raise type_error(
                f"trainv1.{type(self).__name__}",
                "a TrainConfig",
                config,
                "Those of tensorpack_lite.train take none.",
            )
        super().__init__(*args, **kwargs)
        self.config = config
        self.model = config.model
        if self._input_source is None:  # a subclass may have set it before
            self._input_source = self._make_input_source()

    def _setup(self) -> None:
        """Build the graph of training; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__}: define _setup(), which builds the graph.")

    def train(self) -> None:  # type: ignore[override]
        """
        Build the graph, then train as the config says.

        Raises:
            Exception: whatever the data, the model, a callback or a step raised.
        """
        with logger.unlock_dir_on_error():  # AutoResumeTrainConfig has locked it
            advance_graph_seed(self, self.config.session_init)
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

    def _make_input_source(self) -> InputSource | None:
        source = self.config.data if self.config.data is not None else self.config.dataflow
        return None if source is None else apply_default_prefetch(source, self)


class _SingleCostTrainer(Trainer):
    """What turns one of today's trainers into one of these: it comes first among the bases."""

    def _setup(self) -> None:
        model, source = self.model, self._input_source
        if model is None or source is None:
            raise ValueError(
                f"trainv1.{type(self).__name__}: the config needs a model, and data or dataflow."
            )
        self.setup_graph(
            model.get_input_signature(), source, self._build_graph_with_cost, model.get_optimizer
        )  # type: ignore[attr-defined]

    def _build_graph_with_cost(self, *inputs: Any) -> Any:
        cost = self.model.build_graph(*inputs)
        context = get_current_tower_context()
        if cost is None and context is not None and context.is_training:
            raise TypeError(
                f"trainv1.{type(self).__name__}: {type(self.model).__name__} was built without a cost. Set self.cost, a scalar "
                "tensor, in _build_graph()."
            )
        return cost


class SimpleTrainer(_SingleCostTrainer, simple.SimpleTrainer):
    """
    Train one tower; a DataFlow is fed through placeholders.

    Args:
        config: a TrainConfig.
    """

    def _make_input_source(self) -> InputSource | None:
        return FeedInput(self.config.dataflow) if self.config.dataflow is not None else self.config.data


class NoOpTrainer(_SingleCostTrainer, simple.NoOpTrainer):
    """
    Build everything, train nothing.

    Args:
        config: a TrainConfig.
    """


class QueueInputTrainer(_SingleCostTrainer, simple.QueueInputTrainer):
    """
    Train one tower; a DataFlow is fed through a queue.

    Args:
        config: a TrainConfig.
        input_queue: a `tf.FIFOQueue`; None means one of 50 datapoints.
    """

    def __init__(self, config: Any, input_queue: Any = None) -> None:
        if getattr(config, "dataflow", None) is not None:
            self._input_source = QueueInput(config.dataflow, input_queue)
        super().__init__(config)


class _MultiGPUTrainer(_SingleCostTrainer):
    """The same for trainers whose first argument is the list of GPUs: the config has it."""

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(config, getattr(config, "tower", [0]), **kwargs)


class SyncMultiGPUTrainerParameterServer(_MultiGPUTrainer, multi_gpu.SyncMultiGPUTrainerParameterServer):
    """
    Train one tower on each GPU of `config.tower`, with shared variables and the mean gradient.

    Args:
        config: a TrainConfig.
        ps_device: by keyword; as for today's trainer.
    """


class SyncMultiGPUTrainerReplicated(_MultiGPUTrainer, multi_gpu.SyncMultiGPUTrainerReplicated):
    """
    Train one tower on each GPU of `config.tower`, each with variables of its own.

    Args:
        config: a TrainConfig.
        average, mode: by keyword; as for today's trainer.
    """


class AsyncMultiGPUTrainer(_MultiGPUTrainer, multi_gpu.AsyncMultiGPUTrainer):
    """
    Train one tower on each GPU of `config.tower`, each updating the shared variables by itself.

    Args:
        config: a TrainConfig.
        scale_gradient: by keyword; as for today's trainer.
    """


def SyncMultiGPUTrainer(config: Any) -> SyncMultiGPUTrainerParameterServer:  # noqa: N802
    """
    Function: returns a `SyncMultiGPUTrainerParameterServer` with its variables on the CPU.

    Args:
        config: a TrainConfig.
    """
    return SyncMultiGPUTrainerParameterServer(config, ps_device="cpu")

"""Trainers that build a model by calling a tower function: for any kind of training, and for a single cost."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..graph_builder.gradients import GradientOptions, make_get_grads
from ..input_source.base import InputSource
from ..input_source.placeholder import PlaceholderInput
from ..loop.callback import Callback
from ..predict.base import OnlinePredictor
from ..tfutils.sessinit import SessionInit
from ..tfutils.tower.context import PredictTowerContext
from ..tfutils.tower.func import TowerFunc
from ..tfutils.tower.handle import TowerTensorHandle, TowerTensorHandles
from ..utils import logger
from ..utils.argtools import call_only_once, memoized
from ..utils.errors import type_error
from .base import Trainer

__all__ = ["SingleCostTrainer", "TowerTrainer"]


class TowerTrainer(Trainer):
    """
    A trainer whose model is a tower function: it can build the model again, for inference and prediction.

    A subclass, for instance a GAN's, sets `self.tower_func` once, calls it under a `TowerContext`, and sets
    `self.train_op` or overrides `run_step`.

    Attributes:
        tower_func: the `TowerFunc`; can be set once.
        towers: all towers built so far, a `TowerTensorHandles`.
        input_signature: the tower function's, a list of `TensorSpec`.

    Raises:
        TypeError: `tower_func` is set to something else.

    tensorpack: same.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tower_func: TowerFunc | None = None
        self._predictors: list[OnlinePredictor] = []

    @property
    def tower_func(self) -> TowerFunc | None:
        """The tower function; None before it is set."""
        return self._tower_func

    @tower_func.setter
    def tower_func(self, value: TowerFunc) -> None:
        if not isinstance(value, TowerFunc):
            raise type_error(
                f"{type(self).__name__}.tower_func",
                "a TowerFunc",
                value,
                "Wrap it: TowerFunc(function, input_signature).",
            )
        if self._tower_func is not None:
            raise RuntimeError(
                f"{type(self).__name__}.tower_func: set a second time. A trainer has one tower function."
            )
        self._tower_func = value

    @property
    def input_signature(self) -> list[Any]:
        """The signature of the tower function."""
        return self._tower_func_or_raise().input_signature

    @property
    def towers(self) -> TowerTensorHandles:
        """All towers built so far."""
        return self._tower_func_or_raise().towers

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int = 0
    ) -> OnlinePredictor:
        """
        Make a function that evaluates the model as it stands, in the training session.

        It is a tower of its own, built once per device in inference mode; it shares the variables. To be called before the
        graph is final, usually in a callback's `_setup_graph`; the result can be called from `before_train` on.

        Args:
            input_names: what is fed: names of inputs or of tensors inside the tower.
            output_names: names of tensors inside the tower.
            device: number of a GPU; negative means the CPU.

        Returns:
            An `OnlinePredictor`.

        Raises:
            RuntimeError: there is no tower function yet.
            KeyError: a name is not in the tower.

        tensorpack: same.
        """
        tower_name = f"tower-pred-{device}" if device >= 0 else "tower-pred-cpu"
        tower = self._find_tower(tower_name) or self._build_predict_tower(tower_name, device)
        predictor = OnlinePredictor(tower.get_tensors(input_names), tower.get_tensors(output_names))
        predictor.sess = self.sess
        self._predictors.append(predictor)
        return predictor

    def _find_tower(self, name: str) -> TowerTensorHandle | None:
        graph = tf.get_default_graph() if self.sess is None else self.sess.graph
        return next((t for t in self.towers if t.ns_name == name and t.graph is graph), None)

    def _build_predict_tower(self, name: str, device: int) -> TowerTensorHandle:
        logger.info(f"Building the graph of predict tower '{name}' on device {_device_string(device)} ...")
        tower_func = self._tower_func_or_raise()
        vs_name = self.vs_name_for_predictor(device)
        inputs = PlaceholderInput()
        inputs.setup(tower_func.input_signature)
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)
        with reuse, tf.device(_device_string(device)), PredictTowerContext(name, vs_name=vs_name):
            tower_func(*inputs.get_input_tensors())
        return tower_func.towers[name]

    def vs_name_for_predictor(self, device: int) -> str:
        """
        Say which variables a tower on that device reads: those of the training tower there, or of the first one.

        Args:
            device: number of a GPU; negative means the CPU.

        Returns:
            The name of a variable scope, "" for that of the first tower.
        """
        towers = self.towers.training()
        return towers[device if 0 <= device < len(towers) else 0].vs_name if len(towers) else ""

    _vs_name_for_predictor = vs_name_for_predictor

    def find_tensor(self, name: str) -> Any:
        """Find a tensor by name in the graph, or else in the first training tower; see `Trainer.find_tensor`."""
        try:
            return super().find_tensor(name)
        except KeyError:
            if self._tower_func is None or not len(self._tower_func.towers.training()):
                raise
            return self._tower_func.towers.training()[0][name]

    def initialize(self, session_creator: Any, session_init: SessionInit) -> None:
        """Initialize as `Trainer.initialize` does, and give the predictors their session."""
        super().initialize(session_creator, session_init)
        for predictor in self._predictors:
            predictor.sess = self.sess

    def _tower_func_or_raise(self) -> TowerFunc:
        if self._tower_func is None:
            raise RuntimeError(
                f"{type(self).__name__}: has no tower function yet. Set self.tower_func = TowerFunc(...) first."
            )
        return self._tower_func


class SingleCostTrainer(TowerTrainer):
    """
    Base of trainers that minimize one cost with one optimizer.

    A subclass says in `_setup_graph` how many towers there are, where their variables live and how their gradients come
    together. The switches below can be set on an instance before `setup_graph`.

    Attributes:
        COLOCATE_GRADIENTS_WITH_OPS: put gradient operations on the devices of the operations they belong to.
        GATE_GRADIENTS: see `tf.gradients`.
        AGGREGATION_METHOD: how gradients of one variable are added; see `tf.AggregationMethod`.
        XLA_COMPILE: compile the cost and its gradients with XLA, where TensorFlow has it.

    tensorpack: same.
    """

    COLOCATE_GRADIENTS_WITH_OPS = True
    GATE_GRADIENTS = False
    AGGREGATION_METHOD = tf.AggregationMethod.DEFAULT
    XLA_COMPILE = False

    @call_only_once
    def setup_graph(
        self,
        input_signature: Sequence[Any],
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: Callable[[], Any],
    ) -> None:
        """
        Build the graph of training.

        Args:
            input_signature: a list of `TensorSpec`, one for each input of the model.
            input: where the inputs come from.
            get_cost_fn: builds the model: takes the input tensors, returns a scalar cost.
            get_opt_fn: returns a `tf.train.Optimizer`; called once, inside the first tower.

        Raises:
            RuntimeError: `input` was set up before.
            TypeError, ValueError: the cost is no tensor, or no scalar.
        """
        get_opt_fn = memoized(get_opt_fn)
        self.tower_func = TowerFunc(get_cost_fn, input_signature)
        input_callbacks = self._setup_input(input_signature, input)
        train_callbacks = self._setup_graph(input, self._tower_func_or_raise(), get_opt_fn)
        self.register_callback([*input_callbacks, *(train_callbacks or [])])

    def _setup_graph(
        self,
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: Callable[[], Any],
    ) -> list[Callback]:
        """Build towers and `train_op`; returns the callbacks this trainer needs."""
        raise NotImplementedError(
            f"{type(self).__name__}: define _setup_graph(), which builds towers and train_op."
        )

    def _setup_input(
        self,
        input_signature: Sequence[Any],
        input: InputSource,
    ) -> list[Callback]:
        if input.setup_done():
            raise RuntimeError(
                f"{type(self).__name__}: {type(input).__name__} was set up before. Make a new one for each use."
            )
        return input.setup(input_signature)

    def _make_get_grad_fn(
        self,
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: Callable[[], Any],
    ) -> Callable[[], Any]:
        """Make the function that, in a training tower, builds it and returns its list of `(gradient, variable)`."""
        options = GradientOptions(
            gate_gradients=self.GATE_GRADIENTS,
            colocate=self.COLOCATE_GRADIENTS_WITH_OPS,
            aggregation_method=self.AGGREGATION_METHOD,
            xla_compile=self.XLA_COMPILE,
        )
        return make_get_grads(input.get_input_tensors, get_cost_fn, get_opt_fn, options)


def _device_string(device: int) -> str:
    return f"/gpu:{device}" if device >= 0 else "/cpu:0"

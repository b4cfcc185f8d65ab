"""Trainers that build a model by calling a tower function."""

from __future__ import annotations

import re
from typing import Any, Callable, NoReturn, Sequence

from ..compat import tfv1 as tf
from ..compat.private import inside_xla
from ..graph_builder.gradients import GradientOptions, make_get_grads
from ..graph_builder.placement import device_of_gpu
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..predict.base import OnlinePredictor
from ..tfutils.accumulation import steps_per_update
from ..tfutils.gradproc import GradVars
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..tfutils.sessinit import SessionInit
from ..tfutils.summary import add_moving_summary, has_scalar_summary
from ..tfutils.tower.context import PredictTowerContext, get_current_tower_context  # noqa: F401 (scripts import it here)
from ..tfutils.tower.error_hints import explain_mistakes
from ..tfutils.tower.func import TowerFunc
from ..tfutils.tower.handle import TowerTensorHandle, TowerTensorHandles
from ..utils import logger
from ..utils.argtools import call_only_once, memoized
from ..utils.errors import type_error
from .arguments import explain_fit
from .trainer import Trainer

CostFn = Callable[..., tf.Tensor]
"""A function that takes the input tensors, builds the model and returns a scalar cost."""

OptFn = Callable[[], tf.train.Optimizer]
"""A function that returns an optimizer."""


class TowerTrainer(Trainer):
    """
    Base class of trainers that have a tower function, by which they build the model again for inference and prediction.

    A subclass, such as a trainer for a GAN, sets `self.tower_func` once, calls it under a `TowerContext`, and sets
    `self.train_op` or overrides `run_step`.

    Attributes:
        tower_func: the `TowerFunc`; can be set once.
        towers: all towers built so far, a `TowerTensorHandles`.
        input_signature: the signature of the tower function, a list of `TensorSpec`.

    Raises:
        TypeError: `tower_func` is set to an object that is not a `TowerFunc`.
        RuntimeError: `tower_func` is set a second time.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._tower_func: TowerFunc | None = None
        self._predictors: list[OnlinePredictor] = []

    @property
    def tower_func(self) -> TowerFunc | Any:  # not Optional: type checkers see methods that use it
        """The tower function; None until it is set."""
        return self._tower_func

    @tower_func.setter
    def tower_func(self, value: TowerFunc) -> None:
        if not isinstance(value, TowerFunc):
            advice = "Wrap it: TowerFunc(function, input_signature)."
            raise type_error(f"{type(self).__name__}.tower_func", "a TowerFunc", value, advice)
        if self._tower_func is not None:
            raise RuntimeError(
                f"{type(self).__name__}.tower_func: cannot be set a second time. A trainer has one tower function."
            )
        self._tower_func = value

    @property
    def input_signature(self) -> list[tf.TensorSpec]:
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
        Return a function that evaluates the model in the training session.

        It builds a separate tower in inference mode, once per device, which shares the variables. Call this
        method before the graph is finalized, usually in a callback's `_setup_graph`. The result can be called
        from `before_train` on.

        Args:
            input_names: the names of the inputs or tensors in the tower that are fed.
            output_names: the names of the tensors in the tower to return.
            device: the number of a GPU; negative means the CPU.

        Returns:
            An `OnlinePredictor`.

        Raises:
            RuntimeError: the tower function is not set.
            KeyError: a name is not in the tower.
        """
        tower_name = f"tower-pred-{device}" if device >= 0 else "tower-pred-cpu"
        graph = tf.get_default_graph() if self.sess is None else self.sess.graph
        towers = [tower for tower in self.towers if tower.ns_name == tower_name and tower.graph is graph]
        tower = towers[0] if towers else self._build_predict_tower(tower_name, device)
        predictor = OnlinePredictor(tower.get_tensors(input_names), tower.get_tensors(output_names))
        predictor.sess = self.sess
        self._predictors.append(predictor)
        return predictor

    def _build_predict_tower(self, name: str, device: int) -> TowerTensorHandle:
        place = device_of_gpu(device)
        logger.info(f"Building the graph of predict tower '{name}' on device {place} ...")
        tower_func = self._tower_func_or_raise()
        vs_name = self.vs_name_for_predictor(device)
        # not an InputSource, whose position a training with `exact` would save
        inputs = [build_or_reuse_placeholder(spec) for spec in tower_func.input_signature]
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False)
        with reuse, tf.device(place), PredictTowerContext(name, vs_name=vs_name):
            tower_func(*inputs)
        return tower_func.towers[name]

    def vs_name_for_predictor(self, device: int) -> str:
        """
        Return the variable scope of the training tower on a device; that of the first tower if the device has none.

        Args:
            device: the number of a GPU; negative means the CPU.

        Returns:
            The name of a variable scope; "" means the variables of the first tower.
        """
        towers = self.towers.training()
        return towers[device if 0 <= device < len(towers) else 0].vs_name if len(towers) else ""

    _vs_name_for_predictor = vs_name_for_predictor

    def find_tensor(self, name: str) -> tf.Tensor | tf.Operation:
        """Find a tensor by name in the graph or, failing that, in the first training tower; see `Trainer.find_tensor`."""
        try:
            return super().find_tensor(name)
        except KeyError:
            if self._tower_func is None or not len(self._tower_func.towers.training()):
                raise
            return self._tower_func.towers.training()[0][name]

    def initialize(self, session_creator: tf.train.SessionCreator, session_init: SessionInit) -> None:
        """Call `Trainer.initialize`, then set the session of the predictors."""
        super().initialize(session_creator, session_init)
        for predictor in self._predictors:
            predictor.sess = self.sess

    def _tower_func_or_raise(self) -> TowerFunc:
        if self._tower_func is None:
            raise RuntimeError(
                f"{type(self).__name__}: has no tower function. Set self.tower_func = TowerFunc(...) first."
            )
        return self._tower_func


class SingleCostTrainer(TowerTrainer):
    """
    Base class of trainers that minimize one cost with one optimizer.

    A subclass builds the towers in `_setup_graph`, with the placement of their variables and the reduction of their
    gradients. The attributes below can be set on an instance before `setup_graph`.

    Attributes:
        COLOCATE_GRADIENTS_WITH_OPS: place gradient operations on the devices of the operations they belong to.
        GATE_GRADIENTS: whether the gradients of one operation wait for each other, as in `Optimizer.compute_gradients`. None means: on a
            CPU, unless the model has batch normalization; see docs/speed.md.
        cost: the cost of the first tower; None if XLA compiles it. Its moving average is reported to the
            monitors, under the name of its tensor, unless the model makes a summary of it. The name is
            `total_cost` if TensorFlow chose it.
        AGGREGATION_METHOD: how the gradients of one variable are added; see `tf.AggregationMethod`.
        XLA_COMPILE: compile the cost and its gradients with XLA, if TensorFlow supports it.
    """

    COLOCATE_GRADIENTS_WITH_OPS = True
    GATE_GRADIENTS: bool | None = None
    AGGREGATION_METHOD = tf.AggregationMethod.DEFAULT
    XLA_COMPILE = False

    def fit(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise a TypeError that explains how to train: `fit` is a method of models of Keras."""
        raise explain_fit(type(self).__name__)

    @call_only_once
    def setup_graph(
        self,
        input_signature: Sequence[tf.TensorSpec],
        input: InputSource,
        get_cost_fn: Callable[..., tf.Tensor],
        get_opt_fn: Callable[[], tf.train.Optimizer],
    ) -> None:
        """
        Build the graph of training.

        Args:
            input_signature: a list of `TensorSpec`, one for each input of the model.
            input: the source of the inputs.
            get_cost_fn: a function that takes the input tensors, builds the model and returns a scalar cost.
            get_opt_fn: a function that returns a `tf.train.Optimizer`; called once, inside the first tower.

        Raises:
            RuntimeError: `input` was set up before.
            TypeError, ValueError: the cost is not a scalar tensor.
        """

        def get_and_keep_cost(*inputs: tf.Tensor) -> tf.Tensor:
            cost = get_cost_fn(*inputs)
            if self.cost is None and isinstance(cost, tf.Tensor) and not inside_xla(cost.graph):
                self.cost = cost
            return cost

        @memoized
        def get_optimizer() -> tf.train.Optimizer:
            optimizer = get_opt_fn()
            self.steps_per_update = steps_per_update(optimizer)
            return optimizer

        self.tower_func = TowerFunc(get_and_keep_cost, input_signature)
        input_callbacks = self._setup_input(input_signature, input)
        with explain_mistakes(f"{type(self).__name__}.setup_graph"):
            train_callbacks = self._setup_graph(input, self._tower_func_or_raise(), get_optimizer)
        self._report_cost()
        self.register_callback([*input_callbacks, *(train_callbacks or [])])

    def _setup_graph(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> list[Callback]:
        """
        Build the towers and `train_op`, and return the callbacks that the trainer needs.

        `steps_per_update` is set once the function that `_make_get_grad_fn` returns has been called. What the trainer keeps
        besides the model belongs into global variables, named `<var>/<Name>` for each variable, so that checkpoints contain it.
        TerminateOnNaN holds back every assignment that `train_op` depends on, unless the cost waits for it. Let each assignment
        wait for the gradients (`tf.control_dependencies`), so that a step that fails because data is missing changes nothing.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: define _setup_graph(), which builds the towers and train_op."
        )

    def _report_cost(self) -> None:
        if self.cost is None or has_scalar_summary(self.cost):
            return
        name = re.sub(r"_\d+$", "", self.cost.op.name.split("/")[-1])
        # TensorFlow names an operation by its type, a quotient "truediv", and a result of `tf.losses` "value"
        if name in ("truediv", "value") or self.cost.op.type.lower().startswith(name.lower()):
            with tf.name_scope(None):
                self.cost = tf.identity(self.cost, name="total_cost")
        if not has_scalar_summary(self.cost):
            add_moving_summary(self.cost)

    def _setup_input(self, input_signature: Sequence[tf.TensorSpec], input: InputSource) -> list[Callback]:
        if input.setup_done():
            raise RuntimeError(
                f"{type(self).__name__}: the input, a {type(input).__name__}, was set up before. Make a new one for each use."
            )
        return input.setup(input_signature)

    def _make_get_grad_fn(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> Callable[[], GradVars]:
        """Return a function that builds a training tower and returns its list of `(gradient, variable)`."""
        options = GradientOptions(
            gate_gradients=self.GATE_GRADIENTS,
            colocate=self.COLOCATE_GRADIENTS_WITH_OPS,
            aggregation_method=self.AGGREGATION_METHOD,
            xla_compile=self.XLA_COMPILE,
        )
        # None only in a tower for inference
        return make_get_grads(input.get_input_tensors, get_cost_fn, get_opt_fn, options)  # type: ignore[return-value]

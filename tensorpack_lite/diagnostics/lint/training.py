"""The training that the rules of lint look at."""

from __future__ import annotations

import re
import time
from typing import Any

from ...callbacks.expected import find_single_callbacks
from ...callbacks.graph import RunOp
from ...callbacks.inference_runner import InferenceRunnerBase
from ...callbacks.param.setter import HyperParamSetter
from ...compat import tfv1 as tf
from ...dataflow.base import DataFlow
from ...input_source.base import InputSource, ProxyInputSource
from ...input_source.reset import ResetInput
from ...loop.callback import Callback
from ...loop.callback_factory import CallbackFactory
from ...loop.hooks import HookToCallback
from ...loop.trainer import LoopTrainer, find_step_ops
from ...tfutils.dependency import elements_in
from ...tfutils.sessinit import SessionInit
from ...tfutils.tower.handle import TowerTensorHandle
from ...utils.inspection import call_within, root_of, static_attribute
from ..nan.batch_capture import training_towers
from .graph_view import GraphView

_MAX_SECONDS = 1.0  # for the lengths of users' classes
_PACKAGE = __name__.split(".")[0]
# set variables, or run functions of the user
_ACTING = (CallbackFactory, HookToCallback, HyperParamSetter, RunOp)


class ExaminedTraining:
    """
    A training whose callbacks are set up, and what the rules need to know about it, computed once.

    Args:
        trainer: the trainer.
        session_init: the initial values of its variables.
        steps_per_epoch: the number of steps in an epoch; 0 if it is not known.

    Attributes:
        trainer, session_init, steps_per_epoch: as given.
        graph: a `GraphView` of the default graph.
        callbacks: all callbacks, without the proxies and groups around them.
        cost: the cost of the first tower, or None.
        before_cost: the names of the operations that compute it, without those of control inputs.
        targets: the operations and tensors that steps may run: `step_ops`, `cost`, and others in the trainer's attributes.
        step: the names of the operations that these run.
        towers: the training towers.
        signature: the `TensorSpec` of each of their inputs.
        input_names: the names in the signature by those of the tensors; a queue has one operation for all inputs.
        inference_names: the names of the inference towers, without that of a tower that has none.
        runners: the InferenceRunners.
        sources: the inputs of training.
    """

    def __init__(self, trainer: LoopTrainer, session_init: SessionInit, steps_per_epoch: int = 0) -> None:
        self.trainer = trainer
        self.session_init = session_init
        self.steps_per_epoch = steps_per_epoch
        self.graph = GraphView(tf.get_default_graph())
        self.callbacks = find_single_callbacks(trainer.find_callbacks(Callback))
        self.cost: Any = trainer.cost
        self.before_cost = self.graph.before([] if self.cost is None else [self.cost], controls=False)
        self.targets = [*find_step_ops(trainer), *elements_in(vars(trainer))]
        self.step = self.graph.before(self.targets)
        self.towers: list[TowerTensorHandle] = training_towers(trainer)
        tower_func: Any = trainer.tower_func
        self.signature = [] if tower_func is None else tower_func.input_signature
        inference = [] if tower_func is None else tower_func.towers.inference()
        self.inference_names: set[str] = {tower.ns_name for tower in inference} - {""}
        inputs = zip(self.towers[0].inputs, self.signature) if self.towers else ()
        self.input_names: dict[str, str] = {tensor.name: spec.name for tensor, spec in inputs}
        self.runners = [cb for cb in self.callbacks if isinstance(cb, InferenceRunnerBase)]
        resets = [cb for cb in self.callbacks if isinstance(cb, ResetInput)]
        self.sources = [reset.source for reset in resets]
        scopes = {cb.name_scope or type(cb).__name__ for cb in self.callbacks if _only_watches(cb)}
        self._watching = re.compile(f"({'|'.join(map(re.escape, sorted(scopes)))})(_[0-9]+)?/")
        self._lengths: dict[int, int | None] = {}
        self._seconds_left = _MAX_SECONDS

    def find(self, kind: type) -> list[Any]:
        """Return the callbacks of a class."""
        return [cb for cb in self.callbacks if isinstance(cb, kind)]

    def is_watching(self, name: str) -> bool:
        """
        Return whether a callback of this library created an operation, e.g. to save, to average or to examine variables.

        Such callbacks read all variables, and may put averages in their place for a while. The model does not use them.
        """
        return self._watching.match(name) is not None

    def reads(self, variable: tf.Variable) -> list[Any]:
        """Return the operations that read a variable, without those for which `is_watching`."""
        return [op for op in self.graph.reads(variable) if not self.is_watching(op.name)]

    def updates(self, variable: tf.Variable) -> list[Any]:
        """Return the operations that change a variable, without those that initialize or restore it, or for which `is_watching`."""
        return [op for op in self.graph.updates(variable) if not self.is_watching(op.name)]

    def length_of(self, data: Any) -> int | None:
        """
        Return the length of a DataFlow or input.

        Returns:
            None if it has none, or if the methods of users' classes raise an error or take more than a second together.
        """
        if id(data) not in self._lengths:
            start = time.perf_counter()
            self._lengths[id(data)] = call_within(
                self._seconds_left, lambda: int(data.size() if isinstance(data, InputSource) else len(data))
            )
            self._seconds_left -= time.perf_counter() - start
        return self._lengths[id(data)]


def find_dataflow(source: InputSource) -> DataFlow | None:
    """Return the DataFlow that an input reads; None if it reads something else."""
    inner: Any = source
    while isinstance(inner, ProxyInputSource):
        inner = inner._input
    flow = static_attribute(inner, "ds")
    return flow if isinstance(flow, DataFlow) else None


def _only_watches(callback: Callback) -> bool:
    return root_of(type(callback)) == _PACKAGE and not isinstance(callback, _ACTING)

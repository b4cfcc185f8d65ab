"""The training that the rules of lint look at."""

from __future__ import annotations

from typing import Any, Iterable, Iterator

from ...compat import tfv1 as tf
from ...input_source.reset import ResetInput
from ...loop.callback import Callback
from ...loop.group import Callbacks, innermost
from ...loop.trainer import LoopTrainer
from ...tfutils.sessinit import SessionInit
from ...tfutils.tower.handle import TowerTensorHandle
from ..batch_capture import training_towers
from ..inference_runner import InferenceRunnerBase
from .graph_view import GraphView

__all__ = ["Training", "elements_in"]


class Training:
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
        targets: the operations and tensors that steps may run: `train_op`, `cost`, and others in the trainer's attributes.
        step: the names of the operations that these run.
        towers: the training towers.
        runners: the InferenceRunners.
        sources: the inputs of training.
    """

    def __init__(self, trainer: LoopTrainer, session_init: SessionInit, steps_per_epoch: int = 0) -> None:
        self.trainer = trainer
        self.session_init = session_init
        self.steps_per_epoch = steps_per_epoch
        self.graph = GraphView(tf.get_default_graph())
        self.callbacks = list(_flatten(trainer.find_callbacks(Callback)))
        self.cost = trainer.cost
        self.targets = elements_in(vars(trainer))
        self.step = self.graph.before(self.targets)
        self.towers: list[TowerTensorHandle] = training_towers(trainer)
        self.runners = [cb for cb in self.callbacks if isinstance(cb, InferenceRunnerBase)]
        resets = [cb for cb in self.callbacks if isinstance(cb, ResetInput)]
        self.sources = [reset.source for reset in resets]

    def find(self, kind: type) -> list[Any]:
        """Return the callbacks of a class."""
        return [cb for cb in self.callbacks if isinstance(cb, kind)]


def elements_in(attributes: dict[str, Any]) -> list[Any]:
    """Return the operations and tensors among the attributes of an object, also inside lists, tuples and dicts."""
    return [element for value in attributes.values() for element in _leaves(value)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tf.Operation, tf.Tensor)):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)


def _flatten(callbacks: Iterable[Callback]) -> Iterator[Callback]:
    for callback in map(innermost, callbacks):
        if isinstance(callback, Callbacks):
            yield from _flatten(callback.cbs)
        else:
            yield callback

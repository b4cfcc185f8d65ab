"""The interface of a trainer, as callbacks, monitors and input sources use it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Sequence, TypeVar

import numpy as np

from ..compat import tfv1 as tf
from ..ranks.alone import Alone
from ..tfutils.dependency import elements_in
from ..tfutils.sessinit import SessionInit
from ..tfutils.tower.func import TowerFunc
from .state import TrainLoop

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object  # Python 3.7 has none

_T = TypeVar("_T")


class TrainArguments(NamedTuple):
    """
    The arguments of `Trainer.train` besides callbacks and monitors.

    Attributes:
        session_creator, session_init, steps_per_epoch, starting_epoch, max_epoch: see `Trainer.train`.
    """

    session_creator: tf.train.SessionCreator
    session_init: SessionInit
    steps_per_epoch: int
    starting_epoch: int
    max_epoch: int


class LoopTrainer(Protocol):
    """
    Interface of a `Trainer` for callbacks, which use it as `self.trainer`.

    It is for readers and type checkers only: a trainer does not derive from it.

    Attributes:
        loop: the counters, and how training ended; a `TrainLoop`.
        is_chief: whether this process writes logs and checkpoints; True unless a distributed trainer sets it.
        rank: the number of this process among those that train together, from 0.
        size: the number of processes that train together.
        local_rank, local_size: the same among the processes of this machine.
        cost: the cost of the first tower, a scalar tensor, or None if the trainer does not minimize one. `ProgressBar`
            shows it.
        train_op: the operation or tensor that a step runs, or None if the trainer overrides `run_step`.
        step_ops: what `run_step` may run, if the trainer declares it; see `find_step_ops`.
        steps_per_update: the number of steps whose gradients one update takes; 1 unless an optimizer accumulates them.
        sess: the raw `tf.Session`, from `initialize` to the end of training. Its runs do not call callbacks.
        hooked_sess: the session of training steps, a `HookedSession` unless `initialize_hooks` is overridden.
            Each of its runs calls `before_run` and `after_run` of the callbacks.
        monitors: receives scalars and images, from `setup_callbacks` on. It can be read after training.
        model: the model that `launch_train_with_config` trains; None in other training runs.
        arguments: those of `train`; None before.
        ranks: the connection to the other processes, a `RankConnection`; an `Alone`, its base class, in a process that trains alone.
        updates_together: whether a step has one update, of the gradients of all towers.
        not_repeatable: why the same data and seeds may give other weights; "" if they do not.
    """

    loop: TrainLoop
    is_chief: bool
    rank: int
    size: int
    local_rank: int
    local_size: int
    ranks: Alone
    cost: tf.Tensor | None
    train_op: tf.Operation | tf.Tensor
    step_ops: Sequence[tf.Operation | tf.Tensor]
    steps_per_update: int
    updates_together: bool
    not_repeatable: str
    sess: tf.Session
    hooked_sess: Any
    monitors: LoopMonitors
    model: Any
    arguments: TrainArguments | None

    @property
    def epoch_num(self) -> int:
        """The current epoch, from 1; see `TrainLoop`."""

    @property
    def global_step(self) -> int:
        """The number of runs of the hooked session; see `TrainLoop`."""

    @property
    def local_step(self) -> int:
        """The number of the step within its epoch, from 0; see `TrainLoop`."""

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in an epoch; known from `before_train` on."""

    @property
    def starting_epoch(self) -> int:
        """The number of the first epoch; known from `before_train` on."""

    @property
    def max_epoch(self) -> int:
        """The number of the last epoch; known from `before_train` on."""

    @property
    def exact(self) -> bool | str:
        """Whether training resumes exactly: True or "require" after `begin_exact_resume` in this graph; otherwise False."""

    @property
    def tower_func(self) -> TowerFunc | None:
        """The tower function; None if the trainer has none."""

    def run_step(self) -> None:
        """Run one step of training."""

    def find_tensor(self, name: str) -> tf.Tensor | tf.Operation:
        """
        Find a tensor by name; a trainer with towers also searches the first training tower.

        Args:
            name: the name of a tensor, or of an operation, which means its first output. An operation without outputs
                is returned itself.

        Returns:
            A tensor or operation. The name of a variable means its value.

        Raises:
            KeyError: no such name; the message names the nearest ones.
        """

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str], device: int = 0
    ) -> Callable[..., Any]:
        """
        Return a function that evaluates the model in the training session; see `TowerTrainer.get_predictor`.

        Raises:
            RuntimeError: the trainer has no tower function.
        """

    def vs_name_for_predictor(self, device: int) -> str:
        """
        Return the variable scope of a tower for inference.

        Args:
            device: the number of a GPU; negative means the CPU.

        Returns:
            The name of the variable scope; "" means the variables of the first training tower.
        """

    def find_callbacks(self, kind: type[_T]) -> list[_T]:
        """
        Return all callbacks of a class, in the order in which they are called.

        Args:
            kind: a class; instances of subclasses are included.
        """

    def find_extension(self, kind: type[_T]) -> _T | None:
        """
        Return the first extension of a class; None if there is none.

        Args:
            kind: a class; instances of subclasses are included.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save in addition to the variables: the place of the training and the callbacks' states."""

    def state_to_resume(self, state: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
        """
        Return the part of a checkpoint's state with which this process resumes, and why it is not exact, or "".

        Args:
            state: the state of the checkpoint; used on the chief only.
        """

    def end_if_preempted(self) -> None:
        """
        End training if SIGTERM or SIGUSR1 was received and `exact` is set.

        A callback that computes for long calls it between two parts of its work, which also shows that it does not hang.
        When training resumes, the callback is called again, from the beginning.

        Raises:
            Preempted: to be passed on.
        """


def find_step_ops(trainer: LoopTrainer) -> list[tf.Operation | tf.Tensor]:
    """
    Return the operations and tensors that a step may run. Exact resume, signals, lint and TerminateOnNaN examine them.

    Args:
        trainer: the trainer.

    Returns:
        Its `step_ops`; if it declares none, `train_op`; without one, all among its attributes, of which a step may run only some.
    """
    if trainer.step_ops:
        return list(trainer.step_ops)
    return elements_in(vars(trainer) if trainer.train_op is None else {"train_op": trainer.train_op})


def session_config(trainer: LoopTrainer) -> tf.ConfigProto | None:
    """Return the config of the session; None if it is not known."""
    return None if trainer.arguments is None else getattr(trainer.arguments.session_creator, "config", None)


class LoopMonitors(ABC):
    """The interface of `trainer.monitors`; see `Monitors`."""

    @abstractmethod
    def put_scalar(self, name: str, val: float | np.generic | np.ndarray) -> None:
        """Send one number to all monitors."""

    @abstractmethod
    def put_image(self, name: str, val: np.ndarray) -> None:
        """Send one or more images to all monitors."""

    @abstractmethod
    def put_text(self, name: str, val: str | Sequence[str]) -> None:
        """Send one or more texts to all monitors."""

    @abstractmethod
    def put_summary(self, summary: tf.Summary | bytes) -> None:
        """Send a `tf.Summary` to all monitors."""

    @abstractmethod
    def put_event(self, evt: tf.Event) -> None:
        """Send a `tf.Event` to all monitors."""

    @abstractmethod
    def get_latest(self, name: str) -> float:
        """Return the last value of a scalar."""

    @abstractmethod
    def get_history(self, name: str) -> list[tuple[int, float]]:
        """Return all values of a scalar, each with its `global_step`."""

    @property
    @abstractmethod
    def scalar_names(self) -> list[str]:
        """The names of all scalars that have been reported."""

    @abstractmethod
    def describe_missing(self, name: str) -> str:
        """Return a sentence that says that a scalar has not been reported, and names the nearest ones."""

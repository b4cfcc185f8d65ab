"""Base class of trainers with several processes, independent of the engine that reduces their gradients."""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from contextlib import contextmanager
from typing import Any, ContextManager, Iterator, Sequence

import numpy as np

from ..callbacks.early_stopping import EarlyStopping
from ..callbacks.monitor.base import MonitorBase
from ..callbacks.replicas import checksum
from ..callbacks.saver import ModelSaver
from ..compat import tfv1 as tf
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..loop.group import innermost
from ..loop.resume_point import ResumePoint
from ..loop.signals.end_signals import Preempted
from ..ranks.connecting import RankError
from ..ranks.exit_code import end_with_code
from ..ranks.meeting import Meeting
from ..ranks.rank_info import RankInfo, find_rank_info, find_remark
from ..tfutils.exact.state import find_exact
from ..tfutils.gradproc import GradVars
from ..tfutils.proxy_optimizer import set_gradient_factor
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SessionInit
from ..tfutils.tower.context import TrainTowerContext
from ..tfutils.tower.tower_ranks import TowerRanks
from ..tfutils.varmanip import SessionUpdate
from ..utils import logger
from .exact.extension import ExactTraining
from .exact.rank_states import gather_states, num_saved, split_state, take_part
from .rank_connection import RankCallback, RankConnection, graph_of_training
from .signals.extension import Signals
from .tower import CostFn, OptFn, SingleCostTrainer


class RankTrainer(SingleCostTrainer):
    """
    Base class of CollectiveTrainer and HorovodTrainer, which train one tower in each of several processes ("ranks").

    The constructor of an engine's trainer calls `_detect` to find the place of this process, and `_join` to
    connect to the other ranks. It overrides `_reduce`, `_mean`, `_send_variables` and `_prepare_session`.
    Layers that need a mean over ranks, such as BatchNorm with `sync_statistics`, find the engine in the
    context of their tower, as its `TowerRanks`.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        local_rank, local_size: the same among the processes of this machine.
        is_chief: whether this is rank 0.
        ranks: the `RankConnection`; an `Alone` in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether all ranks get the variables of rank 0 after each epoch; can be set
            before training.
    """

    ranks: RankConnection  # an `Alone` in a process that trains alone, which does not call what that lacks

    def __init__(self) -> None:
        super().__init__()
        self.BROADCAST_EVERY_EPOCH = True
        self._average = True
        self._sync_op: tf.Operation = None
        self._graph: dict[str, Any] = {}
        self._saves_together = False

    def _detect(self) -> RankInfo | None:
        """Find the place of this process among the ranks; None if it trains alone."""
        place = find_rank_info(os.environ)
        remark = find_remark(os.environ) if place is None else ""
        if remark:
            logger.warning(remark)
        if place is not None:
            self._take_place(place.rank, place.size, place.local_rank or 0, place.local_size or 1)
            if place.size == 1 and place.ignored:
                logger.info(f"{place.describe(socket.gethostname())} Ignored: {', '.join(place.ignored)}.")
        return None if place is None or place.size == 1 else place

    def _take_place(self, rank: int, size: int, local_rank: int, local_size: int) -> None:
        self.rank, self.size, self.local_rank, self.local_size = rank, size, local_rank, local_size
        self.is_chief = rank == 0

    def _join(self, place: RankInfo, meeting: Meeting, time_limit: float) -> None:
        """Connect to the other ranks."""
        ignored = f" Ignored: {', '.join(place.ignored)}." if place.ignored else ""
        logger.info(f"{place.describe(socket.gethostname())} {meeting.describe()}{ignored}")
        end_with_code(RankError)
        self.ranks = RankConnection(self.rank, self.size, meeting.address, time_limit, *meeting[1:])
        self.ranks.report_end_of_script()

    def _require_new_session(self, session_creator: tf.train.SessionCreator) -> None:
        if type(session_creator) is not NewSessionCreator:
            raise ValueError(
                f"{type(self).__name__}: session_creator has the wrong type (expected NewSessionCreator, because its config is "
                f"set per rank, got {type(session_creator).__name__})."
            )

    # For engines to override -----------------------------------------------------------------------------------------
    @abstractmethod
    def _reduce(self, grads: GradVars) -> GradVars:
        """Build the reduction of gradients over all ranks."""

    @abstractmethod
    def _mean(self, tensor: tf.Tensor) -> tf.Tensor:
        """Build the mean of a tensor over all ranks; for layers."""

    @abstractmethod
    def _send_variables(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Build an operation that gives variables the values of rank 0; all ranks have the same list."""

    @abstractmethod
    def _prepare_session(self, session_creator: tf.train.SessionCreator) -> None:
        """Check the session creator, and set the engine's options in its config."""

    # Building --------------------------------------------------------------------------------------------------------
    def _setup_graph(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> list[Callback]:
        with self._reporting("building the graph"):
            with TrainTowerContext("", ranks=TowerRanks(self.size, self._mean)):
                grads = self._make_get_grad_fn(input, get_cost_fn, get_opt_fn)()
                grads = self._reduce(grads) if self.size > 1 else grads
                optimizer = get_opt_fn()
                set_gradient_factor(optimizer, 1.0 if self._average else self.size)
                self.train_op = optimizer.apply_gradients(grads, name="train_op")
            if self.size == 1:
                return []
            self._graph = {"optimizer": type(optimizer).__name__, **graph_of_training()}
            return [RankCallback(self.ranks, self._broadcast, lambda: self.BROADCAST_EVERY_EPOCH)]

    def setup_callbacks(self, callbacks: list[Callback], monitors: list[MonitorBase]) -> None:
        """Set up as `Trainer.setup_callbacks` does; log a warning about callbacks that would end the training of the chief only."""
        if self.size > 1 and any(type(c) is EarlyStopping and c.chief_only for c in callbacks):
            logger.warning(
                "EarlyStopping runs only on the chief. When it ends training there, the other ranks do not stop, and all end "
                "with an error. Leave out .set_chief_only(True), so that all ranks follow the chief's statistic."
            )
        with self._reporting("setting up callbacks"):
            self._compare_savers([*self._callbacks.cbs, *callbacks])
            super().setup_callbacks(callbacks, monitors)

    def initialize(self, session_creator: tf.train.SessionCreator, session_init: SessionInit) -> None:
        """
        Compare the ranks, initialize as `Trainer.initialize` does, and broadcast the chief's variables.

        Args:
            session_creator: a NewSessionCreator; the engine changes its config.
            session_init: used on the chief only.

        Raises:
            ValueError: the session creator has another type.
            RankError: the ranks differ.
        """
        with self._reporting("initializing the session"):
            self.ranks.compare(self._graph)
            if self.size > 1:
                self._sync_op = self._send_variables(self._variables_of_all())
            self._prepare_session(session_creator)
            super().initialize(session_creator, session_init)
            if self.size > 1:
                with self.sess.as_default():
                    self._broadcast()

    def _compare_savers(self, callbacks: Sequence[Callback]) -> None:
        """With `exact`, let all ranks save together if they have the same ModelSavers."""
        if self.size == 1 or find_exact() is None:
            return
        savers = [str(cb) for cb in callbacks if isinstance(innermost(cb), ModelSaver)]
        everywhere = self.ranks.channel.gather("the names of the savers", savers)
        are_equal = everywhere is not None and all(names == savers for names in everywhere)
        self._saves_together = self._ask_chief("whether the savers are the same", are_equal)
        if not self._saves_together:
            exact = self.find_extension(ExactTraining)
            if exact is not None:
                exact.not_exact = "not all ranks have the chief's ModelSaver; give all ranks the same callbacks"

    def _takes_part(self, cb: Callback) -> bool:
        return self._saves_together and isinstance(innermost(cb), ModelSaver)

    def _variables_of_all(self) -> list[tf.Variable]:
        """Return the variables that every rank has; callbacks that only the chief has may have created more."""
        variables = {var.op.name: var for var in tf.global_variables()}
        gather = self.ranks.channel.gather
        names = self._ask_chief("the names of the chief's variables", list(variables))
        missing = gather("the variables that a rank lacks", [name for name in names if name not in variables])
        lacking = {name for some in missing or () for name in some}
        everywhere = [name for name in names if name not in lacking]
        return [variables[name] for name in self._ask_chief("the variables of all ranks", everywhere)]

    # Training --------------------------------------------------------------------------------------------------------
    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """
        Run the loop as `Trainer.main_loop` does, on all ranks; `starting_epoch` is that of the chief.

        Raises:
            RankError: ranks differ in steps_per_epoch or max_epoch; another rank failed.
        """
        with self._reporting("training"):
            lengths = {"steps_per_epoch": steps_per_epoch, "max_epoch": max_epoch}
            self.ranks.compare({**lengths, "BROADCAST_EVERY_EPOCH": self.BROADCAST_EVERY_EPOCH})
            starting_epoch = self._ask_chief("the first epoch", starting_epoch)
            try:
                super().main_loop(steps_per_epoch, starting_epoch, max_epoch)
            except Preempted:
                # before the first step, the ranks have not agreed on an end
                signals = self.find_extension(Signals)
                if signals is not None and signals.has_agreed:
                    self.ranks.finish(self.global_step)
                raise
            self.ranks.finish(self.global_step)

    # Resuming --------------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Return the state as `Trainer.state_dict` does, on the chief with those of the other ranks, which must call it too."""
        state = super().state_dict()
        if not self._saves_together:
            return state
        keys = () if self.is_chief else ("callbacks", "exact")
        mine = {**{key: state[key] for key in keys if key in state}, "variables": self._own_variables()}
        parts = gather_states(self.ranks.channel, mine)
        is_resumed = state is self._checkpoint_state  # nothing has happened since
        return state if parts is None or is_resumed else {**state, "ranks": parts[1:]}

    def _own_variables(self) -> dict[str, Any]:
        """Return the values that differ from the chief's, such as statistics of BatchNorm between two broadcasts."""
        values = {name: np.asarray(value) for name, value in self.sess.run(_model_variables()).items()}
        mine = {name: checksum(value) for name, value in values.items()}
        of_chief = self._ask_chief("the checksums of the chief's statistics", mine)
        return {name: value for name, value in values.items() if mine[name] != of_chief.get(name)}

    def _notify_epochs_begin(self) -> None:
        super()._notify_epochs_begin()
        if self.is_chief or self._checkpoint_state is None:
            return
        values = self._checkpoint_state.get("variables", {})
        mine = {name: variable for name, variable in _model_variables().items() if name in values}
        update = SessionUpdate(self.sess, mine.values())
        update.update({variable.name: values[name] for name, variable in mine.items()})

    def state_to_resume(self, state: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
        """
        Send each rank its part of the chief's state; see `LoopTrainer.state_to_resume`.

        Raises:
            ValueError: the trainer adds the ranks' gradients, and another number of ranks has saved the state.
            RankError: another rank failed.
        """
        saved_by = num_saved(state) if self.is_chief else None
        if not self._average and saved_by not in (None, self.size):
            raise ValueError(
                f"{type(self).__name__}: average=False adds the gradients of all ranks, so each step would change its length "
                f"(expected {saved_by} ranks as in the checkpoint, got {self.size}). Train with average=True, or with {saved_by}."
            )
        if self.size == 1:
            return super().state_to_resume(state)
        if self.is_chief:
            (mine, *of_peers), not_exact = split_state(state, self.size)
            take_part(self.ranks.channel, [{}, *of_peers])
            return mine or None, not_exact
        self._checkpoint_state = take_part(self.ranks.channel, None) or None
        return self._checkpoint_state, ""

    def _find_resume_point(self) -> ResumePoint | None:
        place = super()._find_resume_point() if self.is_chief else None
        told = self._ask_chief("the place to resume at", None if place is None else place._asdict())
        return None if told is None else ResumePoint.from_dict(told, "The chief's message")

    def _ask_chief(self, name: str, value: Any) -> Any:
        """Return the chief's value on all ranks; the values of the others are not sent."""
        return self.ranks.channel.all_gather(name, value if self.is_chief else None)[0]

    def run_step(self) -> None:
        """Run one step; if it fails because another rank failed, raise that failure."""
        with self._explaining():
            try:
                super().run_step()
            except (tf.errors.OutOfRangeError, StopIteration):
                self.ranks.end_data()
                raise

    def _broadcast(self) -> None:
        with self._explaining(), self.ranks.waiting("taking rank 0's variables"):
            tf.get_default_session().run(self._sync_op)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Context that replaces an engine's error by the failure of another rank, if that is its cause."""
        try:
            yield
        except tf.errors.OpError as error:
            self.ranks.explain(error)
            raise

    def _reporting(self, place: str) -> ContextManager[None]:
        return self.ranks.reporting(self, place)


def _model_variables() -> dict[str, tf.Variable]:
    """Return the variables in which ranks may differ."""
    return {variable.op.name: variable for variable in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)}

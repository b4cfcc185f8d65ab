"""What trainers of several processes have in common, whatever engine moves their gradients."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ..callbacks.early_stopping import EarlyStopping
from ..compat import tfv1 as tf
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..loop.place import Place
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SessionInit
from ..tfutils.tower.context import TrainTowerContext
from ..tfutils.tower.ranks import TowerRanks
from ..utils import logger
from ..utils.rank_auth import Credentials
from .ranks import RankCallback, RankWatch, graph_of_training
from .tower import SingleCostTrainer

__all__ = ["RankTrainer"]


class RankTrainer(SingleCostTrainer):
    """
    Train one tower in each of several processes ("ranks"); base of CollectiveTrainer and HorovodTrainer.

    An engine's trainer says in its constructor which rank this is, by `_take_place`, joins the others, by `_join`, and
    overrides the four methods that follow it. Layers that need a mean over ranks, such as BatchNorm with `sync_statistics`, find
    the engine in the tower's context, as its `TowerRanks`.

    Attributes:
        rank: the number of this process, from 0.
        size: how many processes there are.
        local_rank, local_size: the same among the processes of this machine.
        is_chief: whether this is rank 0.
        ranks: the `RankWatch`; None in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether ranks get rank 0's variables after each epoch; can be set before training.

    tensorpack: new.
    """

    rank, size, local_rank, local_size = 0, 1, 0, 1

    def __init__(self) -> None:
        super().__init__()
        self.BROADCAST_EVERY_EPOCH = True
        self.ranks: RankWatch | None = None
        self._sync_op: Any = None
        self._graph: dict[str, Any] = {}

    def _take_place(self, rank: int, size: int, local_rank: int, local_size: int) -> None:
        self.rank, self.size, self.local_rank, self.local_size = rank, size, local_rank, local_size
        self.is_chief = rank == 0

    def _join(self, address: tuple[str, int], time_limit: float, credentials: Credentials) -> None:
        """Meet the others, on the channel by which ranks tell each other how they are."""
        logger.info(f"Rank {self.rank} of {self.size} waits for the others ...")
        self.ranks = RankWatch(self.rank, self.size, address, time_limit, credentials)
        self.ranks.report_end_of_script()

    def _require_new_session(self, session_creator: Any) -> None:
        if type(session_creator) is not NewSessionCreator:
            raise ValueError(
                f"{type(self).__name__}: session_creator must be NewSessionCreator (its config is set per rank), got "
                f"{type(session_creator).__name__}."
            )

    # What an engine does ---------------------------------------------------------------------------------------------
    @abstractmethod
    def _reduce(self, grads: GradVars) -> GradVars:
        """Build the reduction of gradients over all ranks."""

    @abstractmethod
    def _mean(self, tensor: Any) -> Any:
        """Build the mean of a tensor over all ranks; for layers."""

    @abstractmethod
    def _send_variables(self, variables: Sequence[Any]) -> Any:
        """Build an operation that gives variables the values of rank 0; all ranks have the same list."""

    @abstractmethod
    def _prepare_session(self, session_creator: Any) -> None:
        """Check the session creator, and set in its configuration what the engine needs."""

    # Building --------------------------------------------------------------------------------------------------------
    def _setup_graph(
        self,
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: Callable[[], Any],
    ) -> list[Callback]:
        with self._reporting("building the graph"):
            with TrainTowerContext("", ranks=TowerRanks(self.size, self._mean)):
                grads = self._make_get_grad_fn(input, get_cost_fn, get_opt_fn)()
                grads = self._reduce(grads) if self.size > 1 else grads
                optimizer = get_opt_fn()
                self.train_op = optimizer.apply_gradients(grads, name="train_op")
            if self.ranks is None:
                return []
            self._graph = {"optimizer": type(optimizer).__name__, **graph_of_training()}
            return [RankCallback(self.ranks, self._broadcast, lambda: self.BROADCAST_EVERY_EPOCH)]

    def setup_callbacks(self, callbacks: list[Callback], monitors: list[Any]) -> None:
        """Set up as `Trainer.setup_callbacks` does; warns of what would end the training of the chief alone."""
        if self.ranks is not None and any(type(c) is EarlyStopping and c.chief_only for c in callbacks):
            logger.warning(
                "EarlyStopping is the chief's alone; where it ends training, the other ranks go on and all end with an error. Give "
                "it to all with .set_chief_only(False), and its statistic, too: by ShardedInferenceRunner."
            )
        with self._reporting("setting up callbacks"):
            super().setup_callbacks(callbacks, monitors)

    def initialize(self, session_creator: Any, session_init: SessionInit) -> None:
        """
        Compare the ranks, initialize as `Trainer.initialize` does, and take the chief's variables.

        Args:
            session_creator: a NewSessionCreator; its configuration gets what the engine needs.
            session_init: the chief's; others ignore theirs.

        Raises:
            ValueError: the session creator is of another kind.
            RankError: the ranks differ.
        """
        with self._reporting("initializing the session"):
            if self.ranks is not None:
                self.ranks.compare(lambda: self._graph)
                self._sync_op = self._send_variables(self._variables_of_all())
            self._prepare_session(session_creator)
            super().initialize(session_creator, session_init)
            if self.ranks is not None:
                with self.sess.as_default():
                    self._broadcast()

    def _variables_of_all(self) -> list[Any]:
        """Those that every rank has: callbacks that only the chief has may have made more."""
        variables = {var.op.name: var for var in tf.global_variables()}
        gather = self.ranks.channel.all_gather  # type: ignore[union-attr]
        names = gather("which variables the chief has", list(variables) if self.is_chief else None)[0]
        without = gather("which of them others lack", [name for name in names if name not in variables])
        lacking = {name for some in without for name in some}
        return [variables[name] for name in names if name not in lacking]

    # Training --------------------------------------------------------------------------------------------------------
    def main_loop(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """
        Run the loop as `Trainer.main_loop` does, in all ranks alike; the chief's `starting_epoch` counts.

        Raises:
            RankError: ranks differ in steps_per_epoch or max_epoch; another rank failed.
        """
        if self.ranks is None:
            super().main_loop(steps_per_epoch, starting_epoch, max_epoch)
            return
        with self._reporting("training"):
            self.ranks.compare(
                lambda: {
                    "steps_per_epoch": steps_per_epoch,
                    "max_epoch": max_epoch,
                    "BROADCAST_EVERY_EPOCH": self.BROADCAST_EVERY_EPOCH,
                }
            )
            starting_epoch = self._ask_chief("the first epoch", starting_epoch)
            super().main_loop(steps_per_epoch, starting_epoch, max_epoch)
            self.ranks.finish(self.global_step, "its loop is over")

    def _find_place(self) -> Place | None:
        place = super()._find_place()
        told = self._ask_chief("the place to resume at", None if place is None else place._asdict())
        return None if told is None else Place.from_dict(told, "The chief's message")

    def _ask_chief(self, name: str, value: Any) -> Any:
        return value if self.ranks is None else self.ranks.channel.all_gather(name, value)[0]

    def run_step(self) -> None:
        """Do one step; when it fails because of another rank, say so."""
        with self._explaining():
            try:
                super().run_step()
            except (tf.errors.OutOfRangeError, StopIteration):
                if self.ranks is not None:
                    self.ranks.note_end_of_data()
                raise

    def _broadcast(self) -> None:
        session: Any = tf.get_default_session()
        ranks: Any = self.ranks
        with self._explaining():
            ranks.waiting("taking rank 0's variables", lambda: session.run(self._sync_op))

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """An engine's error inside, behind which another rank is, becomes what that rank did."""
        try:
            yield
        except tf.errors.OpError as error:
            if self.ranks is not None:
                self.ranks.explain(error)
            raise

    def _reporting(self, place: str) -> Any:
        return _Nothing() if self.ranks is None else self.ranks.reporting(self, place)


class _Nothing:
    """The context of a process that has nobody to tell."""

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, *error: Any) -> None:
        """Nothing to tell."""

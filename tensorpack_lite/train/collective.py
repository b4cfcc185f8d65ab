"""Training in several processes, on one machine or many, with nothing but TensorFlow."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf
from ..graph_builder.collective import RankGroup, allreduce_rank_grads, broadcast_variables
from ..input_source.base import InputSource
from ..loop.callback import Callback
from ..loop.state import StopTraining
from ..tfutils.sesscreate import NewSessionCreator
from ..tfutils.sessinit import SessionInit
from ..tfutils.tower.context import TrainTowerContext
from ..utils import logger
from ..utils.cluster import Cluster
from ..utils.errors import type_error
from ..utils.gpu import get_num_gpu
from .ranks import RankCallback, RankWatch, graph_of_training
from .tower import SingleCostTrainer

__all__ = ["CollectiveTrainer"]


class CollectiveTrainer(SingleCostTrainer):
    """
    Train one tower in each of several processes ("ranks"), with TensorFlow's collective operations.

    Which processes there are says `TF_CONFIG`, as for `tf.distribute`; `python -m tensorpack_lite.launch -n K script.py` starts
    K of them on this machine and sets it. Without it, this process trains alone. All run the same script. Each takes
    datapoints of its own; gradients are reduced over all ranks, so that K ranks with a batch of B do what one process does with
    K x B. All start with the variables of rank 0, the chief, and get them again at the end of each epoch.

    Only the chief has callbacks that are `chief_only`, restores `session_init`, and should write files.

    Args:
        average: the mean of the ranks' gradients; else their sum.
        compression: "fp16" sends gradients of float32 as float16; None sends what there is.
        time_limit: seconds. Training ends with an error on every rank when one has not been heard of for so long, or has kept the
            others waiting for so long. A callback that only the chief has may take longer.

    Attributes:
        rank: the number of this process, from 0.
        size: how many processes there are.
        local_rank, local_size: the same among the processes of this machine.
        is_chief: whether this is rank 0.
        ranks: the `RankWatch`; None in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether ranks get rank 0's variables after each epoch; can be set before training.

    Raises:
        ValueError: `TF_CONFIG` cannot be understood, or `compression` is another.
        RankError: ranks did not come together; later: another rank failed, died, is silent, does not fit to the others.

    Example:
        >>> launch_train_with_config(config, CollectiveTrainer())    # python -m tensorpack_lite.launch -n 2 script.py

    Note: a rank that waits inside TensorFlow for one that is gone cannot always be woken: its process ends with code 1.

    tensorpack: new; the counterpart of HorovodTrainer.
    """

    def __init__(
        self, average: bool = True, compression: str | None = None, time_limit: float = 300.0
    ) -> None:
        if compression not in (None, "fp16"):
            raise ValueError(f"CollectiveTrainer: compression is {compression!r}, wanted None or 'fp16'.")
        super().__init__()
        self._average, self._compression = average, compression
        self._cluster = Cluster.from_environment()
        alone = self._cluster is None or self._cluster.size == 1
        self.rank, self.size, self.local_rank, self.local_size = (
            (0, 1, 0, 1)
            if self._cluster is None
            else (
                self._cluster.rank,
                self._cluster.size,
                self._cluster.local_rank,
                self._cluster.local_size,
            )
        )
        self.is_chief = self.rank == 0
        self.BROADCAST_EVERY_EPOCH = True
        self._group = RankGroup(self.rank, self.size, "nccl" if get_num_gpu() else "auto")
        self._server: Any = None
        self._sync_op: Any = None
        self._graph: dict[str, Any] = {}
        self.ranks: RankWatch | None = None
        if not alone:
            logger.info(f"Rank {self.rank} of {self.size} waits for the others ...")
            self.ranks = RankWatch(self.rank, self.size, self._cluster.watch_address, time_limit)  # type: ignore[union-attr]

    # Building --------------------------------------------------------------------------------------------------------
    def _setup_graph(
        self,
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: Callable[[], Any],
    ) -> list[Callback]:
        with self._reporting("building the graph"):
            with TrainTowerContext(""):
                grads = self._make_get_grad_fn(input, get_cost_fn, get_opt_fn)()
                grads = allreduce_rank_grads(grads, self._group, self._average, self._compression)
                optimizer = get_opt_fn()
                self.train_op = optimizer.apply_gradients(grads, name="train_op")
            if self.ranks is None:
                return []
            self._graph = {"optimizer": type(optimizer).__name__, **graph_of_training()}
            return [RankCallback(self.ranks, self._broadcast, lambda: self.BROADCAST_EVERY_EPOCH)]

    def setup_callbacks(self, callbacks: list[Callback], monitors: list[Any]) -> None:
        """Set up as `Trainer.setup_callbacks` does."""
        with self._reporting("setting up callbacks"):
            super().setup_callbacks(callbacks, monitors)

    def initialize(self, session_creator: Any, session_init: SessionInit) -> None:
        """
        Compare the ranks, start TensorFlow's server, then initialize as `Trainer.initialize` does, and take the chief's variables.

        Args:
            session_creator: a NewSessionCreator; its configuration gets what collective operations need.
            session_init: the chief's; others ignore theirs.

        Raises:
            TypeError: of another kind.
            RankError: the ranks differ.
        """
        if self.ranks is None:
            super().initialize(session_creator, session_init)
            return
        with self._reporting("initializing the session"):
            if type(session_creator) is not NewSessionCreator:
                raise type_error("CollectiveTrainer.initialize", "a NewSessionCreator", session_creator)
            self.ranks.compare(lambda: self._graph)
            self._sync_op = broadcast_variables(self._variables_of_all(), self._group)
            self._start_server(session_creator)
            super().initialize(session_creator, session_init)
            with self.sess.as_default():
                self._broadcast()

    def _variables_of_all(self) -> list[Any]:
        """Those that every rank has: callbacks that only the chief has may have made more."""
        variables = {var.op.name: var for var in tf.global_variables()}
        everywhere = self.ranks.channel.all_gather("which variables there are", list(variables))  # type: ignore[union-attr]
        return [variables[name] for name in everywhere[0] if all(name in names for names in everywhere)]

    def _start_server(self, session_creator: NewSessionCreator) -> None:
        cluster: Any = self._cluster
        config = session_creator.config
        config.experimental.collective_group_leader = cluster.leader
        config.device_filters.append(f"/job:{cluster.job}/task:{cluster.task_index}")
        if 1 < self.local_size <= get_num_gpu():
            config.gpu_options.visible_device_list = str(self.local_rank)
        address = cluster.addresses[self.rank]
        try:
            self._server = tf.train.Server(
                tf.train.ClusterSpec({job: list(addresses) for job, addresses in cluster.jobs.items()}),
                job_name=cluster.job,
                task_index=cluster.task_index,
                config=config,
            )
        except tf.errors.OpError as error:
            raise RuntimeError(
                f"CollectiveTrainer: rank {self.rank} cannot serve at {address}, its address in TF_CONFIG: {error.message}. Is the "
                "port taken?"
            ) from error
        session_creator.target = self._server.target
        self.ranks.channel.all_gather("starting TensorFlow's servers", address)  # type: ignore[union-attr]

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
            self.ranks.compare(lambda: {"steps_per_epoch": steps_per_epoch, "max_epoch": max_epoch})
            starting_epoch = self.ranks.channel.all_gather("the first epoch", starting_epoch)[0]
            super().main_loop(steps_per_epoch, starting_epoch, max_epoch)
            self.ranks.finish(self.global_step, "its loop is over")

    def run_step(self) -> None:
        """Do one step; when it fails because of another rank, say so."""
        try:
            super().run_step()
        except StopTraining:
            raise
        except tf.errors.OpError as error:
            self._explain(error)
            raise

    def _broadcast(self) -> None:
        session: Any = tf.get_default_session()
        ranks: Any = self.ranks
        try:
            ranks.waiting("taking rank 0's variables", lambda: session.run(self._sync_op))
        except tf.errors.OpError as error:
            self._explain(error)
            raise

    def _explain(self, error: Any) -> None:
        if self.ranks is not None:
            self.ranks.explain(error)

    def _reporting(self, place: str) -> Any:
        return _Nothing() if self.ranks is None else self.ranks.reporting(self, place)


class _Nothing:
    """The context of a process that has nobody to tell."""

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, *error: Any) -> None:
        """Nothing to tell."""

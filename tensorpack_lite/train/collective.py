"""Trainer for several processes, on one or several machines, that needs only TensorFlow."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..graph_builder.collective import RankGroup, allreduce_rank_grads, broadcast_variables, mean_over_group
from ..ranks.authentication import Credentials
from ..ranks.channel import RankChannel
from ..ranks.cluster import Cluster, parse_address
from ..ranks.loopback import is_loopback, restrict_to_loopback
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..utils import logger
from ..utils.gpu import get_num_gpu
from .rank_trainer import RankTrainer

__all__ = ["CollectiveTrainer"]

_KEYS_A_TRAINING = 100_000  # more than the collective operations of a graph


class CollectiveTrainer(RankTrainer):
    """
    Trainer with one tower in each of several processes ("ranks"), which exchange gradients by TensorFlow's collective
    operations.

    `TF_CONFIG` lists the processes, as for `tf.distribute`; `python -m tensorpack_lite.launch -n K script.py`
    starts K of them on this machine and sets it. Without `TF_CONFIG`, this process trains alone. All
    processes run the same script, each with its own datapoints. Gradients are reduced over all ranks, so K
    ranks with a batch of B compute what one process computes with a batch of K x B. All ranks start with the
    variables of rank 0, the chief, and get them again at the end of each epoch.

    TensorFlow's servers execute requests of any client. If `TF_CONFIG` only has loopback addresses, only this
    machine can reach them; on several machines, keep their ports inside a private network. The ranks' own
    channel authenticates ranks with the secret of the job, from `$TENSORPACK_LITE_SECRET` or the file
    `$TENSORPACK_LITE_SECRET_FILE`.

    Only the chief has callbacks that are `chief_only`, restores `session_init`, and should write files.

    Args:
        average: whether to average the ranks' gradients; otherwise they are summed.
        compression: "fp16" sends float32 gradients as float16; None sends them unchanged.
        time_limit: seconds. Training ends with an error on every rank when one has been silent, or has kept the others
            waiting, for this long. Callbacks that only the chief has may take longer.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        local_rank, local_size: the same among the processes of this machine.
        is_chief: whether this is rank 0.
        ranks: the `RankWatch`; None in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether all ranks get the variables of rank 0 after each epoch; can be set
            before training.

    Raises:
        ValueError: `TF_CONFIG` cannot be parsed, `compression` is invalid, or the secret is shorter than 16 characters.
        OSError: the file with the secret cannot be read, or others can read it.
        RankError: a rank did not connect; during training: another rank failed, died, is silent, or does not match.

    Example:
        >>> launch_train_with_config(config, CollectiveTrainer())    # python -m tensorpack_lite.launch -n 2 script.py

    Note: a rank that waits inside TensorFlow for one that is gone cannot always be interrupted: its process
    ends with code 1. A script may train several times, each time in a new graph and with a new trainer,
    on all ranks alike.
    """

    def __init__(
        self, average: bool = True, compression: str | None = None, time_limit: float = 300.0
    ) -> None:
        if compression not in (None, "fp16"):
            raise ValueError(
                f"CollectiveTrainer: unknown compression (expected None or 'fp16', got {compression!r})."
            )
        super().__init__()
        self._average, self._compression = average, compression
        self._cluster = cluster = Cluster.from_environment()
        if cluster is not None:
            self._take_place(cluster.rank, cluster.size, cluster.local_rank, cluster.local_size)
        self._group = RankGroup(self.rank, self.size, "nccl" if get_num_gpu() else "auto")
        if cluster is not None and self.size > 1:
            self._join(cluster.watch_address, Credentials.from_environment(cluster.hosts), time_limit)
            self._group = self._group._replace(first_key=_take_keys(self.ranks.channel))  # type: ignore[union-attr]

    def _reduce(self, grads: GradVars) -> GradVars:
        return allreduce_rank_grads(grads, self._group, self._average, self._compression)

    def _mean(self, tensor: tf.Tensor) -> tf.Tensor:
        return mean_over_group(tensor, self._group)

    def _send_variables(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        return broadcast_variables(variables, self._group)

    def _prepare_session(self, session_creator: NewSessionCreator) -> None:
        """Start TensorFlow's server, and connect the session to it."""
        if self.ranks is None:
            return
        self._require_new_session(session_creator)
        cluster: Any = self._cluster
        config = session_creator.config
        config.experimental.collective_group_leader = cluster.leader
        config.device_filters.append(f"/job:{cluster.job}/task:{cluster.task_index}")
        if 1 < self.local_size <= get_num_gpu():
            config.gpu_options.visible_device_list = str(self.local_rank)
        session_creator.target = _serve(cluster, config).target
        self.ranks.channel.all_gather("starting TensorFlow's servers", cluster.addresses[self.rank])


class _Process:
    """
    State that TensorFlow keeps until this process ends: a server never frees its port or the keys of
    collective operations, so a later training uses the same server and other keys.
    """

    def __init__(self) -> None:
        self.servers: dict[str, tf.train.Server] = {}
        self.num_trainings = 0


_process = _Process()


def _take_keys(channel: RankChannel) -> int:
    """Return the first of the keys for collective operations that no training of any rank has used."""
    before = max(channel.all_gather("the number of trainings", _process.num_trainings))
    _process.num_trainings = before + 1
    return before * _KEYS_A_TRAINING


def _serve(cluster: Cluster, config: tf.ConfigProto) -> tf.train.Server:
    """Return TensorFlow's server of this process in a cluster."""
    key = repr(cluster)
    if key not in _process.servers:
        address = cluster.addresses[cluster.rank]
        port = parse_address(address)[1]
        try:
            server = tf.train.Server(
                tf.train.ClusterSpec(dict(cluster.jobs)),
                job_name=cluster.job,
                task_index=cluster.task_index,
                config=config,
                start=False,  # it already listens, on every interface, and does not answer yet
            )
        except tf.errors.OpError as error:
            raise RuntimeError(
                f"CollectiveTrainer: rank {cluster.rank} cannot listen on {address}, its address in TF_CONFIG: {error.message}. "
                "Is the port taken?"
            ) from error
        if all(map(is_loopback, cluster.hosts)):
            try:  # the server has no option for that, and does not authenticate its clients
                restrict_to_loopback(port)
            except OSError as error:
                logger.warning(
                    f"TensorFlow's server listens at port {port} of every network interface, because it "
                    f"cannot be bound to the loopback interface ({error}). Any process that reaches the port can run operations, "
                    "and read and write files as this user. Start the ranks with `python -m tensorpack_lite.launch --isolate`, "
                    "or block the port in a firewall."
                )
        server.start()
        _process.servers[key] = server
    return _process.servers[key]

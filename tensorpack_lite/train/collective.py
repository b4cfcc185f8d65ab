"""Trainer for several processes, on one or several machines, that needs only TensorFlow."""

from __future__ import annotations

import os
import socket
from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..graph_builder.collective import RankGroup, allreduce_rank_grads, broadcast_variables, mean_over_group
from ..ranks.channel import RankChannel
from ..ranks.cluster import Cluster, parse_address
from ..ranks.connecting import RankError, hold_port, reach
from ..ranks.loopback import is_loopback, restrict_to_loopback
from ..ranks.meeting import gather_machines, plan_meeting
from ..ranks.rank_info import RankInfo, port_range
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..utils import logger
from ..utils.gpu import get_num_gpu
from .rank_trainer import RankTrainer

_REACH_SECONDS = 30.0
_KEYS_A_TRAINING = 100_000  # more than the collective operations of a graph


class CollectiveTrainer(RankTrainer):
    """
    Trainer with one tower in each of several processes ("ranks"), which exchange gradients by TensorFlow's collective
    operations.

    `python -m tensorpack_lite.launch -n K script.py` starts K processes on this machine. Under `srun`, `mpirun`, `torchrun` and
    with `TF_CONFIG`, as for `tf.distribute`, this process finds its rank in the environment, and logs what it has found; without any,
    it trains alone. All processes run the same script, each with its own datapoints. Gradients are reduced over all ranks, so K
    ranks with a batch of B compute what one process computes with a batch of K x B. All ranks start with the variables of rank 0,
    the chief, and get them again at the end of each epoch.

    TensorFlow's servers execute requests of any client. If all ranks are on this machine, only this machine can reach them; on
    several machines, keep their ports inside a private network. The ranks' own channel authenticates ranks with the
    secret of the job, from `$TENSORPACK_LITE_SECRET` or the file `$TENSORPACK_LITE_SECRET_FILE`.

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
        ranks: the `RankConnection`; None in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether all ranks get the variables of rank 0 after each epoch; can be set
            before training.

    Raises:
        ValueError: `compression` or the variables of the launcher are invalid, an address or a secret is missing, or the secret is shorter
            than 16 characters.
        OSError: the file with the secret cannot be read, or others can read it.
        RankError: a rank did not connect; during training: another rank failed, died, is silent, or does not match.

    Example:
        >>> launch_train_with_config(config, CollectiveTrainer())    # python -m tensorpack_lite.launch -n 2 script.py

    Note: a rank that waits inside TensorFlow for one that is gone cannot always be interrupted: its process ends with
    code 128, as does a script that a RankError ends. A script may train several times, each time in a new graph and
    with a new trainer, on all ranks alike.
    """

    def __init__(self, average: bool = True, compression: str | None = None, time_limit: float = 300.0) -> None:
        if compression not in (None, "fp16"):
            raise ValueError(f"CollectiveTrainer: unknown compression (expected None or 'fp16', got {compression!r}).")
        super().__init__()
        self._average, self._compression = average, compression
        self._reach_within = min(_REACH_SECONDS, time_limit)
        place = self._detect()
        self._cluster: Cluster | None = None
        if place is not None:
            self._join(place, plan_meeting(place), time_limit)
            self._cluster = place.cluster or self._gather_cluster(place)
        self._group = RankGroup(self.rank, self.size, "nccl" if get_num_gpu() else "auto")
        if self.size > 1:
            self._group = self._group._replace(first_key=_take_keys(self.ranks.channel))

    def _gather_cluster(self, place: RankInfo) -> Cluster:
        """Exchange the addresses of TensorFlow's servers, and find which ranks share a machine."""
        machines = gather_machines(self.ranks.channel, _process.take_port(port_range(os.environ)))
        local = machines.local(self.rank)
        told = (place.local_rank, place.local_size)
        if None in told:
            self._take_place(self.rank, self.size, *local)
        elif told != local:
            logger.warning(
                f"{place.launcher} says that this is local rank {told[0]} of {told[1]}, and by the names of the ranks' machines it "
                f"is {local[0]} of {local[1]}. The former counts."
            )
        return machines.cluster(self.rank)

    def _reduce(self, grads: GradVars) -> GradVars:
        return allreduce_rank_grads(grads, self._group, self._average, self._compression)

    def _mean(self, tensor: tf.Tensor) -> tf.Tensor:
        return mean_over_group(tensor, self._group)

    def _send_variables(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        return broadcast_variables(variables, self._group)

    def _prepare_session(self, session_creator: NewSessionCreator) -> None:
        """Start TensorFlow's server, and connect the session to it."""
        if self.size == 1:
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
        self._reach_neighbors(cluster.addresses)

    def _reach_neighbors(self, addresses: Sequence[str]) -> None:
        """Check that the servers of the neighbors in the ring can be reached, because a step would wait for them without limit."""
        for peer in {(self.rank + 1) % self.size, (self.rank - 1) % self.size}:
            try:
                reach(parse_address(addresses[peer]), self._reach_within)
            except OSError as error:
                raise RankError(
                    f"Rank {self.rank} cannot reach rank {peer} at {addresses[peer]}: {error}. Does a firewall block this port? "
                    "TENSORPACK_RANKS_PORTS=first-last chooses the ports, unless TF_CONFIG lists them."
                ) from error


class _Process:
    """
    State that TensorFlow keeps until this process ends: a server never frees its port or the keys of
    collective operations, so a later training uses the same server and other keys.
    """

    def __init__(self) -> None:
        self.servers: dict[str, tf.train.Server] = {}
        self.num_trainings = 0
        self._held: socket.socket | None = None
        self._port: int | None = None

    def take_port(self, ports: Sequence[int] | None) -> int:
        """Return the port of the server of this process if the launcher gives none; a socket keeps it until the server has started."""
        if self._port is None:
            self._held = hold_port(ports or (0,))
            self._port = int(self._held.getsockname()[1])
        return self._port

    def release_port(self) -> None:
        """Close the socket that keeps the port, because the server has started."""
        if self._held is not None:
            self._held.close()


_process = _Process()


def _take_keys(channel: RankChannel) -> int:
    """Return the first of the keys for collective operations that no training of any rank has used."""
    before = max(channel.all_gather("the number of training runs", _process.num_trainings))
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
                f"CollectiveTrainer: rank {cluster.rank} cannot listen on {address}, its address in the cluster: {error.message}. "
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
        _process.release_port()
        _process.servers[key] = server
    return _process.servers[key]

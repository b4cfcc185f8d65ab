"""Training in several processes, on one machine or many, with nothing but TensorFlow."""

from __future__ import annotations

from typing import Any, Dict, Sequence

from ..compat import tfv1 as tf
from ..graph_builder.collective import RankGroup, allreduce_rank_grads, broadcast_variables, mean_over_group
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..utils import logger
from ..utils.cluster import Cluster, parse_address
from ..utils.gpu import get_num_gpu
from ..utils.loopback import is_loopback, restrict_to_loopback
from ..utils.rank_auth import Credentials
from ..utils.ranks import RankChannel
from .rank_trainer import RankTrainer

__all__ = ["CollectiveTrainer"]

_KEYS_A_TRAINING = 100_000  # more than a graph has collective operations


class CollectiveTrainer(RankTrainer):
    """
    Train one tower in each of several processes ("ranks"), with TensorFlow's collective operations.

    Which processes there are says `TF_CONFIG`, as for `tf.distribute`; `python -m tensorpack_lite.launch -n K script.py` starts
    K of them on this machine and sets it. Without it, this process trains alone. All run the same script. Each takes
    datapoints of its own; gradients are reduced over all ranks, so that K ranks with a batch of B do what one process does with
    K x B. All start with the variables of rank 0, the chief, and get them again at the end of each epoch.

    TensorFlow's servers run what anybody sends them. Where `TF_CONFIG` only has addresses of the loopback interface, this machine alone
    reaches them; on several machines, keep their ports inside a private network. The ranks' own channel authenticates ranks by the
    job's secret, from `$TENSORPACK_LITE_SECRET` or the file `$TENSORPACK_LITE_SECRET_FILE`.

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
        ValueError: `TF_CONFIG` cannot be understood, `compression` is another, or the secret is shorter than 16 characters.
        OSError: the file with the secret cannot be read, or others can read it.
        RankError: ranks did not come together; later: another rank failed, died, is silent, does not fit to the others.

    Example:
        >>> launch_train_with_config(config, CollectiveTrainer())    # python -m tensorpack_lite.launch -n 2 script.py

    Note: a rank that waits inside TensorFlow for one that is gone cannot always be woken: its process ends with code 1. A script may
        train several times, each time in a graph of its own and with a new trainer, on all ranks alike.

    tensorpack: new; the counterpart of HorovodTrainer.
    """

    def __init__(
        self, average: bool = True, compression: str | None = None, time_limit: float = 300.0
    ) -> None:
        if compression not in (None, "fp16"):
            raise ValueError(f"CollectiveTrainer: compression is {compression!r}, wanted None or 'fp16'.")
        super().__init__()
        self._average, self._compression = average, compression
        self._cluster = cluster = Cluster.from_environment()
        if cluster is not None:
            self._take_place(cluster.rank, cluster.size, cluster.local_rank, cluster.local_size)
        self._group = RankGroup(self.rank, self.size, "nccl" if get_num_gpu() else "auto")
        if cluster is not None and self.size > 1:
            self._join(cluster.watch_address, time_limit, Credentials.from_environment(cluster.hosts))
            self._group = self._group._replace(first_key=_take_keys(self.ranks.channel))  # type: ignore[union-attr]

    def _reduce(self, grads: GradVars) -> GradVars:
        return allreduce_rank_grads(grads, self._group, self._average, self._compression)

    def _mean(self, tensor: Any) -> Any:
        return mean_over_group(tensor, self._group)

    def _send_variables(self, variables: Sequence[Any]) -> Any:
        return broadcast_variables(variables, self._group)

    def _prepare_session(self, session_creator: NewSessionCreator) -> None:
        """Start TensorFlow's server, and let the session use it."""
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
    What TensorFlow keeps until this process ends: a server never gives its port back, nor forgets the numbers of collective
    operations. So a training after the first one uses the same server, and other numbers.
    """

    def __init__(self) -> None:
        self.servers: Dict[str, Any] = {}
        self.num_trainings = 0


_process = _Process()


def _take_keys(channel: RankChannel) -> int:
    """Give numbers for collective operations that no training of any rank has had."""
    before = max(channel.all_gather("how often they have trained", _process.num_trainings))
    _process.num_trainings = before + 1
    return before * _KEYS_A_TRAINING


def _serve(cluster: Cluster, config: Any) -> Any:
    """Return TensorFlow's server of this process in a cluster."""
    key = repr(cluster)
    if key not in _process.servers:
        address = cluster.addresses[cluster.rank]
        try:
            server = tf.train.Server(
                tf.train.ClusterSpec({job: list(addresses) for job, addresses in cluster.jobs.items()}),
                job_name=cluster.job,
                task_index=cluster.task_index,
                config=config,
                start=False,  # it listens already, on every interface, and answers nobody yet
            )
        except tf.errors.OpError as error:
            raise RuntimeError(
                f"CollectiveTrainer: rank {cluster.rank} cannot serve at {address}, its address in TF_CONFIG: {error.message}. Is the "
                "port taken?"
            ) from error
        if all(map(is_loopback, cluster.hosts)):
            _keep_to_this_machine(parse_address(address)[1])
        server.start()
        _process.servers[key] = server
    return _process.servers[key]


def _keep_to_this_machine(port: int) -> None:
    """Let only this machine reach TensorFlow's server, which has no option for that and does not ask who connects."""
    try:
        restrict_to_loopback(port)
    except OSError as error:
        logger.warning(
            f"TensorFlow's server listens at port {port} of every network interface, because it cannot be bound to the loopback "
            f"interface ({error}). Whoever reaches the port can run operations, and read and write files as this user. Start "
            "the ranks with `python -m tensorpack_lite.launch --isolate`, or block the port by a firewall."
        )

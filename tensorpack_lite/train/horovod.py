"""Trainer for several processes, on one or several machines, over Horovod."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import socket
import sys
from types import ModuleType
from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..graph_builder.horovod import allreduce_horovod_grads, broadcast_horovod_variables
from ..ranks.authentication import Credentials
from ..ranks.channel import RankChannel
from ..ranks.cluster import format_address, free_ports, parse_address
from ..ranks.connecting import RankError
from ..ranks.gloo import serve_gloo
from ..ranks.meeting import Meeting, plan_meeting
from ..ranks.rank_info import RankInfo
from ..ranks.rendezvous import RendezvousStore
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..utils import logger
from ..utils.secret import find_job_secret, make_secret
from .rank_trainer import RankTrainer

_SCOPE, _KEY = "tensorpack_lite", "ranks_address"
_LONGEST_ANNOUNCEMENT = 400
_SHUTDOWN_SECONDS = 3.0


class HorovodTrainer(RankTrainer):
    """
    Trainer with one tower in each of several processes ("ranks"), which exchange gradients by Horovod.

    `python -m tensorpack_lite.launch -n K script.py`, or `horovodrun --gloo -np K python script.py`, starts K of
    them, as do `srun`, `mpirun` and `torchrun`; without a launcher, the script trains in one process. All processes
    run the same script, each with its own datapoints. Gradients are reduced over all ranks, so K ranks with a batch
    of B compute what one process computes with a batch of K x B. All ranks start with the variables of rank 0, the
    chief, and get them again at the end of each epoch.

    Only the chief has callbacks that are `chief_only`, restores `session_init`, and should write files.

    Args:
        average: whether to average the ranks' gradients; otherwise they are summed.
        compression: "fp16", or a member of `hvd.Compression`. None sends gradients unchanged.
        time_limit: seconds. Training ends with an error on every rank when one has been silent, or has kept the others
            waiting, for this long. Callbacks that only the chief has may take longer.

    Attributes:
        hvd: the module `horovod.tensorflow`.
        rank: number of this process, from 0.
        size: number of processes.
        local_rank, local_size: the same among the processes of this machine.
        is_chief: whether this is rank 0.
        ranks: the `RankConnection`; None in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether all ranks get the variables of rank 0 after each epoch; can be set
            before training.

    Raises:
        ImportError: Horovod is not installed, or was built for another TensorFlow; names the command that builds it.
        ValueError: `compression` or the variables of the launcher are invalid; in `initialize`: the session creator is not a NewSessionCreator.
        RankError: a rank did not connect; during training: another rank failed, died, is silent, or does not match.

    Example:
        >>> launch_train_with_config(config, HorovodTrainer())    # python -m tensorpack_lite.launch -n 2 script.py

    Note: a rank that waits inside Horovod for one that is gone cannot always be interrupted: its process ends
    with code 128.

    Difference from tensorpack: tensorpack 0.11 waits without limit for a rank that is gone or has another
    graph. This library ends training on all ranks with an error that names the rank.
    """

    def __init__(self, average: bool = True, compression: Any = None, time_limit: float = 300.0) -> None:
        super().__init__()
        self.hvd = _import_horovod()
        if isinstance(compression, str):
            if compression != "fp16":
                raise ValueError(
                    f"HorovodTrainer: unknown compression (expected None, 'fp16' or a member of hvd.Compression, got {compression!r})."
                )
            compression = self.hvd.Compression.fp16
        self._average, self._compression = average, compression
        # Horovod's own timeouts come after `time_limit`, unless the user has set them.
        # HOROVOD_STALL_SHUTDOWN_TIME_SECONDS stays off: it would end a training whose chief evaluates for
        # longer.
        os.environ.setdefault("HOROVOD_STALL_CHECK_TIME_SECONDS", str(max(60, int(time_limit))))
        os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(time_limit) + 30))
        place = self._detect()
        meeting = None if place is None else self._find_meeting(place, time_limit)
        if place is not None and meeting is not None:
            # The ranks connect before Horovod starts, so that an error names a missing one.
            self._join(place, meeting, time_limit)
        with self._reporting("starting Horovod"):
            hvd = self.hvd
            if self.ranks.size > 1 and not hvd.mpi_built() and "HOROVOD_RANK" not in os.environ:
                variables, server = serve_gloo(self.ranks.channel)
                os.environ.update(variables)
                if server is not None:
                    atexit.register(server.stop)
            hvd.init()
            if place is not None and hvd.size() != place.size:
                raise RankError(
                    f"{place.launcher} started {place.size} ranks, and Horovod sees {hvd.size()}: it was built without MPI, or for "
                    "another MPI. Use CollectiveTrainer, or start the ranks with `horovodrun --gloo`."
                )
            self._take_place(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())
            if self.size > self.ranks.size:
                own = RankInfo(self.rank, self.size, "Horovod", "", self.local_rank, self.local_size)
                self._join(place or own, _hear_meeting(hvd), time_limit)
        if self.size > 1:  # runs before the function that Horovod registered
            atexit.register(_end_in_time, self.ranks.channel)

    @property
    def _rank(self) -> int:
        return self.rank

    @property
    def _local_rank(self) -> int:
        return self.local_rank

    def mpi_enabled(self) -> bool:
        """Return whether Horovod runs over MPI, whose processes should not be forked."""
        return bool(self.hvd.mpi_enabled())

    def _find_meeting(self, place: RankInfo, time_limit: float) -> Meeting | None:
        """Return where the ranks meet before Horovod starts; None if Horovod's MPI tells it afterwards."""
        if place.launcher == "TF_CONFIG" and "HOROVOD_RANK" in place.ignored:
            raise ValueError(
                f"HorovodTrainer: TF_CONFIG and HOROVOD_RANK disagree (rank {place.rank} of {place.size}, and "
                f"{os.environ['HOROVOD_RANK']} of {os.environ.get('HOROVOD_SIZE')}). Unset the variables of one of them."
            )
        in_store = _ask_store(place.rank, time_limit)
        if in_store is None and place.launcher in ("mpirun", "mpiexec") and self.hvd.mpi_built():
            return None
        return in_store or plan_meeting(place)

    # The engine ------------------------------------------------------------------------------------------------------
    def _reduce(self, grads: GradVars) -> GradVars:
        return allreduce_horovod_grads(grads, self.hvd, self._average, self._compression)

    def _mean(self, tensor: tf.Tensor) -> tf.Tensor:
        return self.hvd.allreduce(tensor, op=self.hvd.Average)

    def _send_variables(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        return broadcast_horovod_variables(variables, self.hvd)

    def _prepare_session(self, session_creator: NewSessionCreator) -> None:
        """Assign each rank of a machine one GPU and its share of the threads."""
        self._require_new_session(session_creator)
        config = session_creator.config
        config.gpu_options.visible_device_list = str(self.local_rank)
        config.inter_op_parallelism_threads = max(1, multiprocessing.cpu_count() // self.local_size)


def _import_horovod() -> ModuleType:
    if "pyarrow" in sys.modules:
        logger.warning(
            "HorovodTrainer: pyarrow is already imported. Some builds of pyarrow and Horovod crash together."
        )
    try:
        import horovod.tensorflow as hvd

        return hvd
    except Exception as error:  # ImportError, or its own for a TensorFlow it was not built for
        raise ImportError(
            f"HorovodTrainer: cannot import Horovod, which must be built for the installed TensorFlow: {error}. Run: "
            "python -m tensorpack_lite.contrib.install_horovod. Or use CollectiveTrainer, which needs only TensorFlow."
        ) from error


def _end_in_time(channel: RankChannel) -> None:
    """At exit after a failure, end the process after a few seconds: Horovod's shutdown may wait for ranks that are gone."""
    if channel.failure is not None:
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (used until the process ends)
        faulthandler.dump_traceback_later(_SHUTDOWN_SECONDS, exit=True, file=nowhere)


# The address of the ranks' channel ----------------------------------------------------------------------------------------------------
def _ask_store(rank: int, time_limit: float) -> Meeting | None:
    """Find the ranks' channel through the store of Gloo's rendezvous; None if there is no store."""
    host, port = (os.environ.get(f"HOROVOD_GLOO_RENDEZVOUS_{what}", "") for what in ("ADDR", "PORT"))
    if not host or not port.isdecimal():
        return None
    store = RendezvousStore(host, int(port), _SCOPE)
    secret = "" if find_job_secret() else make_secret()
    try:
        announced = store.get(_KEY) if rank == 0 else store.wait(_KEY, time_limit)
        # An address of an earlier training stays, because other ranks may have read it already.
        if announced is None and rank == 0:
            announced = _announce(_own_host_towards(host, int(port)), secret)
            store.put(_KEY, announced)
    except OSError as error:
        raise RankError(
            f"Rank {rank} cannot reach the rendezvous server of Horovod at {host}:{port}: {error}."
        ) from error
    if announced is None:
        raise RankError(f"Rank {rank} waited for rank 0, which did not start within {time_limit:g} s.")
    return _read_announcement(announced)


def _hear_meeting(hvd: ModuleType) -> Meeting:
    """Find the ranks' channel by a broadcast over Horovod itself: for mpirun, which has no store."""
    host = "127.0.0.1" if hvd.size() == hvd.local_size() else socket.gethostname()
    text = _announce(host, "" if find_job_secret() else make_secret())
    config = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        mine = tf.constant(list(text.ljust(_LONGEST_ANNOUNCEMENT).encode("utf-8")), tf.uint8)
        told = session.run(hvd.broadcast(mine, root_rank=0, name=_KEY, ignore_name_scope=True))
    return _read_announcement(bytes(told).decode("utf-8"))


def _announce(host: str, secret: str) -> str:
    """Return the announcement of rank 0: the address, and a secret if the environment has none."""
    address = os.environ.get("TENSORPACK_RANKS_ADDRESS")
    return f"{address or format_address(host, free_ports(1, host)[0])} {secret}"


def _read_announcement(text: str) -> Meeting:
    address, _, secret = text.strip().partition(" ")
    return Meeting(parse_address(address), Credentials(find_job_secret() or secret))


def _own_host_towards(host: str, port: int) -> str:
    """Return the address of this machine on the way to a host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))  # sends nothing
        return str(probe.getsockname()[0])

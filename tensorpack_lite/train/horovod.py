"""Training in several processes, on one machine or many, over Horovod."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import socket
import sys
from typing import Any, Sequence, Tuple

from ..compat import tfv1 as tf
from ..graph_builder.horovod import allreduce_horovod_grads, broadcast_horovod_variables
from ..tfutils.gradproc import GradVars
from ..tfutils.sesscreate import NewSessionCreator
from ..utils import logger
from ..utils.cluster import free_ports, given_watch_address, parse_address
from ..utils.rank_auth import Credentials
from ..utils.ranks import RankChannel, RankError
from ..utils.rendezvous import RendezvousStore
from ..utils.secret import find_job_secret, make_secret
from .rank_trainer import RankTrainer

__all__ = ["HorovodTrainer"]

_SCOPE, _KEY = "tensorpack_lite", "ranks_address"
_LONGEST_ANNOUNCEMENT = 400
_SHUTDOWN_SECONDS = 3.0
_Meeting = Tuple[Tuple[str, int], Credentials]  # the address of the ranks' channel, and what lets a rank in


class HorovodTrainer(RankTrainer):
    """
    Train one tower in each of several processes ("ranks"), over Horovod.

    `python -m tensorpack_lite.launch -n K script.py`, or `horovodrun --gloo -np K python script.py`, starts K of them; alone,
    a script trains in one. All run the same script. Each takes datapoints of its own; gradients are reduced over all ranks, so that
    K ranks with a batch of B do what one process does with K x B. All start with the variables of rank 0, the chief, and get them
    again at the end of each epoch.

    Only the chief has callbacks that are `chief_only`, restores `session_init`, and should write files.

    Args:
        average: the mean of the ranks' gradients; else their sum.
        compression: "fp16", or a member of `hvd.Compression`: how gradients are sent. None sends what there is.
        time_limit: seconds. Training ends with an error on every rank when one has not been heard of for so long, or has kept the
            others waiting for so long. A callback that only the chief has may take longer.

    Attributes:
        hvd: the module `horovod.tensorflow`.
        rank: the number of this process, from 0.
        size: how many processes there are.
        local_rank, local_size: the same among the processes of this machine.
        is_chief: whether this is rank 0.
        ranks: the `RankWatch`; None in a process that trains alone.
        BROADCAST_EVERY_EPOCH: whether ranks get rank 0's variables after each epoch; can be set before training.

    Raises:
        ImportError: Horovod is not installed, or was built for another TensorFlow; names the command that builds it.
        ValueError: `compression` is another; later: the session creator is no NewSessionCreator.
        RankError: ranks did not come together; later: another rank failed, died, is silent, does not fit to the others.

    Example:
        >>> launch_train_with_config(config, HorovodTrainer())    # python -m tensorpack_lite.launch -n 2 script.py

    Note: a rank that waits inside Horovod for one that is gone cannot always be woken: its process ends with code 1.

    tensorpack: same; there a rank that is gone or differs leaves the others waiting, and the compression "fp16" is unknown.
    """

    def __init__(self, average: bool = True, compression: Any = None, time_limit: float = 300.0) -> None:
        super().__init__()
        self.hvd = _import_horovod()
        self._average, self._compression = average, self._find_compression(compression)
        _be_patient(time_limit)
        place = _place_in_environment()
        if place is not None:
            # All come together before Horovod does: who is missing is told by name.
            self._take_place(*place)
            meeting = _find_meeting(self.rank, time_limit) if self.size > 1 else None
            if meeting is not None:
                self._join(meeting[0], time_limit, meeting[1])
        with self._reporting("starting Horovod"):
            hvd = self.hvd
            hvd.init()
            self._take_place(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())
            if self.size > 1 and self.ranks is None:
                address, credentials = _hear_meeting(hvd)
                self._join(address, time_limit, credentials)
        if self.ranks is not None:
            atexit.register(_end_in_time, self.ranks.channel)  # after Horovod's own, so it runs before that

    @property
    def _rank(self) -> int:
        return self.rank

    @property
    def _local_rank(self) -> int:
        return self.local_rank

    def mpi_enabled(self) -> bool:
        """Whether Horovod runs over MPI, whose processes should not be forked."""
        return bool(self.hvd.mpi_enabled())

    def _find_compression(self, compression: Any) -> Any:
        if isinstance(compression, str):
            if compression != "fp16":
                raise ValueError(
                    f"HorovodTrainer: compression is {compression!r}, wanted None, 'fp16' or a member of hvd.Compression."
                )
            return self.hvd.Compression.fp16
        return compression

    # What the engine does --------------------------------------------------------------------------------------------
    def _reduce(self, grads: GradVars) -> GradVars:
        return allreduce_horovod_grads(grads, self.hvd, self._average, self._compression)

    def _mean(self, tensor: Any) -> Any:
        return self.hvd.allreduce(tensor, op=self.hvd.Average)

    def _send_variables(self, variables: Sequence[Any]) -> Any:
        return broadcast_horovod_variables(variables, self.hvd)

    def _prepare_session(self, session_creator: NewSessionCreator) -> None:
        """Give each rank of a machine a GPU of its own and its share of the threads."""
        self._require_new_session(session_creator)
        config = session_creator.config
        config.gpu_options.visible_device_list = str(self.local_rank)
        config.inter_op_parallelism_threads = max(1, multiprocessing.cpu_count() // self.local_size)


def _import_horovod() -> Any:
    if "pyarrow" in sys.modules:
        logger.warning(
            "HorovodTrainer: pyarrow is imported already. Some builds of it and of Horovod crash together."
        )
    try:
        import horovod.tensorflow as hvd

        return hvd
    except Exception as error:  # ImportError, or its own for a TensorFlow it was not built for
        raise ImportError(
            f"HorovodTrainer: needs Horovod, built for the TensorFlow that is installed, and importing it gives: {error}. Run: "
            "python -m tensorpack_lite.contrib.install_horovod. CollectiveTrainer needs nothing but TensorFlow."
        ) from error


def _be_patient(time_limit: float) -> None:
    """
    Let the ranks' own watch speak before Horovod does, unless the user set something.

    Horovod's own end of a stall, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, stays off: it knows nothing of a chief that evaluates for
    hours while the others wait, rightly.
    """
    os.environ.setdefault("HOROVOD_STALL_CHECK_TIME_SECONDS", str(max(60, int(time_limit))))
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(time_limit) + 30))


def _end_in_time(channel: RankChannel) -> None:
    """At exit after a failure: Horovod's shutdown waits for ranks that may never come, and is given a few seconds."""
    if channel.failure is not None:
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (needed until the process ends)
        faulthandler.dump_traceback_later(_SHUTDOWN_SECONDS, exit=True, file=nowhere)


# Where ranks meet ----------------------------------------------------------------------------------------------------
def _place_in_environment() -> tuple[int, ...] | None:
    """What a launcher for Gloo says of this rank: rank, size, local rank, local size."""
    names = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")
    values = [os.environ.get(name, "") for name in names]
    return tuple(map(int, values)) if all(value.isdigit() for value in values) else None


def _find_meeting(rank: int, time_limit: float) -> _Meeting | None:
    """
    Find where ranks meet: through the store in which Gloo's processes find each other, else from the environment.

    Returns:
        The address of the ranks' channel and what lets a rank in; None if there is neither.
    """
    host, port = (os.environ.get(f"HOROVOD_GLOO_RENDEZVOUS_{what}", "") for what in ("ADDR", "PORT"))
    given = given_watch_address()
    if not host or not port.isdecimal():
        return None if given is None else (given, Credentials.from_environment())
    store = RendezvousStore(host, int(port), _SCOPE)
    secret = "" if find_job_secret() else make_secret()
    try:
        announced = store.get(_KEY) if rank == 0 else store.wait(_KEY, time_limit)
        # What is there already is of an earlier training. It stays, because the others may have seen it.
        if announced is None and rank == 0:
            announced = _announce(given, _own_host_towards(host, int(port)), secret)
            store.put(_KEY, announced)
    except OSError as error:
        raise RankError(
            f"Rank {rank} cannot reach the store where Horovod's processes find each other, {host}:{port}: {error}."
        ) from error
    if announced is None:
        raise RankError(f"Rank {rank} waited for rank 0, which did not come within {time_limit:g} s.")
    return _read_announcement(announced)


def _hear_meeting(hvd: Any) -> _Meeting:
    """Hear from rank 0, through Horovod itself, where ranks meet: for mpirun, which has no store."""
    host = "127.0.0.1" if hvd.size() == hvd.local_size() else socket.gethostname()
    text = _announce(given_watch_address(), host, "" if find_job_secret() else make_secret())
    config = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        mine = tf.constant(list(text.ljust(_LONGEST_ANNOUNCEMENT).encode("utf-8")), tf.uint8)
        told = session.run(hvd.broadcast(mine, root_rank=0, name=_KEY, ignore_name_scope=True))
    return _read_announcement(bytes(told).decode("utf-8"))


def _announce(given: tuple[str, int] | None, host: str, secret: str) -> str:
    """Return what rank 0 tells the others: the address, and a secret where the environment has none."""
    host, port = given or (host, free_ports(1, host)[0])
    return f"{host}:{port} {secret}"


def _read_announcement(text: str) -> _Meeting:
    address, _, secret = text.strip().partition(" ")
    return parse_address(address), Credentials(find_job_secret() or secret)


def _own_host_towards(host: str, port: int) -> str:
    """The address under which that host sees this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))  # sends nothing
        return str(probe.getsockname()[0])

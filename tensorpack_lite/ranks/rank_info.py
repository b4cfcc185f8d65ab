"""
The place of this process among the ranks of a training, from the variables that launchers set.

`find_rank_info` reads nothing but the environment. Sections of docs/several_machines.md show what each launcher sets.
"""

from __future__ import annotations

import hashlib
from typing import Mapping, NamedTuple

from ..utils.own_rank import GivenRank, list_given_ranks
from .cluster import Cluster, parse_address
from .loopback import is_loopback
from .node_list import expand_counts, expand_node_list

_ADDRESS, _PORTS = "TENSORPACK_RANKS_ADDRESS", "TENSORPACK_RANKS_PORTS"
_RESTARTS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "TENSORPACK_RANKS_RESTART")
_LOCAL_HOST = "127.0.0.1"
_FIRST_PORT, _LAST_PORT = 20000, 27999  # below the kernel's ephemeral ports
_NUM_PORTS = 8


class RankInfo(NamedTuple):
    """
    The place of a process among the ranks of a training.

    Attributes:
        rank: its number, from 0.
        size: the number of ranks.
        launcher: the program that has started it, such as "srun", or the variable that lists the ranks.
        job: a name that all ranks of this attempt have, and no other job.
        local_rank, local_size: the same as rank and size among the ranks of this machine; None if they are not known.
        host: the host of rank 0; an empty string if it is not known.
        ports: the ports of rank 0's machine at which the ranks may meet.
        hosts: the hosts of the ranks, in any order; empty if they are not known.
        rank_hosts: the host of each rank; empty if it is not known which rank is on which host.
        details: what the launcher calls this job, in words.
        restart: how often the job was started again, as far as it is known.
        ignored: variables of other launchers, which have another rank or size.
        cluster: the cluster of `TF_CONFIG`; None if there is none.
    """

    rank: int
    size: int
    launcher: str
    job: str = ""
    local_rank: int | None = None
    local_size: int | None = None
    host: str = ""
    ports: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    rank_hosts: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    restart: int = 0
    ignored: tuple[str, ...] = ()
    cluster: Cluster | None = None

    @property
    def is_on_one_machine(self) -> bool:
        """Whether all ranks are known to be on this machine."""
        return self.local_size == self.size or is_loopback(self.host)

    @property
    def variables(self) -> str:
        """The variables from which the place is known, in words."""
        return self.launcher if self.launcher.isupper() else f"{self.launcher}'s variables"

    def describe(self, host_name: str) -> str:
        """Return a sentence with the rank, the name of its machine and its launcher."""
        is_known = self.local_rank is not None and self.local_size is not None
        local = f" (local {self.local_rank} of {self.local_size})" if is_known else ""
        details = [*self.details, *([f"restart {self.restart}"] if self.restart else [])]
        origin = f"according to {self.launcher}" if self.launcher.isupper() else f"started by {self.launcher}"
        job = f" ({', '.join(details)})" if details else ""
        return f"Rank {self.rank} of {self.size}{local} on {host_name}, {origin}{job}."


def find_rank_info(environ: Mapping[str, str]) -> RankInfo | None:
    """
    Find the place of a process.

    Args:
        environ: its variables. The first source of `own_rank.list_given_ranks` counts.

    Returns:
        The place, which may be the only one (size 1) beside variables of other launchers; None if nothing has started this process
        together with others, or if `TENSORPACK_RANKS_SIZE` is 1.

    Raises:
        ValueError: the variables are not valid, or an address is missing; names them and what to set.
    """
    if environ.get("TENSORPACK_RANKS_SIZE", "").strip() == "1":
        return None
    found = list(list_given_ranks(environ))
    is_explicit = bool(found) and found[0].launcher == "TENSORPACK_RANK"
    cluster = None if is_explicit else Cluster.from_environment(environ)  # reports what is wrong in TF_CONFIG
    if not found:
        return None
    first, *later = found
    place = _READERS[first.launcher](first, environ)
    if cluster is not None:
        place = _read_cluster(place, cluster)
    ignored = [source.source for source in later if (source.rank, source.size) != (place.rank, place.size)]
    return _with_address(place._replace(ignored=tuple(ignored), restart=find_restart(environ)), environ)


def find_remark(environ: Mapping[str, str]) -> str:
    """Return a warning for a process that trains alone although it may have been meant to be a rank; else an empty string."""
    tasks = environ.get("SLURM_NTASKS", "")
    is_in_step = "SLURM_STEP_ID" in environ or environ.get("TENSORPACK_RANKS_SIZE", "").strip() == "1"
    if is_in_step or "SLURM_JOB_ID" not in environ or not tasks.isdigit() or int(tasks) < 2:
        return ""
    return (
        f"SLURM allocated {tasks} tasks, but this process was not started by srun, so it trains alone. To use them: srun python "
        "train.py"
    )


def find_restart(environ: Mapping[str, str]) -> int:
    """Return how often the launcher has started this job again, as far as its variables tell."""
    return max(_integer(environ, name) or 0 for name in _RESTARTS)


def port_range(environ: Mapping[str, str]) -> range | None:
    """
    Return the ports of `TENSORPACK_RANKS_PORTS`, or None if it is not set.

    Raises:
        ValueError: it is not `first-last`.
    """
    text = environ.get(_PORTS, "").strip()
    first, _, last = text.partition("-")
    if text and not (first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 1 << 16):
        raise ValueError(f"{_PORTS}: expected two ports, such as 20000-20099, got '{text}'.")
    return range(int(first), int(last) + 1) if text else None


# Each launcher -----------------------------------------------------------------------------------------------------------
def _read_explicit(rank: GivenRank, environ: Mapping[str, str]) -> RankInfo:
    address = environ.get(_ADDRESS, "")
    if not address and rank.size != 1:
        raise ValueError(
            f"{rank.source}={rank.rank} is set, but not where the ranks meet. Set {_ADDRESS}=host:port, the host of rank 0 and a "
            "free port there, the same for all ranks."
        )
    return _make(rank, f"{address} {rank.size}")


def _read_torchrun(rank: GivenRank, environ: Mapping[str, str]) -> RankInfo:
    run, port = environ.get("TORCHELASTIC_RUN_ID", ""), environ.get("MASTER_PORT", "")
    has_agent = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # which listens at this port
    return _make(rank, f"torchrun {run} {port} {rank.size}")._replace(
        host=environ.get("MASTER_ADDR", ""),
        local_rank=_integer(environ, "LOCAL_RANK"),
        # without a port the job has no name, so its ranks cannot look for each other on this machine
        local_size=_integer(environ, "LOCAL_WORLD_SIZE") if port else None,
        ports=() if has_agent or not port.isdigit() else (int(port),),
        details=(f"run {run}",) if run else (),
    )


def _read_horovodrun(rank: GivenRank, environ: Mapping[str, str]) -> RankInfo:
    server = [environ.get(f"HOROVOD_GLOO_RENDEZVOUS_{what}", "") for what in ("ADDR", "PORT")]
    return _make(rank, f"horovodrun {':'.join(server)}")._replace(
        local_rank=_integer(environ, "HOROVOD_LOCAL_RANK"), local_size=_integer(environ, "HOROVOD_LOCAL_SIZE")
    )


def _read_open_mpi(rank: GivenRank, environ: Mapping[str, str]) -> RankInfo:
    job = environ.get("PMIX_NAMESPACE") or f"{environ.get(_ADDRESS, '')} {rank.size}"
    nodes = expand_node_list(environ.get("SLURM_JOB_NODELIST", ""))
    return _make(rank, f"mpirun {job}", *nodes)._replace(
        local_rank=_integer(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size=_integer(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
    )


def _read_mpich(rank: GivenRank, environ: Mapping[str, str]) -> RankInfo:
    job = _slurm_job(environ) if "SLURM_JOB_ID" in environ else f"{environ.get(_ADDRESS, '')} {rank.size}"
    nodes = expand_node_list(environ.get("SLURM_JOB_NODELIST", ""))
    return _make(rank, job, *nodes)._replace(
        local_rank=_integer(environ, "MPI_LOCALRANKID"), local_size=_integer(environ, "MPI_LOCALNRANKS")
    )


def _read_srun(rank: GivenRank, environ: Mapping[str, str]) -> RankInfo:
    if (_integer(environ, "SLURM_HET_SIZE") or 1) > 1:
        raise ValueError(
            "srun: heterogeneous jobs are not supported (expected SLURM_HET_SIZE=1, got "
            f"{environ['SLURM_HET_SIZE']}). Submit one job whose nodes are alike, or set TENSORPACK_RANK for each task."
        )
    counts = expand_counts(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = _integer(environ, "SLURM_NODEID")
    nodes = expand_node_list(environ.get("SLURM_STEP_NODELIST", ""))
    # then the first node has the first ranks
    in_blocks = environ.get("SLURM_DISTRIBUTION", "block").startswith("block")
    return _make(rank, _slurm_job(environ), *nodes)._replace(
        rank_hosts=tuple(n for n, count in zip(nodes, counts) for _ in range(count)) if in_blocks else (),
        local_rank=_integer(environ, "SLURM_LOCALID"),
        local_size=None if node is None or node >= len(counts) else counts[node],
        details=(f"job {environ.get('SLURM_JOB_ID')}", f"step {environ['SLURM_STEP_ID']}"),
    )


_READERS = {
    "TENSORPACK_RANK": _read_explicit,
    "TF_CONFIG": lambda rank, environ: _make(rank, ""),
    "torchrun": _read_torchrun,
    "horovodrun": _read_horovodrun,
    "mpirun": _read_open_mpi,
    "mpiexec": _read_mpich,
    "srun": _read_srun,
    "Kubernetes": _read_explicit,
}


def _read_cluster(place: RankInfo, cluster: Cluster) -> RankInfo:
    return place._replace(
        job=" ".join(cluster.addresses),
        local_rank=cluster.local_rank,
        local_size=cluster.local_size,
        host=cluster.watch_address[0],
        ports=cluster.watch_address[1:],
        hosts=tuple(cluster.hosts),
        rank_hosts=tuple(cluster.hosts),
        cluster=cluster,
    )


# Shared parts ----------------------------------------------------------------------------------------------------------
def _make(rank: GivenRank, job: str, *hosts: str) -> RankInfo:
    return RankInfo(rank.rank, rank.size or 1, rank.launcher, job, host=hosts[0] if hosts else "", hosts=hosts)


def _slurm_job(environ: Mapping[str, str]) -> str:
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    return " ".join(["slurm", *(environ.get(name, "") for name in names)])


def _with_address(place: RankInfo, environ: Mapping[str, str]) -> RankInfo:
    """Add the host of rank 0 and the ports at which the ranks may meet."""
    address, ports = environ.get(_ADDRESS), port_range(environ)
    if address:
        try:
            host, port = parse_address(address)
        except ValueError as error:
            raise ValueError(f"{_ADDRESS}: {error}.") from None
        return place._replace(host=host, ports=(port,))
    has_job = place.launcher != "mpiexec" or "SLURM_JOB_ID" in environ  # MPICH does not name its jobs
    if place.local_size == place.size and place.cluster is None and has_job:
        place = place._replace(host=_LOCAL_HOST)
    if ports is not None:
        return place._replace(ports=_candidates(place.job, ports))
    if place.ports and place.cluster is None:  # the port of the launcher
        return place
    return place._replace(ports=(*place.ports, *_candidates(place.job))[:_NUM_PORTS])


def _candidates(job: str, ports: range = range(_FIRST_PORT, _LAST_PORT + 1)) -> tuple[int, ...]:
    """Return ports of a range that depend on the name of the job."""
    found: dict[int, None] = {}
    number = 0
    while len(found) < min(_NUM_PORTS, len(ports)):
        digest = hashlib.sha256(f"{job} {number}".encode("utf-8", "surrogateescape")).digest()
        found[ports[int.from_bytes(digest[:8], "big") % len(ports)]] = None
        number += 1
    return tuple(found)


def _integer(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "").strip()
    return int(text) if text.isdigit() else None

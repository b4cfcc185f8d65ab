"""Which processes train together, and which of them this one is: the convention of `TF_CONFIG`."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Mapping, NamedTuple

__all__ = ["Cluster", "free_ports", "given_rank", "given_watch_address", "parse_address"]

_JOBS = ("chief", "worker")  # in the order of ranks; rank 0 is the chief
_IGNORED_JOBS = ("evaluator",)


class Cluster(NamedTuple):
    """
    The processes of one training.

    Args:
        jobs: job -> addresses `host:port` of its tasks; only the jobs "chief" and "worker".
        job: the job of this process.
        task_index: its number in this job.

    tensorpack: new.
    """

    jobs: Mapping[str, list]
    job: str
    task_index: int

    @property
    def addresses(self) -> list[str]:
        """The addresses of all tasks, in the order of ranks."""
        return [address for job in _JOBS for address in self.jobs.get(job, [])]

    @property
    def hosts(self) -> list[str]:
        """The hosts of all tasks, in the order of ranks."""
        return [_host(address) for address in self.addresses]

    @property
    def size(self) -> int:
        """How many processes there are."""
        return len(self.addresses)

    @property
    def rank(self) -> int:
        """The number of this process; 0 is the chief."""
        return self.task_index + (len(self.jobs.get("chief", [])) if self.job == "worker" else 0)

    @property
    def local_rank(self) -> int:
        """The number of this process among those with the same host."""
        return self.hosts[: self.rank].count(self.hosts[self.rank])

    @property
    def local_size(self) -> int:
        """How many processes have the host of this one."""
        return self.hosts.count(self.hosts[self.rank])

    @property
    def leader(self) -> str:
        """TensorFlow's name of the task that is rank 0."""
        return f"/job:{'chief' if self.jobs.get('chief') else 'worker'}/replica:0/task:0"

    @property
    def watch_address(self) -> tuple[str, int]:
        """
        Where ranks tell each other how they are: `$TENSORPACK_RANKS_ADDRESS`, or on the chief's host the lowest port above
        its own that no task of the cluster has.
        """
        given = given_watch_address()
        if given is not None:
            return given
        taken = {_port(address) for address in self.addresses}
        port = _port(self.addresses[0]) + 1
        while port in taken:
            port += 1
        return _host(self.addresses[0]), port

    @staticmethod
    def from_environment() -> Cluster | None:
        """
        Read `$TF_CONFIG`.

        Returns:
            The cluster; None without that variable, or when it names no cluster.

        Raises:
            ValueError: it cannot be understood, or has parameter servers.
        """
        text = os.environ.get("TF_CONFIG", "")
        if not text.strip():
            return None
        try:
            config = json.loads(text)
            jobs, task = config.get("cluster", {}), config.get("task", {})
            wrong = sorted(set(jobs) - set(_JOBS) - set(_IGNORED_JOBS))
            cluster = Cluster(
                {job: [str(a) for a in jobs[job]] for job in _JOBS if job in jobs},
                str(task.get("type", "worker")),
                int(task.get("index", 0)),
            )
            ports = [_port(address) for address in cluster.addresses]
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"TF_CONFIG is not as TensorFlow wants it ({error}): {text}. {_EXAMPLE}"
            ) from error
        if not jobs:
            return None
        if wrong:
            raise ValueError(f"TF_CONFIG has the jobs {wrong}, wanted only chief and worker. {_EXAMPLE}")
        if cluster.job not in cluster.jobs or not 0 <= cluster.task_index < len(cluster.jobs[cluster.job]):
            raise ValueError(
                f"TF_CONFIG: this task is {cluster.job} {cluster.task_index}, which its cluster does not have: {text}. {_EXAMPLE}"
            )
        if len(cluster.jobs.get("chief", [])) > 1 or not ports:
            raise ValueError(f"TF_CONFIG wants one chief at most, and one task at least: {text}. {_EXAMPLE}")
        return cluster


def given_watch_address() -> tuple[str, int] | None:
    """
    Read `$TENSORPACK_RANKS_ADDRESS`: where ranks tell each other how they are; None if it is not set.

    Raises:
        ValueError: it is no `host:port`.
    """
    given = os.environ.get("TENSORPACK_RANKS_ADDRESS")
    return parse_address(given) if given else None


def given_rank() -> int | None:
    """Read which of several processes this one is, from `$HOROVOD_RANK` or `$TF_CONFIG`; None if neither tells."""
    rank = os.environ.get("HOROVOD_RANK", "")
    if rank.isdigit():
        return int(rank)
    try:
        cluster = Cluster.from_environment()
    except ValueError:  # an error only for who trains over it
        return None
    return None if cluster is None else cluster.rank


def parse_address(text: str) -> tuple[str, int]:
    """
    Take `host:port` apart.

    Raises:
        ValueError: it is not of this form.
    """
    port = _port(text)
    return _host(text), port


def free_ports(number: int, host: str = "127.0.0.1") -> list[int]:
    """
    Find ports of this machine that nobody listens on.

    Args:
        number: how many.
        host: the address they are for.

    Returns:
        Distinct ports. Somebody else may take one before it is used.
    """
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _port(address: Any) -> int:
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"'{address}' is no address, wanted host:port")
    return int(port)


_EXAMPLE = (
    'It looks like {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}; '
    "`python -m tensorpack_lite.launch` sets it."
)

"""The processes of a training and the rank of this one, as `TF_CONFIG` lists them."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from typing import Mapping, NamedTuple

_JOBS = ("chief", "worker")  # in the order of ranks; rank 0 is the chief
_EXAMPLE = (
    'Example: {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}; '
    "`python -m tensorpack_lite.launch` sets it."
)


class Cluster(NamedTuple):
    """
    The processes of one training.

    Args:
        jobs: job -> addresses `host:port` of its tasks; only the jobs "chief" and "worker".
        job: the job of this process.
        task_index: the number of this process in its job.
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
        return [parse_address(address)[0] for address in self.addresses]

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self.addresses)

    @property
    def rank(self) -> int:
        """Number of this process; 0 is the chief."""
        return self.task_index + (len(self.jobs.get("chief", [])) if self.job == "worker" else 0)

    @property
    def local_rank(self) -> int:
        """Number of this process among those with the same host."""
        return self.hosts[: self.rank].count(self.hosts[self.rank])

    @property
    def local_size(self) -> int:
        """Number of processes with the same host as this one."""
        return self.hosts.count(self.hosts[self.rank])

    @property
    def leader(self) -> str:
        """TensorFlow's name of the task that is rank 0."""
        return f"/job:{'chief' if self.jobs.get('chief') else 'worker'}/replica:0/task:0"

    @property
    def watch_address(self) -> tuple[str, int]:
        """
        Address of the ranks' channel unless another one is given: the chief's host with the lowest port above the
        chief's own that no task of the cluster has.
        """
        taken = {parse_address(address)[1] for address in self.addresses}
        host, port = parse_address(self.addresses[0])
        while port in taken:
            port += 1
        return host, port

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Cluster | None:
        """
        Read `TF_CONFIG`.

        Args:
            environment: the variables; None means those of this process.

        Returns:
            The cluster; None if the variable is not set, or lists no cluster.

        Raises:
            ValueError: the variable cannot be parsed, or lists parameter servers.
        """
        text = (os.environ if environment is None else environment).get("TF_CONFIG", "")
        if not text.strip():
            return None
        try:
            config = json.loads(text)
            jobs, task = config.get("cluster", {}), config.get("task", {})
            wrong = sorted(set(jobs) - {*_JOBS, "evaluator"})
            cluster = Cluster(
                {job: [str(a) for a in jobs[job]] for job in _JOBS if job in jobs},
                str(task.get("type", "worker")),
                int(task.get("index", 0)),
            )
            hosts = cluster.hosts
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"TF_CONFIG: cannot be parsed ({error}): {text}. {_EXAMPLE}") from error
        if not jobs:
            return None
        if wrong:
            problem = f"unsupported jobs (expected only chief and worker, got {wrong})"
        elif cluster.job not in cluster.jobs or not 0 <= cluster.task_index < len(cluster.jobs[cluster.job]):
            problem = f"the task {cluster.job} {cluster.task_index} is not in the cluster: {text}"
        elif len(cluster.jobs.get("chief", [])) > 1 or not hosts:
            problem = f"expected at most one chief and at least one task: {text}"
        else:
            return cluster
        raise ValueError(f"TF_CONFIG: {problem}. {_EXAMPLE}")


def parse_address(text: str) -> tuple[str, int]:
    """
    Split `host:port` into host and port; an IPv6 address is written in brackets, `[fd00::1]:2222`.

    Raises:
        ValueError: the text does not have this form.
    """
    host, _, port = text.rpartition(":")
    is_ipv6 = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_ipv6 else host
    if not host or not port.isdigit() or (":" in host and not is_ipv6):
        raise ValueError(f"expected an address host:port or [IPv6 address]:port, got '{text}'")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_ports(number: int, host: str = "127.0.0.1") -> list[int]:
    """
    Find free ports of this machine.

    Args:
        number: how many.
        host: the address on which they should be free.

    Returns:
        Distinct ports. Another process may take one before it is used.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for opened in sockets:
            opened.bind((host, 0))
        return [opened.getsockname()[1] for opened in sockets]

"""Machines in network namespaces, for measurements that the loopback interface would distort. They need Linux and root."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from tensorpack_lite.ranks.cluster import free_ports

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fakes.machines import make_machines

_CLONE_NEWNET = 0x40000000
_SECRET = "the secret of the benchmarks"


@contextmanager
def two_machines():
    """Yield two machines that a bridge connects."""
    with tempfile.TemporaryDirectory() as directory, make_machines(["node1", "node2"], Path(directory)) as machines:
        yield machines


@contextmanager
def sockets_on(machine):
    """Context in which this thread creates its sockets on a machine, where they stay."""
    with open("/proc/thread-self/ns/net", "rb") as own:
        with open(f"/proc/{machine.pid}/ns/net", "rb") as other:
            _set_namespace(other)
        try:
            yield
        finally:
            _set_namespace(own)


def _set_namespace(file):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(file.fileno(), _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def start_by_hand(size, command, environment, machines=()):
    """
    Start ranks without a launcher, by variables.

    Args:
        size: number of ranks.
        command: of each rank.
        environment: of each rank, without its place.
        machines: a machine for each rank; empty starts all on this machine, at the loopback interface.

    Returns:
        The processes.
    """
    address = f"node1:{2222}" if machines else f"127.0.0.1:{free_ports(1)[0]}"
    started = []
    for rank in range(size):
        place = {"TENSORPACK_RANK": str(rank), "TENSORPACK_RANKS_SIZE": str(size)}
        variables = {"TENSORPACK_RANKS_ADDRESS": address, "TENSORPACK_LITE_SECRET": _SECRET}
        options = {
            "env": {**os.environ, **environment, **place, **variables},
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        # a new session, as the launcher starts it: Linux shares the cores among sessions
        started.append(
            machines[rank].start(*command, **options)
            if machines
            else subprocess.Popen(command, start_new_session=True, **options)
        )
    return started

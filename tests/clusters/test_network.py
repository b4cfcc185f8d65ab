"""Ranks on two machines whose whole traffic goes through a proxy: latency, lost packets, and connections that are reset."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
from fakes.engines import assert_equal_trainings, python_command, rank_environment
from fakes.launching import TESTS
from fakes.patience import PATIENCE

# of TensorFlow's servers of rank 0 and 1, and of the channel, which takes the next one after that of rank 0
PORTS = (3000, 3001, 3002)
SECRET = "0123456789abcdef0123456789abcdef"
CLUSTER = {"worker": ["w0:3000", "w1:3001"]}


@contextmanager
def proxied(machines, delay_ms=0, loss=0.0, blocked=None):
    """Start a proxy on the third machine, which the others take for each other, and yield its process. It may refuse a port."""
    real = [machines[0], machines[1], machines[0]]
    routes = [f"{port}={machine.address}:{port}" for port, machine in zip(PORTS, real) if port != blocked]
    command = [sys.executable, TESTS / "fakes" / "proxy.py", delay_ms, loss, *routes]
    with ExitStack() as stack:
        for own, other in ((0, 1), (1, 0)):
            names = f"{machines[own].address} w{own}\n{machines[2].address} w{other}\n"
            stack.enter_context(machines[own].changed_hosts(lambda text, names=names: text + names))
        proxy = machines[2].start(*command, stdout=subprocess.PIPE)
        stack.enter_context(proxy.stdout)
        stack.callback(lambda: (proxy.kill(), proxy.wait()))
        assert b"ready\n" == proxy.stdout.readline()
        yield proxy


def start(machines, directory, *arguments, **more):
    """Start both ranks, and return their processes and the files with their output."""
    started = []
    for rank in range(2):
        config = json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": rank}})
        environment = rank_environment(TF_CONFIG=config, TENSORPACK_LITE_SECRET=SECRET, **more)
        path = directory / f"output-{rank}.txt"
        with path.open("w") as file:
            command = f"exec {python_command(directory, *arguments)}"
            process = machines[rank].start("sh", "-c", command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        started.append((process, path))
    return started


def wait(started):
    """Wait until the ranks have ended, and return their exit codes and outputs."""
    return [process.wait(PATIENCE) for process, _ in started], [path.read_text() for _, path in started]


@pytest.mark.parametrize(("delay_ms", "loss"), [(100, 0.0), (150, 0.01)])
def test_a_slow_network(machines, launched, tmp_path, delay_ms, loss):
    """
    Ranks meet and train over a network with a latency of 200 ms, or of 300 ms and 1 % loss, and end with the checkpoint of the launcher.

    Rank 0 warns that the address of rank 1 is translated.
    """
    with proxied(machines, delay_ms, loss):
        codes, outputs = wait(start(machines, tmp_path))
    assert [0, 0] == codes, outputs
    assert_equal_trainings(launched(2), tmp_path, 2)
    addresses = f"from {machines[2].address}, and its own address is {machines[1].address}"
    assert f"Rank 1 connects {addresses}: the network translates addresses" in outputs[0]


def test_a_blocked_channel(machines, tmp_path):
    """If the port of the channel is blocked, both ranks end after the time limit, and name the port and the variable that chooses another one."""
    with proxied(machines, blocked=3002):
        codes, outputs = wait(start(machines, tmp_path, TIME_LIMIT="45"))
    assert [128, 128] == codes, outputs
    assert "Rank 1 of 2 (w1) did not connect within 45 s" in outputs[0]
    assert "can it reach port 3002 of rank 0's machine" in outputs[0]
    assert "Rank 1 could not reach rank 0 at w0:3002" in outputs[1]
    assert all("TENSORPACK_RANKS_ADDRESS or TENSORPACK_RANKS_PORTS" in output for output in outputs)


def test_a_blocked_server(machines, tmp_path):
    """If the port of a TensorFlow server is blocked, all ranks end before the first step with a message that names the port."""
    with proxied(machines, blocked=3001):
        codes, outputs = wait(start(machines, tmp_path))
    assert [128, 128] == codes, outputs
    assert all("Rank 0 cannot reach rank 1 at w1:3001" in output for output in outputs)
    assert not (tmp_path / "rank-0.txt").exists()


def test_connections_that_are_reset(machines, tmp_path):
    """If the network resets all connections, both ranks end with code 128, name the other one, and say what happened."""
    with proxied(machines) as proxy:
        started = start(machines, tmp_path, "own", 0, 1)
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / "rank-1.txt").exists():
            assert time.monotonic() < deadline, wait(started)
            time.sleep(0.05)
        proxy.send_signal(signal.SIGUSR1)
        codes, outputs = wait(started)
    assert [128, 128] == codes, outputs
    assert "Rank 1 died without reporting an error, last seen on node2 after step" in outputs[0]
    assert "Rank 0, the chief, died without reporting an error, last seen on node1 after step" in outputs[1]
    for output in outputs:
        assert "The connection ended with 'Connection reset by peer'; the network may have closed it." in output

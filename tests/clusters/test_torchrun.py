"""Training under `torchrun`: one machine, several agents, and a number of machines that changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from fakes.engines import NUM_STEPS, SCRIPT, assert_equal_trainings, batches, rank_environment

pytest.importorskip("torch", reason="tox -e clusters installs PyTorch")

TORCHRUN = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run"]


@pytest.mark.parametrize("size", [2, 3])
def test_torchrun_equals_the_launcher(launched, tmp_path, size):
    """Ranks that `torchrun` starts end with the checkpoint of the local launcher, without a change of the script."""
    command = [*TORCHRUN, "--nproc-per-node", size, SCRIPT, "collective", tmp_path, "own"]
    ended = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        env=rank_environment(),
    )
    assert 0 == ended.returncode, ended.stdout
    assert "started by torchrun" in ended.stdout
    assert_equal_trainings(launched(size), tmp_path, size)


class Agents:
    """Elastic agents of torchrun, one on each machine."""

    def __init__(self, machines, directory, *fault):
        self._machines, self._fault, self._directory = machines, fault, directory
        secret = directory / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        secret.chmod(0o600)
        self._environment = rank_environment(
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
            TENSORPACK_LITE_SECRET_FILE=str(secret),
            STEP_SECONDS="2",  # an agent takes some seconds to join
        )
        self.processes = {}

    def start(self, number):
        """Start the agent of a machine; it joins the others."""
        machine, log = self._machines[number], self.log(number)
        options = ["--nnodes", "1:3", "--nproc-per-node", 1, "--max-restarts", 10, "--rdzv-backend", "c10d"]
        options += ["--rdzv-endpoint", f"{self._machines[0].name}:29400", "--rdzv-id", "run7"]
        with log.open("a") as file:
            self.processes[number] = machine.start(
                *TORCHRUN, *options, "--local-addr", machine.address, SCRIPT, "collective", self._directory, "shard",
                *self._fault, stdout=file, stderr=subprocess.STDOUT, env=self._environment,
            )  # fmt: skip

    def log(self, number):
        """Return the file with the output of an agent and its ranks."""
        return self._directory / f"agent-{number}.txt"

    def wait_for(self, step, timeout=120.0):
        """Wait until a rank has written a step."""
        deadline = time.monotonic() + timeout
        while not any(line[0] >= step for rank in range(3) for line in self._lines(rank)):
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)

    def output(self):
        """Return the output of all agents."""
        return "\n".join(self.log(number).read_text() for number in self.processes)

    def _lines(self, rank):
        path = self._directory / f"rank-{rank}.txt"
        return batches(self._directory, rank) if path.exists() else []


def assert_each_datapoint_once(directory):
    """Check that each of the first passes has used each of 60 datapoints exactly once; a pass is five steps."""
    used = {}
    for rank in range(3):
        path = directory / f"rank-{rank}.txt"
        for step, _, batch in batches(directory, rank) if path.exists() else []:
            used.setdefault(step, {})[rank] = batch
    return used


def test_machines_join_and_leave(machines, tmp_path):
    """With ShardData, 2, then 1, then 3 machines use each datapoint of each pass exactly once."""
    agents = Agents(machines, tmp_path, 0, 1)
    agents.start(0)
    agents.start(1)
    agents.wait_for(4)
    agents.processes[1].send_signal(signal.SIGTERM)
    agents.processes[1].wait(60)
    agents.wait_for(11)
    agents.start(1)
    agents.start(2)
    for number in range(3):
        assert 0 == agents.processes[number].wait(240), agents.output()
    used = assert_each_datapoint_once(tmp_path)
    assert list(range(1, NUM_STEPS + 1)) == sorted(used)
    for first in range(1, NUM_STEPS + 1, 5):
        batch = [i for step in range(first, first + 5) for part in used[step].values() for i in part]
        assert list(range(60)) == sorted(batch)

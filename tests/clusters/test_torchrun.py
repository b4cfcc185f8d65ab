"""Training under `torchrun`: one machine, several agents, and a number of machines that changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest
from fakes.engines import NUM_STEPS, SCRIPT, assert_equal_trainings, batches, rank_environment, run
from fakes.patience import PATIENCE

pytest.importorskip("torch", reason="tox -e clusters installs PyTorch")

NUM, TOTAL_BATCH, STEPS_OF_PASS = 60, 12, 5  # of the script
TORCHRUN = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run"]


@pytest.mark.parametrize("size", [2, 3])
def test_torchrun_equals_the_launcher(launched, tmp_path, size):
    """Ranks that `torchrun` starts end with the checkpoint of the local launcher, without a change of the script."""
    command = [*TORCHRUN, "--nproc-per-node", size, SCRIPT, "collective", tmp_path, "own"]
    ended = run(command)
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

    def wait_for(self, step, timeout=PATIENCE):
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
    """Check that each pass, which is five steps, has used each of 60 datapoints exactly once, in the last attempt of each step."""
    lines = [
        {step: batch for step, _, batch in batches(directory, rank)}
        for rank in range(3)
        if (directory / f"rank-{rank}.txt").exists()
    ]
    assert list(range(1, NUM_STEPS + 1)) == sorted(lines[0])
    # An attempt that was killed may have done a step already, with more ranks.
    sizes = {step: TOTAL_BATCH // len(batch) for step, batch in lines[0].items()}
    for first in range(1, NUM_STEPS + 1, STEPS_OF_PASS):
        used = [
            i for step in range(first, first + STEPS_OF_PASS) for rank in range(sizes[step]) for i in lines[rank][step]
        ]
        assert list(range(NUM)) == sorted(used)
    return sizes


def test_machines_join_and_leave(machines, tmp_path):
    """With ShardData, 2, then 1, then 3 machines use each datapoint of each pass exactly once."""
    agents = Agents(machines, tmp_path, 0, 1)
    agents.start(0)
    agents.start(1)
    agents.wait_for(4)
    agents.processes[1].send_signal(signal.SIGTERM)
    agents.processes[1].wait(PATIENCE)
    agents.wait_for(11)
    agents.start(1)
    agents.start(2)
    for number in range(3):
        assert 0 == agents.processes[number].wait(PATIENCE), agents.output()
    assert {1, 2, 3} == set(assert_each_datapoint_once(tmp_path).values())


def ranks_of(agent):
    """Return the processes of the ranks that an agent has started."""
    children = psutil.Process(agent.pid).children(recursive=True)
    return [child for child in children if SCRIPT in child.cmdline()]


@pytest.mark.parametrize("dies", ["a rank", "a machine", "an agent"])
def test_a_kill(machines, tmp_path, dies):
    """
    After a SIGKILL of a rank, of an agent and its rank, or of an agent alone, training continues from the last checkpoint.

    The rank of an agent that was killed alone trains on, as torchrun does not notice that. When the agent is started again, all ranks save at one
    step, and a new round starts.
    """
    agents = Agents(machines, tmp_path, 0, 1)
    agents.start(0)
    agents.start(1)
    agents.wait_for(6)
    victim, (orphan,) = agents.processes[1], ranks_of(agents.processes[1])
    if dies != "a rank":
        victim.kill()
        victim.wait()
    if dies != "an agent":
        orphan.kill()
    else:
        agents.wait_for(8)
        assert orphan.is_running()
        agents.start(1)
        orphan.wait(PATIENCE)
    for number in (0,) if dies == "a machine" else (0, 1):
        assert 0 == agents.processes[number].wait(PATIENCE), agents.output()
    sizes = assert_each_datapoint_once(tmp_path)
    assert sizes[1] == 2
    assert sizes[NUM_STEPS] == (1 if dies == "a machine" else 2)
    told = agents.log(0).read_text()
    if dies == "an agent":
        assert "died" not in told
    else:
        assert "Rank 1 died without reporting an error, last seen on node2 after step" in told

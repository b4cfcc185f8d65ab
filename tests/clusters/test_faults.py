"""Ranks on several machines without a scheduler: names, addresses, lost links, other jobs, and strangers."""

from __future__ import annotations

import re
import subprocess
import time

import pytest
from fakes.engines import assert_equal_trainings, python_command, rank_environment
from fakes.patience import PATIENCE

SECRET = "0123456789abcdef0123456789abcdef"


class Ranks:
    """Ranks that are started by hand, one on each machine."""

    def __init__(self, machines, directory, address, **more):
        self._machines, self._directory = machines, directory
        self._variables = {"TENSORPACK_RANKS_ADDRESS": address, "TENSORPACK_LITE_SECRET": SECRET, **more}
        self.processes = []

    def start(self, size, *arguments, rank_variable="TENSORPACK_RANK"):
        """Start all ranks."""
        for rank in range(size):
            self.start_one(rank, size, *arguments, rank_variable=rank_variable)
        return self

    def start_one(self, rank, size, *arguments, rank_variable="TENSORPACK_RANK"):
        """Start a rank."""
        place = {rank_variable: str(rank), "TENSORPACK_RANKS_SIZE": str(size)}
        variables = {name: value for name, value in {**self._variables, **place}.items() if value is not None}
        command = ["sh", "-c", f"exec {python_command(self._directory, *arguments)}"]
        with self.log(rank).open("w") as file:
            self.processes.append(
                self._machines[rank].start(
                    *command, stdout=file, stderr=subprocess.STDOUT, env=rank_environment(**variables)
                )
            )

    def log(self, rank):
        """Return the file with the output of a rank."""
        return self._directory / f"output-{rank}.txt"

    def wait(self, timeout=PATIENCE):
        """Wait until all ranks have ended, and return their exit codes and outputs."""
        codes = [process.wait(timeout) for process in self.processes]
        return codes, [self.log(rank).read_text() for rank in range(len(codes))]

    def wait_for(self, text, rank, timeout=PATIENCE):
        """Wait until the output of a rank has a text."""
        deadline = time.monotonic() + timeout
        while text not in self.log(rank).read_text():
            assert time.monotonic() < deadline, self.log(rank).read_text()
            time.sleep(0.05)


@pytest.mark.parametrize("address", ["node1:2222", "10.88.0.1:2222", "[fd00:88::1]:2222"])
def test_one_address_is_enough(machines, launched, tmp_path, address):
    """Ranks on two machines that know only the address of rank 0, as a name, an IPv4 or an IPv6 address, train as with the launcher."""
    codes, outputs = Ranks(machines, tmp_path, address).start(2).wait()
    assert [0, 0] == codes, outputs
    assert_equal_trainings(launched(2), tmp_path, 2)


def test_own_name_is_a_loopback_address(machines, tmp_path):
    """Rank 0 whose own name is 127.0.1.1, as on Debian, is reached by the others."""
    with machines[0].changed_hosts(lambda text: text.replace(machines[0].address, "127.0.1.1")):
        codes, outputs = Ranks(machines, tmp_path, "node1:2222").start(2, "shard").wait()
    assert [0, 0] == codes, outputs


def test_names_that_dns_does_not_know_yet(machines, tmp_path):
    """Pods of a Kubernetes Job meet although no name is known when they start, not even rank 0's own."""

    def forget(text):
        return re.sub(r"10\.88.*\n", "", text)

    with machines[0].changed_hosts(forget), machines[1].changed_hosts(forget):
        ranks = Ranks(machines, tmp_path, "train-0.train:2222")
        ranks.start(2, "shard", rank_variable="JOB_COMPLETION_INDEX")
        ranks.wait_for("Rank 1 of 2", 1)
        time.sleep(20)  # the resolver of a new pod
        assert all(process.poll() is None for process in ranks.processes)
        for machine in machines[:2]:
            with machine.hosts.open("a") as file:
                file.write(f"{machines[0].address} train-0.train\n")
        codes, outputs = ranks.wait()
    assert [0, 0] == codes, outputs


def test_several_machines_without_a_secret(machines, tmp_path):
    """Ranks on several machines whose names are not known need a secret; the error has the command that makes one."""
    codes, outputs = Ranks(machines, tmp_path, "node1:2222", TENSORPACK_LITE_SECRET=None).start(2).wait()
    assert [1, 1] == codes
    for output in outputs:
        assert "export TENSORPACK_LITE_SECRET=$(openssl rand -hex 32)" in output
    assert not (tmp_path / "log" / "checkpoint").exists()


def test_a_rank_never_starts(machines, tmp_path):
    """If a rank does not start, all others end after the time limit with its name."""
    ranks = Ranks(machines, tmp_path, "node1:2222", TIME_LIMIT="60")
    ranks.start_one(0, 3)
    ranks.start_one(1, 3)
    codes, outputs = ranks.wait()
    assert [128, 128] == codes, outputs
    assert "Rank 2" in outputs[0]
    assert "did not connect" in outputs[0]


def test_a_lost_link(machines, tmp_path):
    """
    If the link of a machine is lost, both sides end with code 128 within the time limit.

    They name the rank that has been silent, or report that a connection is lost, if gRPC gives up before the time limit.
    """
    ranks = Ranks(machines, tmp_path, "node1:2222", TIME_LIMIT="40").start(2, "own", 0, 1)
    ranks.wait_for("Start epoch 1", 1)
    try:
        machines[1].connect(False)
        codes, outputs = ranks.wait(PATIENCE)
    finally:
        machines[1].connect(True)
    assert [128, 128] == codes, outputs
    for output, silent in zip(outputs, ("Rank 1 has been silent", "Rank 0, the chief, has been silent")):
        assert silent in output or "lost its connection to another rank" in output


def test_a_full_disk(machines, tmp_path):
    """If the disk of rank 0 is full, rank 0 ends with the error at the next save, and the other rank because of rank 0."""
    log, memory = tmp_path / "log", ("-t", "tmpfs", "-o", "size=4m", "tmpfs")
    log.mkdir()
    assert 0 == machines[0].run("mount", *memory, log).returncode
    try:
        ranks = Ranks(machines, tmp_path, "node1:2222", STEP_SECONDS="1").start(2, "own", 0, 1)
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / "rank-1.txt").exists():
            assert time.monotonic() < deadline, ranks.wait()
            time.sleep(0.05)
        assert "No space left" in machines[0].run("sh", "-c", f"cat /dev/zero > {log}/filler").stdout
        codes, outputs = ranks.wait()
    finally:
        machines[0].run("umount", "-l", log)
    assert [1, 128] == codes, outputs
    assert "OSError" in outputs[0]
    assert "Rank 0 failed after step" in outputs[1]
    assert "No space left on device" in outputs[1]


def test_two_jobs_with_the_same_ports(machines, tmp_path):
    """Two jobs that meet at the same ports of one machine, without secrets, both end as if they were alone."""
    jobs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        for rank in range(2):
            # a launcher on one machine that names its job
            variables = {
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "PMIX_NAMESPACE": name,
                "TENSORPACK_RANKS_PORTS": "21000-21007",
            }
            command = ["sh", "-c", f"exec {python_command(tmp_path / name, 'shard')}"]
            with (tmp_path / f"{name}{rank}.txt").open("w") as file:
                environment = rank_environment(**variables)
                jobs.append(machines[0].start(*command, stdout=file, stderr=subprocess.STDOUT, env=environment))
    codes = [process.wait(PATIENCE) for process in jobs]
    outputs = [(tmp_path / f"{name}{rank}.txt").read_text() for name in "ab" for rank in range(2)]
    assert [0, 0, 0, 0] == codes, outputs


def test_strangers(machines, tmp_path):
    """10,000 connections of a stranger during the meeting, and as many during the training, change nothing."""
    ranks = Ranks(machines, tmp_path, f"{machines[0].address}:2222")
    ranks.start_one(0, 2, "shard", 0, 1)
    ranks.wait_for("Rank 0 of 2", 0)
    knock = (
        "import socket, sys, itertools\n"
        "made = refused = 0\n"
        "while made + refused < 10000:\n"
        "    try:\n"
        "        s = socket.create_connection((sys.argv[1], 2222), 2)\n"
        "        s.settimeout(0.01)\n"
        "        s.sendall((b'GET / HTTP/1.1\\r\\n\\r\\n', b'\\0' * 5000, b'', b'{\"type\": \"hello\", \"rank\": 1}\\n')[made % 4])\n"
        "        made += 1\n"
        "        s.close()\n"
        "    except OSError:\n"
        "        refused += 1\n"
        "print('knocked', made, refused)\n"
    )
    before = machines[2].run("python3", "-c", knock, machines[0].address)
    ranks.start_one(1, 2, "shard", 0, 1)
    ranks.wait_for("Start epoch 1", 1)
    after = machines[2].run("python3", "-c", knock, machines[0].address)
    codes, outputs = ranks.wait()
    assert [0, 0] == codes, outputs
    assert "knocked" in before.stdout
    assert "knocked 0 10000" in after.stdout  # no process listens any more

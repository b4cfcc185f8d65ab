"""Training under `mpirun` of Open MPI and of MPICH, on one machine and on several."""

from __future__ import annotations

import sys

import pytest
from fakes.engines import SCRIPT, assert_equal_trainings, require, run
from fakes.launching import CASES

OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
MPICH = ["mpiexec.mpich"]


@pytest.mark.parametrize("size", [2, 3])
def test_open_mpi_equals_the_launcher(launched, tmp_path, size):
    """Ranks that Open MPI starts on this machine need no address, and end with the checkpoint of the local launcher."""
    require("mpirun.openmpi")
    ended = run([*OPEN_MPI, "-np", size, sys.executable, "-W", "ignore", SCRIPT, "collective", tmp_path, "own"])
    assert 0 == ended.returncode, ended.stdout
    assert_equal_trainings(launched(size), tmp_path, size)


@pytest.mark.parametrize("size", [2, 3])
def test_mpich_equals_the_launcher(launched, tmp_path, size, free_port):
    """Ranks that MPICH starts need the address of rank 0, and end with the checkpoint of the local launcher."""
    require("mpiexec.mpich")
    address = ["-genv", "TENSORPACK_RANKS_ADDRESS", f"127.0.0.1:{free_port}"]
    command = [sys.executable, "-W", "ignore", SCRIPT, "collective", tmp_path, "own"]
    ended = run([*MPICH, "-n", size, *address, *command])
    assert 0 == ended.returncode, ended.stdout
    assert_equal_trainings(launched(size), tmp_path, size)


def test_mpich_without_an_address(tmp_path):
    """Without an address, the error has the complete line to type."""
    require("mpiexec.mpich")
    ended = run([*MPICH, "-n", 2, sys.executable, "-W", "ignore", SCRIPT, "collective", tmp_path, "own"])
    assert 0 != ended.returncode
    assert "TENSORPACK_RANKS_ADDRESS" in ended.stdout
    assert "-genv" in ended.stdout
    assert not (tmp_path / "log").exists()


def test_the_code_of_a_rank_that_follows(tmp_path):
    """If one rank fails, `mpirun` shows its exit code, and the other rank names it and ends with 128."""
    require("mpirun.openmpi")
    codes = 'python="$0"; "$python" -W ignore "$@"; code=$?; echo "code $code"; exit $code'
    ended = run([*OPEN_MPI, "-np", 2, "sh", "-c", codes, sys.executable, CASES, "resumed", tmp_path, 5])
    assert 0 != ended.returncode
    assert "RuntimeError: planted" in ended.stdout

"""HorovodTrainer under `srun` and `mpirun` with a Horovod that was built without MPI: ranks meet first, and rank 0 serves Gloo's rendezvous."""

from __future__ import annotations

import sys

import pytest
from fakes.engines import SCRIPT, assert_equal_trainings, python_command, rank_environment, require, run
from fakes.launching import launch
from fakes.patience import PATIENCE

pytestmark = pytest.mark.horovod
hvd = pytest.importorskip("horovod.tensorflow", reason="tox -e clusters-horovod installs Horovod")


@pytest.fixture(scope="module")
def launched_horovod(tmp_path_factory):
    """The directory of a training of two ranks with the local launcher."""
    directory = tmp_path_factory.mktemp("launched")
    ended = launch(2, SCRIPT, "horovod", directory, "own", timeout=PATIENCE)
    assert 0 == ended.code, ended.out + ended.err
    return directory


def test_srun(slurm, launched_horovod, tmp_path):
    """Two ranks that `srun` starts on two machines end with the checkpoint of the local launcher."""
    assert not hvd.mpi_built()
    command = python_command(tmp_path, engine="horovod")
    ended = slurm.run("srun", "-N2", "-n2", "sh", "-c", command, **rank_environment())
    assert 0 == ended.returncode, ended.stdout
    for rank in range(2):
        assert f"Rank {rank} of 2 (local 0 of 1) on node{rank + 1}, started by srun" in ended.stdout
    assert_equal_trainings(launched_horovod, tmp_path, 2)


def test_several_tasks_on_a_machine(slurm, tmp_path):
    """Four tasks on two machines train with ShardData."""
    command = python_command(tmp_path, "shard", engine="horovod")
    ended = slurm.run("srun", "-N2", "--ntasks-per-node=2", "sh", "-c", command, **rank_environment())
    assert 0 == ended.returncode, ended.stdout


def test_a_rank_that_is_killed(slurm, tmp_path):
    """If a rank is killed, the other one names it and its machine, and `srun` shows the code of the kill."""
    command = python_command(tmp_path, "own", 9, 14, "1", engine="horovod")
    ended = slurm.run("srun", "-N2", "-n2", "sh", "-c", f"{command}; exit $?", **rank_environment())
    assert 137 == ended.returncode, ended.stdout
    assert "Rank 1 died without reporting an error, last seen on node2 after step" in ended.stdout


def test_open_mpi(launched_horovod, tmp_path):
    """Ranks that Open MPI starts on this machine end with the checkpoint of the local launcher, although Horovod knows no MPI."""
    require("mpirun.openmpi")
    options = ["--allow-run-as-root", "--oversubscribe", "-np", 2]
    script = [sys.executable, "-W", "ignore", SCRIPT, "horovod", tmp_path, "own"]
    ended = run(["mpirun.openmpi", *options, *script])
    assert 0 == ended.returncode, ended.stdout
    assert_equal_trainings(launched_horovod, tmp_path, 2)

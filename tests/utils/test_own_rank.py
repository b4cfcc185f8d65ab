"""utils/own_rank.py: the rank of a process, from environment variables."""

from __future__ import annotations

import json
import re

import pytest

from tensorpack_lite.utils.own_rank import GivenRank, find_given_rank, given_rank

TF_CONFIG = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
WITH_CHIEF = '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}'
HOROVOD = {"HOROVOD_RANK": "2", "HOROVOD_SIZE": "3"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
SLURM = {"SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
BATCH_SCRIPT = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1234"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"TF_CONFIG": TF_CONFIG}, GivenRank(1, 2, "TF_CONFIG", "TF_CONFIG")),
        ({"TF_CONFIG": WITH_CHIEF}, GivenRank(1, 2, "TF_CONFIG", "TF_CONFIG")),
        (HOROVOD, GivenRank(2, 3, "HOROVOD_RANK", "horovodrun")),
        (OPEN_MPI, GivenRank(3, 4, "OMPI_COMM_WORLD_RANK", "mpirun")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, GivenRank(1, 2, "PMI_RANK", "mpiexec")),
        (SLURM, GivenRank(1, 2, "SLURM_PROCID", "srun")),
        (TORCHRUN, GivenRank(1, 2, "RANK", "torchrun")),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, GivenRank(1, 2, "RANK", "torchrun")),
        (
            {"TENSORPACK_RANK": "5", "TENSORPACK_RANKS_SIZE": "6"},
            GivenRank(5, 6, "TENSORPACK_RANK", "TENSORPACK_RANK"),
        ),
        (
            {"JOB_COMPLETION_INDEX": "1", "TENSORPACK_RANKS_SIZE": "6"},
            GivenRank(1, 6, "JOB_COMPLETION_INDEX", "Kubernetes"),
        ),
        ({**SLURM, "PMI_RANK": "1", "PMI_SIZE": "2"}, GivenRank(1, 2, "SLURM_PROCID", "srun")),  # --mpi=pmi2
        ({**SLURM, "PMI_RANK": "1", "PMI_SIZE": "4"}, GivenRank(1, 4, "PMI_RANK", "mpiexec")),
    ],
)
def test_sources(environment, expected):
    """The rank and the number of processes are read from the variables of each launcher."""
    assert expected == find_given_rank(environment)


@pytest.mark.parametrize(
    ("jobs", "tasks"),
    [
        ({"chief": 1, "worker": 2, "ps": 1}, ["chief 0", "worker 0", "worker 1", "ps 0", "evaluator 0"]),
        ({"master": 1, "ps": 2, "worker": 1}, ["master 0", "worker 0", "ps 0", "ps 1"]),
        ({"worker": 2, "ps": 1, "evaluator": 1}, ["worker 0", "worker 1", "evaluator 0", "ps 0"]),
        ({"worker": 1, "evaluator": 1}, ["worker 0", "evaluator 0"]),
    ],
)
def test_one_chief(jobs, tasks):
    """In TF_CONFIG with any jobs, exactly one task has rank 0; an evaluator may be missing in the cluster."""
    cluster = {job: [f"{job}{number}:1" for number in range(size)] for job, size in jobs.items()}
    ranks = []
    for task in tasks:
        job, index = task.split()
        config = {"cluster": cluster, "task": {"type": job, "index": int(index)}}
        ranks.append(find_given_rank({"TF_CONFIG": json.dumps(config)}).rank)
    assert list(range(len(tasks))) == ranks


def test_an_evaluator_of_one_process():
    """An evaluator beside a cluster of one task is not the chief, and that task has no rank."""
    config = '{"cluster": {"chief": ["a:1"]}, "task": {"type": "%s", "index": 0}}'
    assert GivenRank(1, None, "TF_CONFIG", "TF_CONFIG") == find_given_rank({"TF_CONFIG": config % "evaluator"})
    assert find_given_rank({"TF_CONFIG": config % "chief"}) is None


@pytest.mark.parametrize(
    "environment",
    [
        BATCH_SCRIPT,
        {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'},
        {**OPEN_MPI, "TENSORPACK_RANKS_SIZE": "1"},
        {"RANK": "1"},
        {"WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"JOB_COMPLETION_INDEX": "1"},
    ],
    ids=[
        "batch script",
        "srun -n1",
        "mpirun -np 1",
        "one worker",
        "turned off",
        "another program's RANK",
        "another program's WORLD_SIZE",
        "one rank",
        "independent pods",
    ],
)
def test_a_process_that_is_alone(environment):
    """A process has no rank if it was started alone, or if the user says that the processes train separately."""
    assert find_given_rank(environment) is None


@pytest.mark.parametrize(
    "environment",
    [
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": "[]"},
        {"TF_CONFIG": '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}'},
        {"OMPI_COMM_WORLD_RANK": ""},
    ],
)
def test_a_cluster_that_is_not_valid(environment):
    """A cluster that cannot be read counts as not set, as do empty variables."""
    assert find_given_rank(environment) is None


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"HOROVOD_RANK": "2"}, "HOROVOD_RANK=2 and HOROVOD_SIZE= are not two numbers (horovodrun)"),
        ({"PMI_SIZE": "2"}, "PMI_RANK= and PMI_SIZE=2 are not two numbers (mpiexec)"),
        (
            {"OMPI_COMM_WORLD_RANK": "first", "OMPI_COMM_WORLD_SIZE": "2"},
            "OMPI_COMM_WORLD_RANK=first and OMPI_COMM_WORLD_SIZE=2 are not two numbers (mpirun)",
        ),
        ({**TORCHRUN, "RANK": "3"}, "RANK=3 is not below WORLD_SIZE=2 (torchrun)"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one and WORLD_SIZE=2 are not two numbers (torchrun)"),
        ({"TENSORPACK_RANK": "0"}, "TENSORPACK_RANK=0 and TENSORPACK_RANKS_SIZE= are not two numbers"),
        (
            {"TENSORPACK_RANK": "", "TENSORPACK_RANKS_SIZE": "4"},
            "TENSORPACK_RANKS_SIZE=4 is set, but no variable has",
        ),
    ],
)
def test_mistakes(environment, told):
    """A rank without a size, a size without a rank, another text than a number, and a rank beyond the size are ValueErrors."""
    with pytest.raises(ValueError, match=f"{re.escape(told)}.*TENSORPACK_RANKS_SIZE=1"):
        find_given_rank(environment)


def test_mpirun_inside_slurm():
    """The launcher that started the process last wins: SLURM's variables are then those of MPI's daemons."""
    assert GivenRank(3, 4, "OMPI_COMM_WORLD_RANK", "mpirun") == find_given_rank({**SLURM, **OPEN_MPI})


def test_the_rank_of_this_process(monkeypatch):
    """`given_rank` reads the environment of this process."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("HOROVOD_RANK", "2")
    monkeypatch.setenv("HOROVOD_SIZE", "3")
    assert 2 == given_rank()

"""Machines, SLURM, and the results of the local launcher, with which each engine is compared."""

from __future__ import annotations

import socket

import pytest
from fakes.engines import SCRIPT, require
from fakes.launching import launch
from fakes.machines import make_machines
from fakes.patience import PATIENCE
from fakes.slurm import make_slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A SLURM cluster with the machines node1, node2 and node3."""
    require("slurmctld", "slurmd", "munged", "srun")
    with make_slurm(["node1", "node2", "node3"], tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Three machines without a scheduler."""
    require("nsenter", "unshare", "ip")
    with make_machines(["node1", "node2", "node3"], tmp_path_factory.mktemp("machines")) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def launched(tmp_path_factory):
    """A function that trains a number of ranks with the local launcher, once, and returns the directory."""
    directories = {}

    def train(size):
        if size not in directories:
            directories[size] = tmp_path_factory.mktemp(f"launched-{size}")
            ended = launch(size, SCRIPT, "collective", directories[size], "own", timeout=PATIENCE)
            assert 0 == ended.code, ended.out + ended.err
        return directories[size]

    return train


@pytest.fixture
def free_port():
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

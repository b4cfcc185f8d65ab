"""Base classes of the tests of CollectiveTrainer and HorovodTrainer with real ranks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from fakes.launching import SCRIPT, launch, running_with


class Trained(NamedTuple):
    """Weights after 20 steps, of several ranks and of one process that trains on the joint batch."""

    directory: Path
    size: int

    def weights(self, rank):
        return weights(self.directory, rank, self.size)

    def weights_of_one_process(self):
        return weights(self.directory, 0, 1)


def weights(directory, rank, size):
    """Read the weights that a rank wrote at the end of its epoch."""
    return dict(np.load(os.path.join(str(directory), f"rank-{rank}-of-{size}.npz")))


def train(engine, size, directory):
    """Train with `size` ranks, and in one process on the joint batch."""
    for processes in (size, 1):
        ended = launch(processes, SCRIPT, engine, directory, "", "20", size)
        assert 0 == ended.code, ended.out + ended.err
    return Trained(directory, size)


class RanksThatTrain:
    """Tests of ranks that do not fail. The fixture `trained` of the test file provides training runs with 2 and 3 ranks."""

    ENGINE = ""

    def test_ranks_are_equal(self, trained):
        """The weights of all ranks are bitwise equal, although each rank initialized them differently."""
        first = trained.weights(0)
        assert 20 == first["global_step"]
        for rank in range(1, trained.size):
            other = trained.weights(rank)
            assert sorted(first) == sorted(other)
            assert [] == [name for name in first if not np.array_equal(first[name], other[name])]

    def test_they_equal_one_process(self, trained):
        """The weights equal those of one process that trains on the joint batch, for dense and sparse gradients."""
        several, one = trained.weights(0), trained.weights_of_one_process()
        assert sorted(several) == sorted(one)
        for name in one:
            np.testing.assert_allclose(several[name], one[name], atol=1e-5, err_msg=name)

    @pytest.mark.parametrize("trained", [2], indirect=True)
    def test_fp16_on_the_wire(self, trained, tmp_path):
        """With fp16 all-reduce, the ranks have equal weights, which differ a little from those of one process."""
        assert 0 == launch(2, SCRIPT, self.ENGINE, tmp_path, "fp16").code
        first, second, one = (
            weights(tmp_path, 0, 2),
            weights(tmp_path, 1, 2),
            trained.weights_of_one_process(),
        )
        assert np.array_equal(first["w0"], second["w0"])
        assert 0 < np.abs(first["w0"] - one["w0"]).max() < 5e-3

    def test_resuming(self, tmp_path):
        """All ranks resume from the chief's checkpoint and at its epoch."""
        assert 0 == launch(2, SCRIPT, self.ENGINE, tmp_path).code
        ended = launch(2, SCRIPT, self.ENGINE, tmp_path, "resume")
        assert 0 == ended.code, ended.out + ended.err
        first, second = weights(tmp_path, 0, 2), weights(tmp_path, 1, 2)
        assert 40 == first["global_step"] == second["global_step"]
        assert np.array_equal(first["w0"], second["w0"])
        assert "[1] " in ended.out
        assert 2 == ended.out.count("Start epoch 2")

    @pytest.mark.any_tensorflow
    def test_a_chief_that_takes_long(self, tmp_path):
        """A callback that only the chief runs may take longer than the time limit."""
        ended = launch(2, SCRIPT, self.ENGINE, tmp_path, "slow chief", "5")
        assert 0 == ended.code, ended.out + ended.err


def rarely(*values):
    """Return a case that CI runs on the newest TensorFlow only."""
    return pytest.param(*values, marks=pytest.mark.full)


def proof(*values):
    """Return a case that `tox -e proofs-...` runs, not CI."""
    return pytest.param(*values, marks=pytest.mark.proof)


FAULTS = [
    ("kill", 20, "Rank 1 died without reporting an error, last seen after step"),
    rarely("stop", 6, "Rank 1 has been silent for 6 s, last seen after step"),
    proof(
        "behind",
        6,
        "Rank 1 has kept others waiting for 6 s, last seen after step 5, in callback Faulty, _before_run",
    ),
    pytest.param(
        "callback",
        20,
        "Rank 1 failed after step 5, training: KeyError: 'planted in a callback'",
        marks=pytest.mark.any_tensorflow,
    ),
    proof("data", 20, "Rank 1 failed after step 5, training: ValueError"),
    pytest.param(
        "script",
        20,
        "Rank 1 failed after step 0, in its script: TypeError: planted in the script",
        marks=pytest.mark.any_tensorflow,
    ),
    pytest.param(
        "graph",
        20,
        "Rank 1 does not match rank 0: its variable w0 is ['float32', '(5, 7)'], and",
        marks=pytest.mark.any_tensorflow,
    ),
    proof("steps", 20, "Rank 1 does not match rank 0: its steps_per_epoch is 21, and 20 on rank 0"),
    proof("early end", 20, "waiting for the others (the end of training)"),
    rarely("drift", 20, "after step 8, variable w1 of rank 1 differs from that of rank 0"),
    pytest.param("late", 4, "Rank 1 of 2 (127.0.0.1) did not connect within 4 s", marks=pytest.mark.any_tensorflow),
]
"""Faults that the script plants, the time limit, and the expected error."""


class RanksThatFail:
    """Tests in which one rank fails."""

    ENGINE = ""

    @pytest.mark.parametrize(("fault", "limit", "told"), FAULTS)
    def test_all_ranks_end(self, tmp_path, fault, limit, told):
        """All ranks end soon with a nonzero exit code and an error that names the failed rank. No process is left."""
        self.plant(tmp_path, fault, limit, told)

    def plant(self, tmp_path, fault, limit, told):
        """Plant a fault and check that all ranks end in time, counted from the fault."""
        begun = time.time()
        ended = launch(2, SCRIPT, self.ENGINE, tmp_path, fault, limit)
        planted = tmp_path / "planted"
        seconds = time.time() - (planted.stat().st_mtime if planted.exists() else begun)
        assert 0 != ended.code, ended.out + ended.err
        assert told in ended.out + ended.err, ended.out + ended.err
        assert seconds < 20 + limit, f"{seconds:.0f} s after {fault}"
        assert [] == running_with(str(tmp_path))

"""Tests of the examples in several processes."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.processes import run_python

import tensorpack_lite
from tensorpack_lite import BatchData, DataFromList

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log", "--verbose"]
ENGINE = pytest.mark.parametrize("engine", ["collective", pytest.param("horovod", marks=pytest.mark.horovod)])


def launch(size, name, arguments, directory):
    """Run an example with several ranks in a directory; return their output."""
    program = ["-m", "tensorpack_lite.launch", "-n", size, EXAMPLES / name]
    done = run_python(*program, *arguments, cwd=directory)
    return done.stdout + done.stderr


@pytest.mark.slow
@ENGINE
def test_digits(tmp_path, engine):
    """Each of the 360 images is validated exactly once, and only the chief writes files."""
    output = launch(2, "digits.py", ["--engine", engine, *TWO_STEPS], tmp_path)
    assert "counted 9 datapoints, 360 samples, on 2 ranks" in output
    assert 2 == len(re.findall(r"\bval_accuracy +[0-9]", output))
    assert {"model-2.index", "max-val_accuracy.index", "stats.json"} <= set(os.listdir(tmp_path / "log"))
    assert ["log"] == os.listdir(tmp_path)


@pytest.mark.slow
@ENGINE
def test_resnet(tmp_path, engine):
    """resnet.py runs with BatchNorm over all ranks and float16 gradients."""
    output = launch(2, "resnet.py", ["--engine", engine, "--fp16", "--sync-bn", *TWO_STEPS], tmp_path)
    assert "counted 6 datapoints, 360 samples, on 2 ranks" in output
    assert "model-2.index" in os.listdir(tmp_path / "log")


@pytest.mark.slow
@pytest.mark.proof
def test_one_process(tmp_path, run_example):
    """Without a launcher, the example trains in one process."""
    output = run_example("distributed/digits.py", TWO_STEPS, tmp_path)
    assert re.search(r"\bval_accuracy +[0-9]", output)
    assert "ranks" not in output


@pytest.mark.slow
@pytest.mark.proof
def test_two_ranks_accuracy(tmp_path):
    """Two ranks reach an accuracy of at least 0.98 on the digits."""
    output = launch(2, "digits.py", ["--log-dir", "log"], tmp_path)
    accuracies = re.findall(r"\bval_accuracy +([0-9.]+)", output)
    assert float(accuracies[-1]) >= 0.98


class TestDividing:
    def test_parts(self, load_example):
        """The parts of all ranks together contain each datapoint exactly once, also if shuffled."""
        Part = load_example("distributed/ranks.py").Part
        parts = []
        for rank in range(3):
            tensorpack_lite.fix_rng_seed(7)
            part = Part(DataFromList([[i] for i in range(10)], shuffle=True), rank, 3)
            part.reset_state()
            parts.append([i for (i,) in part])
            assert len(part) == len(parts[-1])
        assert [4, 3, 3] == [len(part) for part in parts]
        assert list(range(10)) == sorted(i for part in parts for i in part)

    @pytest.mark.parametrize(("size", "expected"), [(1, (32, 44)), (2, (16, 44)), (4, (8, 44))])
    def test_steps(self, load_example, size, expected):
        """Ranks share the batch, and no part has fewer batches than the steps of an epoch."""
        example = load_example("distributed/ranks.py")
        args = example.get_parser("", "digits", 1).parse_args([])
        batch, steps = example.divide(1437, 32, args, size)
        assert expected == (batch, steps)
        for rank in range(size):
            assert steps <= len(BatchData(example.Part(DataFromList([[0]] * 1437), rank, size), batch))
        with pytest.raises(ValueError, match="cannot be divided among 3 ranks"):
            example.divide(1437, 32, args, 3)


def test_ray_train_without_ray(tmp_path):
    """Without Ray, ray_train.py names the command that installs it. tests/clusters/test_ray.py runs it with Ray."""
    if importlib.util.find_spec("ray"):
        pytest.skip("Ray is installed")
    command = [sys.executable, str(EXAMPLES / "ray_train.py")]
    done = subprocess.run(command, cwd=str(tmp_path), stderr=subprocess.PIPE, timeout=60, check=False)
    assert 1 == done.returncode
    assert b'pip install "ray[train]"' in done.stderr

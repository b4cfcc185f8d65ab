"""The examples in several processes: two steps on two ranks as a user starts them, and how data is divided."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

import tensorpack_lite
from tensorpack_lite import BatchData, DataFromList

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]
ENGINE = pytest.mark.parametrize("engine", ["collective", pytest.param("horovod", marks=pytest.mark.horovod)])


def launch(size, name, arguments, directory):
    """Run an example on so many ranks, in a directory; gives what they printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(tensorpack_lite.__file__).parents[1]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tensorpack_lite.launch", "-n", str(size), str(EXAMPLES / name), *arguments],
        cwd=str(directory),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    output = done.stdout.decode()
    assert 0 == done.returncode, output
    return output


@pytest.mark.slow
@ENGINE
def test_digits(tmp_path, engine):
    """All 360 images are validated, each once; only the chief writes."""
    output = launch(2, "digits.py", ["--engine", engine, *TWO_STEPS], tmp_path)
    assert "counted 9 datapoints, 360 samples, on 2 ranks" in output
    assert 2 == output.count("val_accuracy: ")
    assert {"model-2.index", "max-val_accuracy.index", "stats.json"} <= set(os.listdir(tmp_path / "log"))
    assert ["log"] == os.listdir(tmp_path)


@pytest.mark.slow
@ENGINE
def test_resnet(tmp_path, engine):
    """With BatchNorm over all ranks, and gradients as float16."""
    output = launch(2, "resnet.py", ["--engine", engine, "--fp16", "--sync-bn", *TWO_STEPS], tmp_path)
    assert "counted 6 datapoints, 360 samples, on 2 ranks" in output
    assert "model-2.index" in os.listdir(tmp_path / "log")


@pytest.mark.slow
def test_alone(tmp_path, run_example):
    """Without a launcher it is a training like any other."""
    output = run_example("distributed/digits.py", TWO_STEPS, tmp_path)
    assert "val_accuracy: " in output
    assert "ranks" not in output


@pytest.mark.slow
@pytest.mark.full
def test_two_ranks_reach_what_one_does(tmp_path):
    """They share the batch: after all epochs, an accuracy of at least 0.98 on the digits."""
    output = launch(2, "digits.py", ["--log-dir", "log"], tmp_path)
    accuracies = [line.split("val_accuracy: ")[1] for line in output.splitlines() if "val_accuracy: " in line]
    assert float(accuracies[-1]) >= 0.98


class TestDividing:
    def test_parts(self, load_example):
        """Together they are everything, in whatever order it comes, and nothing twice."""
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

    @pytest.mark.parametrize(("size", "expected"), [(1, (32, 44)), (2, (16, 44)), (3, (10, 47))])
    def test_steps(self, load_example, size, expected):
        """Ranks share a batch, and no part is shorter than its steps."""
        example = load_example("distributed/ranks.py")
        args = example.get_parser("", "digits", 1).parse_args([])
        batch, steps = example.divide(1437, 32, args, size)
        assert expected == (batch, steps)
        for rank in range(size):
            assert steps <= len(BatchData(example.Part(DataFromList([[0]] * 1437), rank, size), batch))

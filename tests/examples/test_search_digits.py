"""Tests of examples/search_digits.py: the callback that prunes, and searches in one process and in two."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

import pytest
from fakes.programs import read_stats

pytest.importorskip("sklearn")

from tensorpack_lite.utils import logger

SHORT = ["--trials", "2", "--steps-per-epoch", "2", "--max-epoch", "2"]


class FakeTrial:
    """The interface of an `optuna.Trial`, which gives up after `last` reports."""

    number = 7

    def __init__(self, last: int) -> None:
        self.last, self.reported = last, []

    def suggest_float(self, name, low, high, log=False):
        return {"rate": 0.01, "dropout": 0.25}[name]

    def suggest_int(self, name, low, high, log=False):
        return 16

    def report(self, value, step):
        self.reported.append((step, value))

    def should_prune(self):
        return len(self.reported) == self.last


@pytest.fixture
def quiet_again():
    """Undo the example's quiet log and directory."""
    yield
    logger.set_quiet(False)


@pytest.mark.slow
@pytest.mark.parametrize(("last", "epochs"), [(2, 2), (9, 3), (3, 3)])
def test_pruning(load_example, quiet_again, tmp_path, last, epochs):
    """A trial that is given up ends with its epoch, whose statistics and checkpoint are still written."""
    example, trial = load_example("search_digits.py"), FakeTrial(last)
    args = argparse.Namespace(log_dir=str(tmp_path), seed=0, steps_per_epoch=2, max_epoch=3)
    error, is_pruned = example.run_trial(trial, args)
    assert (last <= 3) == is_pruned
    rows = read_stats(tmp_path / "trial007")
    assert list(range(1, epochs + 1)) == [step for step, _ in trial.reported]
    assert [value for _, value in trial.reported] == [row["validation_error"] for row in rows]
    assert error == rows[-1]["validation_error"]
    assert (tmp_path / "trial007" / f"model-{2 * epochs}.index").exists()


@pytest.mark.slow
def test_search(run_example, tmp_path):
    """A search trains in one process, each trial in its own directory, and its commands for comparisons run."""
    pytest.importorskip("optuna")
    output = run_example("search_digits.py", SHORT, tmp_path)
    assert "2 trials are complete, 0 pruned." in output
    assert ["trial000", "trial001"] == sorted(path.name for path in (tmp_path / "train_log/search_digits").iterdir())
    commands = re.findall(r"tensorpack-lite (.*)", output)
    assert 2 == len(commands)
    for command in commands:
        line = f"{sys.executable} -m tensorpack_lite {command}"
        done = subprocess.run(line, shell=True, cwd=str(tmp_path), capture_output=True, check=False, timeout=300)
        assert done.returncode in (0, 1), done.stderr.decode()  # 1: they differ
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_two_processes(run_example, tmp_path):
    """A second process with the same storage continues the study of the first."""
    pytest.importorskip("optuna")
    for _ in range(2):
        output = run_example("search_digits.py", [*SHORT, "--storage", "sqlite:///search.db"], tmp_path)
    assert "4 trials are complete, 0 pruned." in output

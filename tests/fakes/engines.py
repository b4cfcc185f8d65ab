"""Shared by the tests of all engines: the script, its output, and comparisons with the local launcher."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from fakes.exact_trainings import compared_rows
from fakes.launching import TESTS, environment
from fakes.patience import PATIENCE

SCRIPT = str(TESTS / "fakes" / "exact_ranks.py")
NUM_STEPS = 30  # of the script


def python_command(directory, kind="own", *fault, engine="collective"):
    """Return the command of a rank as one string, for scripts of schedulers."""
    return " ".join(map(str, [sys.executable, "-W", "ignore", SCRIPT, engine, directory, kind, *fault]))


def rank_environment(**more):
    """Return the environment of ranks: without the variables of the launcher of the tests, with others, and with a long time limit."""
    prefixes = ("SLURM_", "OMPI_", "PMI", "TORCHELASTIC_", "TENSORPACK_RANK", "TF_CONFIG")
    inherited = {k: v for k, v in environment(TIME_LIMIT="600").items() if not k.startswith(prefixes)}
    return {**inherited, **more}


def run(command, **more):
    """Run a command, with these variables besides those of `rank_environment`, until it ends; return the CompletedProcess."""
    return subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        env=rank_environment(**more),
    )


def results(directory):
    """Return the bytes of the final checkpoint, and the statistics without measured ones."""
    names = (f"model-{NUM_STEPS}.data-00000-of-00001", f"model-{NUM_STEPS}.index")
    return [*((directory / "log" / name).read_bytes() for name in names), compared_rows(directory / "log")]


def batches(directory, rank):
    """Return the lines that a rank has written: the step, what it has drawn, and the batch."""
    return [json.loads(line) for line in (directory / f"rank-{rank}.txt").read_text().splitlines()]


def assert_equal_trainings(expected, directory, size):
    """Compare the checkpoint, the statistics and the batches of all ranks with those of another training."""
    assert results(expected) == results(directory)
    for rank in range(size):
        whole = {line[0]: line for line in batches(expected, rank)}
        assert list(range(1, NUM_STEPS + 1)) == sorted(whole)
        lines = batches(directory, rank)
        assert lines
        assert all(line == whole[line[0]] for line in lines)


def require(*programs):
    """Fail if a program is missing, or this is not root: these tests are not skipped silently."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.fail(f"needs root and {', '.join(missing) or programs}; see tox.ini, [testenv:clusters]")

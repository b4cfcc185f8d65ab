"""A computation has the same bytes in each run, in fresh sessions and processes, with one, two and more threads, on a busy machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.repeat_rows import Inputs
from conformance.repeat_updates import GROUPS
from fakes.repeat_runs import ABSENT, NAMED, measure

SCRIPT = Path(__file__).parents[1] / "fakes" / "repeat_runs.py"
NUM_PROCESSES, NUM_SESSIONS = 2, 10
MOST_ABSENT = 1  # on TensorFlow 2, AccumGradOptimizer does not take reference variables


def run(threads):
    """Run all cases in a process. Return the digests of each, or a sentence; see `measure`."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(threads), str(NUM_SESSIONS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {case: found for line in lines for case, found in line.items()}


@pytest.fixture
def busy_machine():
    """Start two processes that compute all the time."""
    others = []
    try:
        others += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def test_one_case():
    """The gradients of a loss are equal in three sessions."""
    found = measure({"l2_loss": GROUPS["losses"]["l2_loss"]}, Inputs, threads=2, sessions=3)["l2_loss"]
    assert [found[0]] * 3 == found


@pytest.mark.proof
@pytest.mark.parametrize("threads", [1, 2, 4])  # four on two cores are interrupted anywhere
def test_same_bytes(threads, busy_machine):
    """All layers, losses, reductions, updates and optimizers that `find_not_repeatable` does not list have equal bytes in 20 runs."""
    runs = [run(threads) for _ in range(NUM_PROCESSES)]
    names = {name for cases in GROUPS.values() for name in cases}
    assert names == set(runs[0])
    sentences = {case: found for case, found in runs[0].items() if isinstance(found, str)}
    assert len([found for found in sentences.values() if found.startswith(ABSENT)]) <= MOST_ABSENT
    different = {case for case in names - set(sentences) if len({found for each in runs for found in each[case]}) > 1}
    assert set() == different
    named = {case for case, found in sentences.items() if found.startswith(NAMED)}
    assert ("crop_and_resize" in named) == (threads > 1)
    assert not [case for case in named if case.startswith(("Adam", "Momentum", "sparse_segment", "gather"))]

"""Training runs that a scheduler ends by SIGTERM or SIGUSR1, and that resume: real processes of `fakes/preempted_script.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from fakes.processes import python_environment

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]

# case -> checkpoints after the signal. In each epoch of 4 steps, the signal comes at step 2 or in the validation after it.
SAVED = {
    "step": [4, 6], "long_step": [4, 6], "waiting": [4, 6], "staging": [4, 6], "validation": [4, 8],
    "parallel_validation": [4, 8], "validation_waits": [4, 8], "group": [4, 6], "usr1": [4, 6], "chained": [4, 6],
}  # fmt: skip
NOT_SAVED = {"before": 143, "second": -15, "limit": 143, "disk": 1, "no_saver": 143}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    script = os.path.join(os.path.dirname(os.path.dirname(__file__)), "fakes", "preempted_script.py")
    output = subprocess.check_output(
        [sys.executable, "-W", "ignore", script, str(tmp_path_factory.mktemp("cases")), "undisturbed", *SAVED, *NOT_SAVED],
        stderr=subprocess.DEVNULL,
        env=python_environment(),
        timeout=300,
    )  # fmt: skip
    return json.loads(output.splitlines()[-1])


def first_process(result):
    return result["output"].partition("--- again")[0]


@pytest.mark.parametrize("case", SAVED)
def test_a_checkpoint_is_saved(report, case):
    """The training saves a checkpoint, calls after_train of all callbacks, and raises Preempted, with exit code 143."""
    result = report[case]
    output = first_process(result)
    assert [143, 0] == result["codes"], output
    assert SAVED[case] == result["steps"], output
    assert 2 == output.count("AFTER_TRAIN"), output
    assert f"RAISED Preempted Training was ended by SIG{'USR1' if case == 'usr1' else 'TERM'}." in output


@pytest.mark.parametrize("case", [case for case in [*SAVED, *NOT_SAVED] if case != "no_saver"])
def test_the_resumed_training_is_complete(report, case):
    """After the resume, stats.json has the rows of a training that was not interrupted, and so has the last checkpoint."""
    for key in ("rows", "w", "global_step"):
        assert report["undisturbed"][key] == report[case][key], report[case]["output"]


@pytest.mark.parametrize("case", NOT_SAVED)
def test_no_checkpoint_is_saved(report, case):
    """Before step 1, after a second SIGTERM, after the time limit, with a full disk or without a ModelSaver, none is saved."""
    result = report[case]
    output = first_process(result)
    assert NOT_SAVED[case] == result["codes"][0], output
    assert ([] if case in ("before", "no_saver") else [4]) == result["steps"], output
    reason = {
        "before": "No step was done, so there is nothing to save.",
        "limit": "Training did not end within 1 s: the process is ended.",
        "disk": "OSError: ModelSaver: cannot write",
        "no_saver": "There is no ModelSaver among the callbacks",
        "second": "Received SIGTERM",
    }[case]
    assert reason in output


def test_a_round_of_validation_is_dropped(report):
    """A signal between two datapoints ends the round. The resumed training evaluates all datapoints."""
    assert "ROUND WAS NOT DROPPED" not in first_process(report["validation"])
    assert "counted 5 datapoints" not in first_process(report["parallel_validation"])
    assert "counted 5 datapoints" in report["parallel_validation"]["output"]


def test_handlers(report):
    """A handler that was installed before is called too. After training, the handlers of before are back."""
    output = first_process(report["chained"])
    assert 1 == output.count("HANDLER 15")
    assert "HANDLERS mine 0 -1" in output
    assert "HANDLERS 0 0 -1" in first_process(report["step"])

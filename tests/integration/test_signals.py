"""Training runs that get SIGTERM, SIGUSR1 or Ctrl-C, and that resume: real processes of `fakes/signal_script.py`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from fakes.launching import TESTS
from fakes.processes import python_environment

pytestmark = pytest.mark.slow

SCRIPT = str(TESTS / "fakes" / "signal_script.py")
PLAIN_CODE = -signal.SIGINT if sys.version_info >= (3, 8) else 1  # Python's own after KeyboardInterrupt

# case -> exit code, checkpoints after the signal. In each epoch of 4 steps, it comes at step 2 or in the validation after it.
SAVED = {
    **dict.fromkeys(["step", "long_step", "waiting", "staging", "group", "usr1", "chained"], (143, [4, 6])),
    **dict.fromkeys(["validation", "parallel_validation", "validation_waits"], (143, [4, 8])),
    **dict.fromkeys(["ctrl_c", "ctrl_c_waiting"], (130, [4, 6])),
}
# case -> exit code, checkpoints, what the output says about it
NOT_SAVED = {
    "before": (143, [], "No step was done, so there is nothing to save."),
    "second": (-signal.SIGTERM, [4], "Received SIGTERM"),
    "limit": (143, [4], "Training did not end within 1 s: the process is ended."),
    "disk": (1, [4], "OSError: ModelSaver: cannot write"),
    "no_saver": (143, [], "There is no ModelSaver among the callbacks"),
    "ctrl_c_twice": (PLAIN_CODE, [4], ""),
    "ctrl_c_not_exact": (PLAIN_CODE, [4], "Ctrl-C: leaving the main loop."),
    "ctrl_c_no_saver": (PLAIN_CODE, [], "Ctrl-C: leaving the main loop."),
    "ctrl_c_own_handler": (1, [4], "ZeroDivisionError: of the handler"),
}
CAUGHT = {"ctrl_c_caught": [4, 6], "ctrl_c_caught_not_exact": [4]}
ENDS_AT_ONCE = ["ctrl_c_not_exact", "ctrl_c_no_saver"]
RESUMED = ["before", "second", "limit", "disk", "ctrl_c_twice", "ctrl_c_own_handler"]
WAITING = ["queue", "staging_first", "dataset", "inference"]
OTHERS_WAITING = [
    "feed", "batch_queue", "after_staging", "staging_dataset", "zmq", "replicated", "parameter_server", "async",
    "inference_dataset", "data_parallel_inference",
]  # fmt: skip


def run_cases(directory, cases):
    output = subprocess.check_output(
        [sys.executable, "-W", "ignore", SCRIPT, str(directory), *cases],
        stderr=subprocess.DEVNULL,
        env=python_environment(),
        cwd=str(directory),
        timeout=500,
    )
    return json.loads(output.splitlines()[-1])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("cases"), ["undisturbed", *SAVED, *NOT_SAVED, *CAUGHT])


@pytest.mark.any_tensorflow
@pytest.mark.parametrize("case", SAVED)
def test_a_checkpoint_is_saved(report, case):
    """A checkpoint is saved after the current step, after_train is called once, and the exit code shows the signal."""
    code, steps = SAVED[case]
    output = report[case]["outputs"][0]
    assert ([code, 0], steps) == (report[case]["codes"], report[case]["steps"]), output
    assert 2 == output.count("AFTER_TRAIN"), output  # of two callbacks
    assert "RETURNED" not in output
    if code == 143:
        assert f"RAISED Preempted Training was ended by SIG{'USR1' if case == 'usr1' else 'TERM'}." in output
    else:
        assert f"It ends at global_step={steps[-1]} with exit code 130." in output
        assert "KeyboardInterrupt: Training was ended by Ctrl-C." == output.splitlines()[-1]
        assert "Traceback" not in output


@pytest.mark.any_tensorflow
@pytest.mark.parametrize("case", [*SAVED, *RESUMED])
def test_the_resumed_training_is_complete(report, case):
    """After the resume, stats.json has the rows of a training that was not interrupted, and so has the last checkpoint."""
    for key in ("rows", "w", "global_step"):
        assert report["undisturbed"][key] == report[case][key], report[case]["outputs"]


@pytest.mark.any_tensorflow
@pytest.mark.parametrize("case", NOT_SAVED)
def test_no_checkpoint_is_saved(report, case):
    """
    Nothing is saved before step 1, after a second signal or the time limit, with a full disk, without a ModelSaver, and at Ctrl-C
    without exact resume or with a handler of the user.
    """
    code, steps, reason = NOT_SAVED[case]
    output = report[case]["outputs"][0]
    assert (code, steps) == (report[case]["codes"][0], report[case]["steps"]), output
    assert reason in output
    if "ctrl_c" in case:
        assert 2 == output.count("AFTER_TRAIN"), output
        assert (case == "ctrl_c_own_handler") == ("Traceback" in output), output
        assert output.splitlines()[-1].startswith(reason if "handler" in case else "KeyboardInterrupt: ")
    if case in ENDS_AT_ONCE:
        assert 1 == output.count(reason)
        assert "KeyboardInterrupt: Ctrl-C ended the training." == output.splitlines()[-1]


@pytest.mark.any_tensorflow
@pytest.mark.parametrize("case", CAUGHT)
def test_a_caller_that_catches_it(report, case):
    """`except KeyboardInterrupt` works as with any function of Python; the handler of before is back."""
    lines = report[case]["outputs"][0].splitlines()
    assert ["CAUGHT False", "HANDLERS default_int_handler 0 0 -1", "RETURNED"] == lines[-3:]
    assert ([0], CAUGHT[case]) == (report[case]["codes"], report[case]["steps"])


@pytest.mark.any_tensorflow
def test_a_round_of_validation_is_dropped(report):
    """A signal between two datapoints ends the round. The resumed training evaluates all datapoints."""
    assert "LAST DATAPOINT" not in report["validation"]["outputs"][0]
    first, resumed = report["parallel_validation"]["outputs"]
    assert "counted 5 datapoints" not in first
    assert "counted 5 datapoints" in resumed


@pytest.mark.any_tensorflow
def test_handlers(report):
    """A handler that was installed before is called too. After training, the handlers of before are back."""
    output = report["chained"]["outputs"][0]
    assert 1 == output.count("HANDLER 15")
    assert "HANDLERS default_int_handler mine 0 -1" in output
    assert "HANDLERS default_int_handler 0 0 -1" in report["step"]["outputs"][0]


@pytest.mark.parametrize("cases", [WAITING, pytest.param(OTHERS_WAITING, marks=pytest.mark.full)], ids=len)
def test_a_main_thread_that_waits(tmp_path, cases):
    """The first Ctrl-C ends a wait inside TensorFlow with KeyboardInterrupt, and callbacks can use the session in after_train."""
    for case, result in run_cases(tmp_path, cases).items():
        (output,) = result["outputs"]
        assert "RAISED KeyboardInterrupt" in output, (case, output)
        assert 2 == output.count("AFTER_TRAIN"), (case, output)
        assert "RETURNED" not in output, (case, output)
        assert "HANDLERS default_int_handler 0 0 -1" in output, (case, output)
        assert output.splitlines()[-1].startswith("KeyboardInterrupt: "), (case, output)


@pytest.mark.any_tensorflow
def test_handler_of_the_user(tmp_path):
    """The user's handler is called once, in the main thread. Training ends with its error or with KeyboardInterrupt."""
    expected = {
        "raising_handler": ("ZeroDivisionError", "raising"),
        "exiting_handler": ("SystemExit", "exiting"),
        "quiet_handler": ("KeyboardInterrupt", "mine"),
    }
    for case, result in run_cases(tmp_path, expected).items():
        (output,), (error, name) = result["outputs"], expected[case]
        assert f"RAISED {error}" in output, (case, output)
        assert 1 == output.count("HANDLER 2"), (case, output)
        assert 2 == output.count("AFTER_TRAIN"), (case, output)
        assert f"HANDLERS {name} 0 0 -1" in output, (case, output)

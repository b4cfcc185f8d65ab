"""After Ctrl-C, a script leaves no worker process, and its output does not end in tracebacks of threads and workers."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from fakes.processes import RUN, run_program
from fakes.programs import program_runner

pytestmark = [pytest.mark.slow]

SCRIPT = Path(__file__).parents[1] / "fakes" / "workers_script.py"
PATIENCE = 2.0  # seconds
STAGES = [
    "MultiProcessMapData",
    "MultiProcessMapAndBatchDataZMQ",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "nested",
]
PLAIN = ["reset_state", "native code", "loop", "thread", "started in a thread"]
TRAINING = ["graph", "no datapoint", "training", "validation", "after_train"]


@pytest.fixture(scope="module")
def runner():
    with program_runner() as runner:
        runner.limit = 120
        yield runner


def processes_of(directory):
    """Return the pids of all processes whose working directory it is."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd") == str(directory):
                found.append(int(name))
        except OSError:  # it has ended, or is not ours
            continue
    return found


@pytest.fixture
def press(runner, tmp_path):
    """Run the script until Ctrl-C has ended it. Return its output and how many workers are there two seconds later."""
    shutil.copy(str(SCRIPT), str(tmp_path / "script.py"))

    def press(is_old=False, **options):
        defaults = {"stage": "MultiProcessRunnerZMQ", "method": "fork", "group": True, "busy": False}
        (tmp_path / "options.json").write_text(json.dumps({**defaults, **options}))
        if is_old:
            status, output = run_program(tmp_path, "script.py", *RUN)
        else:
            status, output = runner.run_to_any_end(tmp_path, str(tmp_path / "script.py"))
        end = time.monotonic() + PATIENCE
        while processes_of(tmp_path) and time.monotonic() < end:
            time.sleep(0.02)
        left = processes_of(tmp_path)
        assert (tmp_path / "pressed").exists(), output
        assert 0 != status, output  # the signal was not lost
        return output, len(left)

    return press


@pytest.mark.matrix
@pytest.mark.parametrize("moment", PLAIN)
@pytest.mark.parametrize("group", [True, False], ids=["group", "main process"])
def test_a_loop_over_the_data(press, moment, group):
    """Ctrl-C in a script without a trainer ends all workers, and prints only the traceback of the main thread."""
    output, left = press(moment=moment, group=group)
    assert (0, 1) == (left, output.count("Traceback")), output
    assert output.splitlines()[-1].startswith("KeyboardInterrupt")


@pytest.mark.matrix
@pytest.mark.parametrize("moment", TRAINING)
def test_a_training(press, moment):
    """Ctrl-C in a training ends all workers, and prints one line."""
    output, left = press(moment=moment)
    assert 0 == left, output
    lines = output.splitlines()
    assert lines[-1].startswith("KeyboardInterrupt: ")
    assert moment == "after_train" or "Traceback" not in output


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("stage", "moment"), [("MultiProcessMapData", "training"), ("MultiProcessRunnerZMQ", "validation")]
)
def test_an_old_script(press, stage, moment):
    """The same holds under `tensorpack-lite run`."""
    output, left = press(is_old=True, stage=stage, moment=moment)
    assert 0 == left, output
    assert output.splitlines()[-1].startswith("KeyboardInterrupt: ")
    assert "Traceback" not in output


@pytest.mark.matrix
@pytest.mark.full
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("moment", ["loop", "reset_state"])
def test_each_stage(press, stage, moment):
    """The workers of each stage end, also if they are in a call that holds the interpreter's lock."""
    output, left = press(stage=stage, moment=moment, busy=True)
    assert (0, 1) == (left, output.count("Traceback")), output


@pytest.mark.parametrize("moment", ["each start", "reset_state", "loop"])
def test_spawned_workers(press, moment):
    """Spawned workers, which import the script first, end too, and print nothing."""
    output, left = press(moment=moment, method="spawn")
    assert (0, 1) == (left, output.count("Traceback")), output

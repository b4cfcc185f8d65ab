"""Ctrl-C in real processes: what is saved, what the script prints, and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from fakes.programs import program_runner

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]

SCRIPT = Path(__file__).parents[1] / "fakes" / "ctrl_c_script.py"
PLAIN_CODE = -signal.SIGINT if sys.version_info >= (3, 8) else 1  # Python's own after KeyboardInterrupt
LONG = 200  # seconds


@pytest.fixture(scope="module")
def runner():
    with program_runner() as runner:
        runner.limit = 180
        yield runner


@pytest.fixture
def run(runner, tmp_path):
    """Run the script, which sends itself SIGINT. Return its exit code, negative for a signal, and its output."""
    shutil.copy(str(SCRIPT), str(tmp_path / "script.py"))

    def run(**options):
        (tmp_path / "options.json").write_text(json.dumps(options))
        status, output = runner.run_to_any_end(tmp_path, "script.py")
        return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)), output

    return run


def checkpoints(tmp_path):
    return sorted(
        int(name[6:-6])
        for name in os.listdir(str(tmp_path / "log"))
        if name.startswith("model-") and name.endswith(".index")
    )


@pytest.mark.matrix
@pytest.mark.parametrize("source", ["feed", "queue"])
def test_the_first_one_saves(run, tmp_path, source):
    """With exact and a ModelSaver, Ctrl-C saves a checkpoint after the current step, and the exit code is 130."""
    code, output = run(input=source)
    assert 130 == code, output
    saved = checkpoints(tmp_path)
    assert 10 == saved[0], output
    assert 1 < len(saved), output
    assert 1 == output.count("AFTER_TRAIN"), output
    assert "RETURNED" not in output
    assert f"It ends at global_step={saved[-1]} with exit code 130." in output
    assert "Traceback" not in output
    assert "KeyboardInterrupt: Training was ended by Ctrl-C." == output.splitlines()[-1]


def test_the_training_resumes(run, tmp_path):
    """The next start continues after the step at which Ctrl-C came."""
    run()
    saved = checkpoints(tmp_path)[-1]
    _, output = run()
    assert f"Resuming after step {saved} of 1000000 of epoch 1 (global_step {saved})." in output
    assert saved + 13 <= checkpoints(tmp_path)[-1]


def test_the_second_one_ends_at_once(run, tmp_path):
    """A second Ctrl-C ends training at once, without a checkpoint."""
    code, output = run(signals=2, sleep=LONG)
    assert PLAIN_CODE == code, output
    assert [10] == checkpoints(tmp_path)
    assert 1 == output.count("AFTER_TRAIN"), output
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("KeyboardInterrupt: ")


@pytest.mark.parametrize("options", [{"exact": False}, {"saver": False}], ids=["exact", "saver"])
def test_without(run, tmp_path, options):
    """Without exact or without a ModelSaver, Ctrl-C ends training at once, and the script ends with one line."""
    code, output = run(sleep=LONG, **options)
    assert PLAIN_CODE == code, output
    assert ([10] if options.get("saver", True) else []) == checkpoints(tmp_path)
    assert 1 == output.count("AFTER_TRAIN"), output
    assert 1 == output.count("Ctrl-C: leaving the main loop."), output
    assert "Traceback" not in output
    assert "KeyboardInterrupt: Ctrl-C ended the training." == output.splitlines()[-1]


@pytest.mark.parametrize("exact", [True, False])
def test_a_caller_that_catches_it(run, tmp_path, exact):
    """`except KeyboardInterrupt` works as with any function of Python; the handler of before is back."""
    code, output = run(exact=exact, catch=True)
    assert 0 == code, output
    assert ["CAUGHT False default_int_handler", "RETURNED"] == output.splitlines()[-2:]
    assert exact == (len(checkpoints(tmp_path)) > 1)


def test_a_handler_of_the_user(run, tmp_path):
    """A handler that the script has installed is called, and its error is printed as usual."""
    code, output = run(handler=True, sleep=LONG)
    assert 1 == code, output
    assert 1 == output.count("HANDLER")
    assert "ZeroDivisionError: of the handler" == output.splitlines()[-1]
    assert 1 == output.count("Traceback")
    assert [10] == checkpoints(tmp_path)

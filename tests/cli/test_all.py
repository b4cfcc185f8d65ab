"""What commands have in common: those that need no TensorFlow, and the error for a script that is missing."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.processes import python_environment, run_python
from fakes.reports import write_training

from tensorpack_lite.cli.main import main

DATA = "from tensorpack_lite.dataflow import DataFromList\ndef make(): return DataFromList([[k] for k in range(20)])\n"


@pytest.fixture
def here(tmp_path):
    """A directory with two training runs, an npz file, data, and a module `tensorflow` that cannot be imported."""
    (tmp_path / "tensorflow.py").write_text("raise ImportError('TensorFlow is not needed')\n")
    (tmp_path / "mine.py").write_text(DATA)
    np.savez(str(tmp_path / "x.npz"), w=np.zeros(3))
    for name in "ab":
        write_training(tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["ls-checkpoint", "x.npz"], 0, "1 variables"),
        (["ls-checkpoint", "no.npz"], 2, "no.npz"),
        (["checkpoint-diff", "x.npz", "x.npz"], 0, "0 of 1 variables differ"),
        (["diff", "a", "b"], 0, "Same"),
        (["report", "a", "b"], 0, "report.html"),
        (["data-check", "mine:make", "--seconds", "0.1"], 0, "len() says 20"),
        (["resume-check", "mine:make", "--cuts", "1"], 0, "two more passes were the same"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_without_tensorflow(here, arguments, code, text):
    """Commands that read files or data do not import TensorFlow, neither here nor in the processes that they start."""
    paths = os.pathsep.join([str(here), python_environment()["PYTHONPATH"]])
    done = run_python("-m", "tensorpack_lite", *arguments, cwd=here, exit_code=code, PYTHONPATH=paths)
    assert text in " ".join((done.stdout + done.stderr).split())


def test_only_the_process_of_the_script_needs_tensorflow():
    """The module of the commands that run a script does not import TensorFlow, which takes seconds."""
    code = "import sys, tensorpack_lite.cli.scripts; print('tensorflow' in sys.modules)"
    assert "False\n" == run_python("-c", code).stdout


@pytest.mark.parametrize("command", ["rehearse", "find-batch", "find-lr", "schedule", "lint"])
def test_a_missing_script(command, capsys):
    """Without a script, or with one that does not exist, the exit code is 2, and the error has an example."""
    assert 2 == main([command])
    assert f"expected a script. Example: tensorpack-lite {command} train.py" in capsys.readouterr().err
    assert 2 == main([command, "gone.py"])
    assert "gone.py does not exist" in capsys.readouterr().err

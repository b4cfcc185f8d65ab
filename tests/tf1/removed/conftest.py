"""Run small scripts in an environment of `tensorpack-lite run`."""

from __future__ import annotations

import pytest
from tf1.command import run_quickly


@pytest.fixture
def output(write, tmp_path):
    """Return a function that runs a script. It returns the lines of stdout, and those of the log."""

    def run_script(text, **environment):
        write("train.py", text)
        result = run_quickly("train.py", cwd=tmp_path, **environment)
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
        lines = [line for line in result.stderr.splitlines() if line.startswith("tensorpack-lite run: ")]
        return result.stdout.splitlines(), [line.partition(": ")[2] for line in lines]

    return run_script

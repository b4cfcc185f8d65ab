"""Running a script in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tensorpack_lite.utils

WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None\n"  # faster, and it is not needed
ROOT = str(Path(tensorpack_lite.utils.__file__).parents[2])


def make_script(directory, code: str) -> list:
    """Write a script; returns the command that runs it."""
    path = directory / "script.py"
    path.write_text(WITHOUT_TENSORFLOW + textwrap.dedent(code))
    return [sys.executable, str(path)]


@pytest.fixture
def run_script(tmp_path):
    """Function: run a script to its end; gives its outputs as text and its return code."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            make_script(tmp_path, code),
            env=dict(os.environ, PYTHONPATH=ROOT, **environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def start_script(tmp_path):
    """Function: start a script; gives the Popen, which is killed at the end of the test."""
    started = []

    def start(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            make_script(tmp_path, code),
            env=dict(os.environ, PYTHONPATH=ROOT),
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()

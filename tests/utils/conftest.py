"""Fixtures that run a script in another interpreter."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from fakes.processes import python_environment

WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None\n"  # starts faster


@pytest.fixture
def write_script(tmp_path):
    """Function that writes a script and returns its path."""

    def write(code: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(WITHOUT_TENSORFLOW + textwrap.dedent(code))
        return str(path)

    return write


@pytest.fixture
def run_script(write_script):
    """Function that runs a script to its end and returns its output as text and its return code."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, write_script(code)],
            env=python_environment(**environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run

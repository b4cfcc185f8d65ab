"""Runs programs in forks of one process, which has TensorFlow imported: importing it takes longer than most of them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import tensorpack_lite

__all__ = ["ProgramRunner", "program_runner"]


class ProgramRunner:
    """Runs programs one after the other, through the pipes of `program_server.py`."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process

    def run(self, directory: Path, program: str) -> str:
        """Run a program that lies in a directory, as `python <program>` there would; gives what it printed."""
        status, output = self.run_to_any_end(directory, program)
        assert 0 == status, output
        return output

    def run_to_any_end(self, directory: Path, program: str) -> tuple[int, str]:
        """Run a program that may fail or be killed; returns its status, as `os.waitpid` gives it, and what it printed."""
        self._process.stdin.write(f"{directory}\t{program}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return status, (directory / "output.txt").read_text(encoding="utf-8")


@contextmanager
def program_runner():
    """Start the process, and end it."""
    library = str(Path(tensorpack_lite.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("program_server.py"))],
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=library),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    with process:
        yield ProgramRunner(process)
        process.stdin.close()

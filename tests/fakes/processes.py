"""Python processes that end with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import tensorpack_lite.utils

__all__ = ["RUN", "python_environment", "python_starter", "run_program", "run_python"]

RUN = ("-m", "tensorpack_lite", "run")
_ROOT = Path(tensorpack_lite.utils.__file__).parents[2]


def python_environment(**variables: str) -> dict:
    """Return the environment of a process that imports the library and `fakes`."""
    path = os.pathsep.join([str(_ROOT), str(Path(__file__).parents[1])])
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": path, **variables}


def run_python(*arguments, cwd=None, exit_code: int = 0, **variables: str) -> subprocess.CompletedProcess:
    """Run `python *arguments`, which must end with an exit code. Return the process, with its stdout and stderr as text."""
    command = [sys.executable, *map(str, arguments)]
    environment = python_environment(**variables)
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
    assert exit_code == ended.returncode, ended.stdout + ended.stderr
    return ended


def run_program(directory, program: str, *command: str, **variables: str) -> tuple[int, str]:
    """Run `python *command program` in a directory. Return its exit code and output."""
    ended = subprocess.run(
        [sys.executable, *command, program],
        cwd=str(directory),
        env=python_environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return ended.returncode, ended.stdout


@contextmanager
def python_starter():
    """Yield a function that runs `python *args` and returns the Popen. The processes are killed on leaving."""
    processes = []

    def start(*args, **options) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=python_environment(),
            universal_newlines=True,
            **options,
        )
        processes.append(process)
        return process

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            with process:  # closes its pipes and waits
                pass

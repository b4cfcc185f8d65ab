"""Functions that start ranks the way a user does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = str(TESTS / "fakes" / "rank_script.py")
CASES = str(TESTS / "fakes" / "ranks_script.py")


class Ended(NamedTuple):
    """Exit code and output of a process."""

    code: int
    out: str
    err: str
    seconds: float


def environment(**more):
    """Return an environment with the library on its path, and without the variables of a cluster."""
    quiet = {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "TENSORPACK_RANKS_ADDRESS")}
    paths = [str(TESTS.parent), str(TESTS)]
    return {**quiet, "PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3", **more}


def start_command(command, stderr=subprocess.PIPE, cwd=None, **more):
    """Start a command, with more variables in its environment, and return the process."""
    return subprocess.Popen(
        list(map(str, command)),
        env=environment(**more),
        cwd=cwd and str(cwd),
        stdout=subprocess.PIPE,
        stderr=stderr,
        universal_newlines=True,
    )


def start(*args, **more):
    """Start Python with these arguments and return the process."""
    return start_command([sys.executable, "-W", "ignore", *args], **more)


def wait(process, timeout=120.0):
    """Wait for a process that `start` returned."""
    begun = time.monotonic()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {timeout} s:\n{out}\n{err}") from None
    return Ended(process.returncode, out, err, time.monotonic() - begun)


def launch(size, script, *args, options=(), timeout=120.0):
    """Run the launcher on a script until it ends."""
    return wait(start("-m", "tensorpack_lite.launch", "-n", size, *options, script, *args), timeout)


def running_with(text):
    """Return the pids of processes whose command line contains a text."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or text not in " ".join(process.cmdline()):
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found

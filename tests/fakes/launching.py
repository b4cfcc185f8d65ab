"""Starting ranks as a user does, for tests."""

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


class Ended(NamedTuple):
    """What a process left behind."""

    code: int
    out: str
    err: str
    seconds: float


def environment(**more):
    """A quiet environment in which the library is found, without the variables of a cluster."""
    quiet = {
        key: value
        for key, value in os.environ.items()
        if key not in ("TF_CONFIG", "TENSORPACK_RANKS_ADDRESS")
    }
    paths = [str(TESTS.parent), str(TESTS)]
    return {**quiet, "PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3", **more}


def start(*args, **more):
    """Start Python on arguments."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *map(str, args)],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )


def wait(process, timeout=120.0):
    """Wait for a process that `start` gave."""
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
    """The processes whose command line holds a text: those that a test left behind."""
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

"""
Runs programs, each in a process and a directory of its own, without importing TensorFlow anew for each.

A line of the standard input is a directory and a program in it, with a tab between them. The program runs in a fork that has
only NumPy and TensorFlow imported, as its `__main__`; what it prints goes to `output.txt` in the directory, and
its exit status to the standard output.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

import numpy as np  # noqa: F401 (imported once, for all)
import tensorflow as tf  # noqa: F401


def main() -> None:
    """Fork for each line; returns in the child, which is to run its program."""
    for line in sys.stdin:
        directory, program = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            enter(directory, program)
            return
        _, status = os.waitpid(child, 0)
        print(status, flush=True)
    sys.exit()


def enter(directory: str, program: str) -> None:
    """Make this process what `python program` in that directory would be."""
    os.chdir(directory)
    nothing, output = (
        os.open(os.devnull, os.O_RDONLY),
        os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    )
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv, sys.path[0] = [program], directory
    signal.alarm(300)  # one that hangs is killed


if __name__ == "__main__":
    main()
    runpy.run_path(sys.argv[0], run_name="__main__")

"""
Server that runs programs in forks, so that TensorFlow is imported only once.

Each line of stdin is a directory, a program in it, and after how many seconds it is killed (0: never), separated by tabs. The
program runs as `__main__` in a fork that has imported only NumPy and TensorFlow. Its output is written to `output.txt` in the
directory, its exit status to stdout. With the argument `seed`, each graph of the programs has a seed.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

import numpy as np  # noqa: F401 (imported once for all programs)
import tensorflow as tf  # noqa: F401
from seeds import seed_graphs


def main() -> None:
    """Fork for each line. Return in the child, which then runs its program."""
    if sys.argv[1:] == ["seed"]:
        seed_graphs()
    for line in sys.stdin:
        directory, program, seconds = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            enter(directory, program)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # tests inherit from pygame that it is ignored
            signal.alarm(int(seconds))
            return
        _, status = os.waitpid(child, 0)
        print(status, flush=True)
    sys.exit()


def enter(directory: str, program: str) -> None:
    """Set up this process like `python program` in the directory."""
    os.chdir(directory)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv, sys.path[0] = [program], directory


if __name__ == "__main__":
    main()
    runpy.run_path(sys.argv[0], run_name="__main__")

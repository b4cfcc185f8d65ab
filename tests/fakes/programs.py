"""Client of `program_server.py`, which runs programs without importing TensorFlow for each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from .processes import python_environment

__all__ = ["ProgramRunner", "program_runner", "read_figures", "read_stats"]


class ProgramRunner:
    """
    Runs programs one after the other.

    Attributes:
        limit: the seconds after which a program that hangs is killed. 0: never.
    """

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process
        self.limit = 300

    def run(self, directory: Path, program: str) -> str:
        """Run a program in a directory, like `python <program>`, and return its output."""
        status, output = self.run_to_any_end(directory, program)
        assert 0 == status, output[-4000:]
        return output

    def run_to_any_end(self, directory: Path, program: str) -> tuple[int, str]:
        """Run a program that may fail or be killed, and return its status, as from `os.waitpid`, and its output."""
        self._process.stdin.write(f"{directory}\t{program}\t{self.limit}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return status, (directory / "output.txt").read_text(encoding="utf-8")


@contextmanager
def program_runner(*, has_seed: bool = False):
    """
    Context with a `ProgramRunner`.

    Args:
        has_seed: whether each graph of the programs has a seed, for programs that claim a result.
    """
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("program_server.py")), *(["seed"] if has_seed else [])],
        env=python_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    with process:
        yield ProgramRunner(process)
        process.stdin.close()


def read_stats(directory: Path) -> list:
    """Return the rows of a directory's stats.json."""
    return json.loads((directory / "stats.json").read_text(encoding="utf-8"))


def read_figures(directory: Path) -> dict:
    """Return the figures of an example's closing summary: {name: number}, that of the network first."""
    return json.loads((directory / "summary.json").read_text(encoding="utf-8"))["figures"]

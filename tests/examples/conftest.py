"""Runs examples: each in a process and a directory of its own, in which TensorFlow is imported already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorpack_lite

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests" / "docs" / "page_runner.py"
PROGRAM = """
import runpy, sys
sys.argv = [{path!r}, *{arguments!r}]
sys.path.insert(0, {folder!r})
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def _process():
    """A process that has TensorFlow imported and forks for each example."""
    library = str(Path(tensorpack_lite.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, str(RUNNER)],
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=library),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    with process:
        yield process
        process.stdin.close()


@pytest.fixture
def run_example(_process):
    """A function that runs an example in a directory, as `python <example> <arguments>` would; gives what it printed."""

    def run(name: str, arguments: list, directory: Path) -> str:
        path = ROOT / "examples" / name
        program = PROGRAM.format(path=str(path), folder=str(path.parent), arguments=list(arguments))
        (directory / "program.py").write_text(program, encoding="utf-8")
        _process.stdin.write(f"{directory}\tprogram.py\n")
        _process.stdin.flush()
        status = _process.stdout.readline().strip()
        output = (directory / "output.txt").read_text(encoding="utf-8")
        assert "0" == status, output
        return output

    return run


@pytest.fixture
def load_example(monkeypatch):
    """A function that imports an example, without running it; its folder is on the path meanwhile."""

    def load(name: str):
        path = ROOT / "examples" / name
        monkeypatch.syspath_prepend(str(path.parent))
        return __import__(path.stem)

    return load

"""Fixtures that run examples in separate processes, forked from a process that has imported TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.programs import program_runner

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import runpy, sys
sys.argv = [{path!r}, *{arguments!r}]
sys.path.insert(0, {folder!r})
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def _runner():
    """A process that has imported TensorFlow and forks for each example."""
    with program_runner(has_seed=True) as runner:
        yield runner


@pytest.fixture
def run_example(_runner, request, monkeypatch):
    """Return a function that runs an example like `python <example> <arguments>` and returns its output."""
    if request.node.get_closest_marker("gallery"):
        monkeypatch.setattr(_runner, "limit", 0)

    def run(name: str, arguments: list, directory: Path) -> str:
        path = ROOT / "examples" / name
        program = PROGRAM.format(path=str(path), folder=str(path.parent), arguments=list(arguments))
        (directory / "program.py").write_text(program, encoding="utf-8")
        output = _runner.run(directory, "program.py")
        assert "Lint:" not in output, output  # no rule has a remark about an example
        return output

    return run


@pytest.fixture
def load_example(monkeypatch):
    """Return a function that imports an example without running it."""

    def load(name: str):
        path = ROOT / "examples" / name
        monkeypatch.syspath_prepend(str(path.parent))
        return __import__(path.stem)

    return load

"""Tests of `python -m tensorpack_lite.examples`."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ["mnist_convnet.py", "gan/dcgan.py", "imagenet/train.py"]


@pytest.fixture
def command():
    """The names in the module of the command."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "__main__.py")))


def test_list(command, capsys):
    """Without arguments, each example is listed with the first sentence of its docstring."""
    command.main([])
    lines = capsys.readouterr().out.splitlines()
    assert set(EXAMPLES) <= {line.split()[0] for line in lines}
    assert all(len(line.split()) > 3 for line in lines)
    assert not [line for line in lines if "__main__" in line or "common" in line or "rpn" in line]  # modules


def test_copy(command, tmp_path, capsys):
    """The examples and their README are copied to a new directory."""
    command.main([str(tmp_path / "new")])
    for name in [*EXAMPLES, "README.md"]:
        assert (tmp_path / "new" / name).is_file()
    assert not list((tmp_path / "new").rglob("__pycache__"))
    assert "README.md" in capsys.readouterr().out


def test_an_existing_directory(command, tmp_path, capsys):
    """An existing directory is refused, and nothing is written into it."""
    with pytest.raises(SystemExit):
        command.main([str(tmp_path)])
    assert "exists. Choose a new directory" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.skipif("TENSORPACK_LITE_INSTALLED" not in os.environ, reason="only tox tests the installed wheel")
def test_the_wheel_has_the_examples(tmp_path):
    """The installed library copies the examples, and a copy runs."""
    run = [sys.executable, "-m", "tensorpack_lite.examples", "new"]
    subprocess.run(run, cwd=str(tmp_path), check=True, timeout=100)
    run = [sys.executable, "new/00_journey.py"]
    done = subprocess.run(run, cwd=str(tmp_path), check=True, timeout=200, stdout=subprocess.PIPE)
    assert b"2.8125" in done.stdout

"""Where TensorFlow is not installed, `dataflow` and `utils` work and everything else says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorpack_lite

BLOCK = "import sys; sys.modules['tensorflow'] = None\n"


def run(code: str) -> str:
    """Run code in an interpreter that cannot import TensorFlow; gives what it printed."""
    environment = dict(os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + code],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout.decode().strip()


def test_a_dataflow_runs():
    """The star brings the data half, and it yields datapoints."""
    code = """
from tensorpack_lite import *
flow = BatchData(DataFromList([[1], [2], [3], [4]], shuffle=False), 2)
flow.reset_state()
print([list(batch[0]) for batch in flow] == [[1, 2], [3, 4]])
"""
    assert "True" == run(code)


def test_the_facade_offers_utils_and_dataflow_only():
    """Nothing that needs TensorFlow is in `__all__`."""
    code = """
import tensorpack_lite
print(sorted(set(tensorpack_lite.__all__) - set(tensorpack_lite.utils.__all__) - set(tensorpack_lite.dataflow.__all__)))
"""
    assert "['dataflow', 'utils']" == run(code)


@pytest.mark.parametrize(
    "line", ["from tensorpack_lite import Trainer", "import tensorpack_lite; tensorpack_lite.Trainer"]
)
def test_other_names_say_what_to_install(line):
    """The sentence names the name and the pip command."""
    code = f"""
try:
    {line}
except ImportError as error:
    print(error)
"""
    assert run(code) == 'tensorpack_lite.Trainer needs TensorFlow: pip install "tensorpack_lite[tf]"'


def test_python_may_ask_for_its_own_names():
    """`hasattr` with a double underscore answers no: copy, pickle and doctest ask such things."""
    assert "False" == run("import tensorpack_lite; print(hasattr(tensorpack_lite, '__wrapped__'))")


@pytest.mark.slow
def test_no_data_module_imports_tensorflow():
    """Every module of `dataflow` and `utils` can be imported."""
    code = """
import importlib, pkgutil
from tensorpack_lite import dataflow, utils
for package in (dataflow, utils):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
print("done")
"""
    assert "done" == run(code)

"""Without TensorFlow, `dataflow` and `utils` work, and every other name raises an error with the pip command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorpack_lite

BLOCK = "import sys; sys.modules['tensorflow'] = None\n"


def run(code: str) -> str:
    """Run code in an interpreter that cannot import TensorFlow, and return its output."""
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


@pytest.mark.slow
def test_a_dataflow_runs():
    """The star import provides DataFlows, and they yield datapoints."""
    code = """
from tensorpack_lite import *
flow = BatchData(DataFromList([[1], [2], [3], [4]], shuffle=False), 2)
flow.reset_state()
print([list(batch[0]) for batch in flow] == [[1, 2], [3, 4]])
"""
    assert "True" == run(code)


@pytest.mark.slow
def test_the_facade_offers_utils_and_dataflow_only():
    """`__all__` has no name that needs TensorFlow."""
    code = """
import tensorpack_lite
print(sorted(set(tensorpack_lite.__all__) - set(tensorpack_lite.utils.__all__) - set(tensorpack_lite.dataflow.__all__)))
"""
    assert "['dataflow', 'utils']" == run(code)


@pytest.mark.slow
def test_a_from_import_says_what_to_install():
    """The error of a `from` import has the name and the pip command."""
    code = """
try:
    from tensorpack_lite import Trainer
except ImportError as error:
    print(error)
"""
    assert 'tensorpack_lite.Trainer needs TensorFlow. Run: pip install "tensorpack_lite[tf]"' == run(code)


@pytest.mark.slow
def test_an_attribute_says_what_to_install():
    """Looking up a name that needs TensorFlow raises ImportError with the pip command."""
    code = """
import tensorpack_lite
try:
    tensorpack_lite.Trainer
except ImportError as error:
    print(error)
"""
    assert 'tensorpack_lite.Trainer needs TensorFlow. Run: pip install "tensorpack_lite[tf]"' == run(code)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no_such_name", "__wrapped__"])
def test_a_name_that_does_not_exist(name):
    """An unknown name raises AttributeError, without a mention of TensorFlow."""
    code = f"""
import tensorpack_lite
print(hasattr(tensorpack_lite, "{name}"))
try:
    tensorpack_lite.{name}
except AttributeError as error:
    print(error)
"""
    answer, message = run(code).splitlines()
    assert "False" == answer
    assert f"module 'tensorpack_lite' has no attribute '{name}'" in message
    assert "TensorFlow" not in message

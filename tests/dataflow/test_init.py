"""Tests of the package as users import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tensorpack_lite import dataflow
from tensorpack_lite.dataflow import common


def test_the_address_has_the_same_objects():
    """`dataflow.common`, tensorpack's module, exports the same objects."""
    assert [] == [name for name in common.__all__ if getattr(common, name) is not getattr(dataflow, name)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MultiProcessMapData", "MultiProcessMapDataZMQ"),
        ("MultiProcessPrefetchData", "MultiProcessRunner"),
        ("PrefetchData", "MultiProcessRunner"),
        ("PrefetchDataZMQ", "MultiProcessRunnerZMQ"),
        ("MultiThreadPrefetchData", "MultiThreadRunner"),
    ],
)
def test_old_names(old, new):
    """The names of tensorpack before 0.9 refer to the same classes."""
    assert getattr(dataflow, old) is getattr(dataflow, new)


@pytest.mark.slow
def test_importing_it_loads_nothing_large():
    """Importing the package does not import TensorFlow, scikit-learn, SciPy, OpenCV or ZMQ."""
    code = (
        "import sys; import tensorpack_lite.dataflow.base, tensorpack_lite.dataflow.dataset; "
        "print([m for m in ('tensorflow', 'sklearn', 'scipy', 'cv2', 'zmq') if m in sys.modules])"
    )
    # the facade imports TensorFlow if it is installed, so an empty package replaces the facade
    bare = (
        "import importlib.util, sys, types; spec = importlib.util.find_spec('tensorpack_lite'); "
        "package = types.ModuleType('tensorpack_lite'); package.__path__ = list(spec.submodule_search_locations); "
        "sys.modules['tensorpack_lite'] = package; "
    )
    assert "[]" == subprocess.check_output([sys.executable, "-c", bare + code], timeout=60).decode().strip()

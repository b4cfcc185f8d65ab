"""`from tensorpack_lite import *` provides the names of `from tensorpack import *`, and importing has no side effects."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

import tensorpack_lite

TABLE = Path(__file__).with_name("upstream_names.tsv")
PACKAGES = {
    "callbacks", "compat", "dataflow", "graph_builder", "input_source", "models", "predict", "tfutils", "train", "utils"
}  # fmt: skip
MODULES = {
    "gradproc",
    "imgaug",
    "logger",
    "optimizer",
    "sesscreate",
    "sessinit",
    "summary",
    "tfv1",
    "tower",
    "varreplace",
}


@pytest.fixture(scope="module")
def namespace() -> dict:
    """Return the names that the star import binds."""
    names = {}
    exec("from tensorpack_lite import *", names)
    del names["__builtins__"]
    return names


def fresh_python(code: str) -> dict:
    """Run code in a new interpreter and read the JSON that it prints last."""
    environment = dict(os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]), TF_CPP_MIN_LOG_LEVEL="3")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout.decode())


def test_the_star_binds_exactly_all(namespace):
    """The star import binds exactly the names in `__all__`."""
    assert set(tensorpack_lite.__all__) == set(namespace)


def test_no_name_twice():
    """No name in `__all__` comes from two packages."""
    names = tensorpack_lite.__all__
    assert [] == sorted({n for n in names if names.count(n) > 1})


def test_the_facade_lists_the_names_that_need_tensorflow():
    """The facade lists the names of `_with_tensorflow` without importing that module."""
    from tensorpack_lite import _TENSORFLOW_NAMES, _with_tensorflow

    assert set(_with_tensorflow.__all__) == _TENSORFLOW_NAMES


@pytest.mark.slow
def test_an_unknown_name_does_not_import_tensorflow():
    """pickle looks for some functions in every loaded module; that lookup does not import TensorFlow."""
    code = """
import json, sys, tensorpack_lite
print(json.dumps([hasattr(tensorpack_lite, "square"), "tensorflow" in sys.modules]))
"""
    assert fresh_python(code) == [False, False]


@pytest.mark.slow
def test_the_launcher_imports_next_to_nothing():
    """The launcher imports neither NumPy nor tqdm, since ranks start only after its imports."""
    code = "import json, sys, tensorpack_lite.launch; print(json.dumps([m in sys.modules for m in ('numpy', 'tqdm')]))"
    assert fresh_python(code) == [False, False]


@pytest.mark.slow
def test_data_does_not_import_tensorflow():
    """Importing `dataflow` does not import TensorFlow."""
    code = "import json, sys, tensorpack_lite.dataflow; print(json.dumps('tensorflow' in sys.modules))"
    assert fresh_python(code) is False


def test_a_name_that_does_not_exist_is_an_attribute_error():
    """An unknown name raises AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'Trainr'"):
        tensorpack_lite.Trainr  # noqa: B018


def test_upstreams_star_names_are_bound(namespace):
    """The star import binds each available name that tensorpack's star import binds."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        wanted = {
            r["name"]
            for r in csv.DictReader(file, delimiter="\t")
            if r["by import *"] == "star" and r["here"] == "same"
        }
    assert set() == wanted - set(namespace)


def test_packages_and_modules_are_bound(namespace):
    """The star import binds the packages and the modules, such as `summary` and `logger`, that scripts use."""
    assert set() == (PACKAGES | MODULES) - set(namespace)


def test_argscope_is_the_function_and_the_module_stays_importable():
    """`tfutils.argscope` is a function of the package, and the module can be imported by its path."""
    from tensorpack_lite.tfutils import argscope
    from tensorpack_lite.tfutils.argscope import argscope as by_path

    assert by_path is argscope


@pytest.mark.slow
def test_importing_changes_nothing():
    """Importing changes no environment variable, prints nothing, and changes neither TensorFlow nor the root logger."""
    code = """
import json, logging, os, sys
import tensorflow as tf
before = dict(os.environ), tf.executing_eagerly(), len(logging.getLogger().handlers), dict(vars(tf.test))
import tensorpack_lite
from tensorpack_lite import *
after = dict(os.environ), tf.executing_eagerly(), len(logging.getLogger().handlers), dict(vars(tf.test))
print(json.dumps([x == y for x, y in zip(before, after)]))
"""
    assert fresh_python(code) == [True] * 4


@pytest.mark.slow
def test_importing_leaves_the_process_alone():
    """If the library imports TensorFlow, environment, garbage collector and stderr are as before, and TensorFlow's messages are shown."""
    code = """
import gc, json, os
def state():
    return dict(os.environ), gc.isenabled(), getattr(gc, "get_freeze_count", int)(), os.fstat(2)
before = state()
from tensorpack_lite import *
tfv1
print(json.dumps(before == state()))
"""
    assert fresh_python(code) is True


@pytest.mark.slow
def test_optional_packages_are_not_needed():
    """The library imports where all optional packages are missing. TensorFlow itself imports Keras lazily."""
    code = """
import json, sys
sys.modules.update(dict.fromkeys("cv2 lmdb h5py sklearn scipy matplotlib zmq horovod".split()))
from tensorpack_lite import *
print(json.dumps(True))
"""
    assert fresh_python(code) is True

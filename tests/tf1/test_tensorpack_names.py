"""`tensorpack` as a script sees it: the modules of tensorpack_lite, with the attributes that they have there."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("tensorflow")

from tf1.command import python, run

# Imports each module of the library below a root, and prints {module: type of its package's attribute of that name}.
LAW = """
import importlib, json, pkgutil, sys
import tensorpack_lite
from tensorpack_lite.utils.old_names_table import OLD_MODULES

root = sys.argv[1]
found = {}
modules = [one.name.partition('.')[2] for one in pkgutil.walk_packages(tensorpack_lite.__path__, 'tensorpack_lite.')]
skipped = ('tf1', 'contrib', 'cli', '__main__')
old = [name for name, old in OLD_MODULES.items() if old.target and root == 'tensorpack']
for name in [one for one in modules if not one.startswith(skipped)] + old:
    try:
        importlib.import_module(root + '.' + name)
    except ImportError:
        continue
    package, _, child = (root + '.' + name).rpartition('.')
    if name not in old:
        found[name] = type(getattr(sys.modules[package], child)).__name__
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_function_named_like_its_module(write, tmp_path):
    """After an import of `tensorpack.tfutils.argscope`, the name `argscope` of the package is still the function."""
    script = """
        import tensorpack.tfutils.argscope
        import tensorpack.tfutils as tfutils
        from tensorpack.tfutils import argscope
        print(type(tfutils.argscope).__name__, type(argscope).__name__)
        """
    write("train.py", script)
    result = run("train.py", cwd=tmp_path)
    assert "function function\n" == result.stdout, result.stderr


@pytest.mark.slow
def test_all_modules(write, tmp_path):
    """An import of any module by its old name, old addresses included, leaves attributes of packages as they were."""
    write("law.py", LAW)
    expected = python("law.py", "tensorpack_lite", cwd=tmp_path)
    actual = run("law.py", "tensorpack", cwd=tmp_path)
    assert expected.returncode == 0, expected.stderr
    found = json.loads(actual.stdout)
    assert 200 < len(found)
    assert "function" == found["tfutils.argscope"]
    assert json.loads(expected.stdout) == found


@pytest.mark.slow
def test_check_lists_unsupported_names(write, tmp_path):
    """`--check` lists names and modules that can be imported but not used, with their sentences."""
    write(
        "train.py",
        """
        import tensorflow as tf
        from tensorpack.utils.loadcaffe import get_caffe_pb
        from tensorpack.RL.envbase import RLEnvironment
        from tensorflow.contrib.training import FeedingQueueRunner
        tf.mul, tf.neg, tf.pack, tf.train.SummaryWriter
        """,
    )
    result = run("--check", "train.py", cwd=tmp_path)
    lines = [line.split(": ", 2) for line in result.stdout.splitlines()[:-1]]
    names = ["tensorpack.utils.loadcaffe.get_caffe_pb", "tensorpack.RL"]
    expected = [["train.py:3", names[0]], ["train.py:4", names[1]]]
    if (
        not result.stdout.startswith("train.py:5") and "FeedingQueueRunner" in result.stdout
    ):  # not on TensorFlow 1.15
        expected.append(["train.py:5", "tensorflow.contrib.training.FeedingQueueRunner"])
    assert expected == [line[:2] for line in lines], result.stderr
    assert "caffe.proto" in lines[0][2]
    assert "gymnasium" in lines[1][2]
    assert result.returncode == 1

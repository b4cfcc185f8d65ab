"""
The features of TensorFlow 1 that old scripts use most: they work with `tensorpack-lite run`, and not without it.

The functions are in `features.py`, which one process runs.
"""

from __future__ import annotations

import importlib
import json

import pytest
from unmodified import corpus

from tensorpack_lite.compat import TF_VERSION

pytestmark = pytest.mark.slow

FEATURES = [function.__name__ for function in importlib.import_module("unmodified.features").FEATURES]

# Features that `tensorflow.compat.v1` of TensorFlow 2.16 and later still has, after disable_v2_behavior()
IN_COMPAT_V1 = [
    "assign_by_name",
    "dataset_make_one_shot_iterator",
    "dimension_value",
    "nchw_batch_norm",
    "session_run_by_name",
]


def run_features(*command, cwd):
    """Run `features.py` after some arguments of Python. Return {feature: error}."""
    result = corpus.run_python(*command, cwd=cwd, TF_ENABLE_ONEDNN_OPTS="0")
    (report,) = [
        line for line in result.stdout.splitlines() if line.startswith("{")
    ]  # TensorFlow's profiler prints too
    return json.loads(report)


SCRIPT = str(corpus.FOLDER / "features.py")


@pytest.fixture(scope="module")
def with_run(tmp_path_factory):
    """The errors with `tensorpack-lite run`."""
    folder = tmp_path_factory.mktemp("run")
    return run_features("-m", "tensorpack_lite", "run", "--cpu-layout", "on", SCRIPT, cwd=folder)


@pytest.mark.parametrize("feature", FEATURES)
def test_with_run(with_run, feature):
    """The feature works with `tensorpack-lite run`."""
    assert with_run[feature] == ""


@pytest.mark.skipif(TF_VERSION < (2, 16), reason="older versions have some of the features")
def test_in_plain_python(tmp_path):
    """In plain Python, each feature is an error: after `import tensorflow as tf`, as the scripts write it."""
    assert [name for name, error in run_features(SCRIPT, cwd=tmp_path).items() if not error] == []


@pytest.mark.skipif(TF_VERSION < (2, 16), reason="older versions have some of the features")
def test_with_compat_v1(tmp_path):
    """With `import tensorflow.compat.v1 as tf` instead, nearly all of them are still errors."""
    errors = run_features(SCRIPT, "v1", cwd=tmp_path)
    assert sorted(name for name, error in errors.items() if not error) == IN_COMPAT_V1

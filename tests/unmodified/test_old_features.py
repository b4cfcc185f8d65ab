"""Uses of TensorFlow 0.x and 1.x that TensorFlow 2 refuses work with `tensorpack-lite run`."""

from __future__ import annotations

import pytest
from unmodified import corpus
from unmodified.test_features import run_features

pytestmark = pytest.mark.slow

SCRIPT = corpus.FOLDER / "old_features.py"
FEATURES = [
    line[len("def ") :].partition("(")[0]
    for before, line in zip(SCRIPT.read_text().splitlines(), SCRIPT.read_text().splitlines()[1:])
    if before == "@feature"
]


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The errors with `tensorpack-lite run`."""
    folder = tmp_path_factory.mktemp("run")
    return run_features("-m", "tensorpack_lite", "run", "--cpu-layout", "on", str(SCRIPT), cwd=folder)


@pytest.mark.parametrize("feature", FEATURES)
def test_with_run(errors, feature):
    """The feature works with `tensorpack-lite run`."""
    assert errors[feature] == ""

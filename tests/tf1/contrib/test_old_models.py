"""Models of an old script have the same variables and outputs as on plain TensorFlow 1.15, whose checkpoint they load."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tensorpack_lite.compat import TF_VERSION

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "tf1"
SCRIPT = Path(__file__).with_name("old_models.py")


@pytest.fixture(scope="module")
def expected():
    """The outputs of plain TensorFlow 1.15."""
    with np.load(str(DATA / "expected.npz")) as file:
        return dict(file)


@pytest.fixture(scope="module")
def outputs():
    """The outputs of this TensorFlow, after loading the checkpoint in another process."""
    if TF_VERSION >= (2, 16) and not find_spec("tf_keras"):
        pytest.skip("tf_keras is not installed")
    if TF_VERSION >= (2, 0) and not find_spec("tf_slim"):
        pytest.skip("tf_slim is not installed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    if TF_VERSION >= (2, 16):
        environment["TF_USE_LEGACY_KERAS"] = "1"
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "again", str(DATA)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert 0 == done.returncode, done.stderr.decode()[-4000:]
    with np.load(io.BytesIO(done.stdout)) as file:
        return dict(file)


def test_variables(expected, outputs):
    """The names and shapes of all variables are the same, with the slots of the optimizers."""
    assert expected["shapes"].tolist() == outputs["shapes"].tolist()
    assert 250 < len(outputs["shapes"])


@pytest.mark.parametrize(
    "part",
    [
        "tf_layers",
        "slim_layers",
        "contrib_layers",
        "rnn_cells",
        "contrib_cells",
        "seq2seq",
        "images",
        "optimizers",
    ],
)
def test_outputs(expected, outputs, part):
    """All outputs of a part are equal to 1e-5."""
    names = [name for name in expected if name.startswith(part + "/")]
    assert names
    for name in names:
        np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_the_files_are_small():
    """The committed checkpoint and outputs take less than 200 kB."""
    assert 200_000 > sum(file.stat().st_size for file in DATA.glob("*") if file.suffix != ".txt")

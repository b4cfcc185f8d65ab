"""
TensorFlow 1.15, 2.15 and 2.21 give a script the same names, and each restores the checkpoints of the others.

The files in tests/data/ends were written by running this file as a script with each TensorFlow:
    python tests/integration/test_same_on_every_end.py
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile

import numpy as np
import pytest

ENDS = ["tf1.15", "tf2.15", "tf2.21"]
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "ends")
TOLERANCE = 1e-5


@pytest.mark.slow
def test_same_names(tmp_path):
    """Variable names, checkpoint keys, keys of stats.json and the order of callbacks do not depend on TensorFlow."""
    from fakes.small_convnet import train

    with open(os.path.join(DATA, "names.json")) as f:
        expected = json.load(f)
    assert expected == train(str(tmp_path / "log"))


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_checkpoint_of_every_end(end):
    """A checkpoint from any TensorFlow gives the outputs that the TensorFlow that wrote it computed, to 1e-5."""
    from fakes.small_convnet import predict

    expected = np.load(os.path.join(DATA, end, "outputs.npy"))
    np.testing.assert_allclose(predict(os.path.join(DATA, end, "model-6")), expected, rtol=0, atol=TOLERANCE)


def test_files_are_of_different_trainings():
    """The stored outputs are those of trained models: not uniform, and different for each end."""
    outputs = [np.load(os.path.join(DATA, end, "outputs.npy")) for end in ENDS]
    assert all(np.std(output) > 0.01 for output in outputs)


def write() -> None:
    """Write the reference files of the current TensorFlow."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from fakes.small_convnet import predict, train

    from tensorpack_lite.compat import TF_VERSION, ensure_graph_mode

    ensure_graph_mode()
    scratch = tempfile.mkdtemp()
    names = train(os.path.join(scratch, "log"))
    target = os.path.join(DATA, "tf{}.{}".format(*TF_VERSION))
    os.makedirs(target, exist_ok=True)
    for suffix in ("index", "data-00000-of-00001"):
        shutil.copy(os.path.join(scratch, "log", f"model-6.{suffix}"), target)
    np.save(os.path.join(target, "outputs.npy"), predict(os.path.join(target, "model-6")))
    with open(os.path.join(DATA, "names.json"), "w") as f:
        json.dump(names, f, indent=1)
        f.write("\n")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    write()

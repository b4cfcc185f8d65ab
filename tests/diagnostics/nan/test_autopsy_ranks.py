"""TerminateOnNaN on two ranks of which one has a bad sample; `fakes/ranks_script.py` has the training."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.launching import CASES, launch
from fakes.ranks_script import NAN_RATE, nan_batches

from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.utils.notes import read_notes

pytestmark = pytest.mark.slow


def train(directory, case):
    """Train, and return the output."""
    ended = launch(2, CASES, "nan", directory, case)
    assert 1 == ended.code, ended.out + ended.err
    return ended.out + ended.err


def note_of(directory, rank):
    return next(note for note in read_notes(str(directory / str(rank))) if note["kind"] == "nan")


def check_weights(directory, rank, expected):
    """Check the weights of the written checkpoint and those of the training at its end."""
    written = load_checkpoint_vars(os.path.join(str(directory / str(rank)), "nan-5", "model-4"))
    assert 4 == written["global_step"]
    np.testing.assert_allclose(expected, written["w"], rtol=1e-5)
    np.testing.assert_allclose(expected, np.load(str(directory / f"{rank}.npz"))["w"], rtol=1e-5)


def test_loss(tmp_path):
    """The rank, datapoint and sample of a NaN are named on both ranks; neither is updated, nor are the checkpoints."""
    train(tmp_path, "loss")
    cause = "The cause is in datapoint 5 of tower 0 of rank 1, sample 3 of 0-7; "
    means = [np.mean([nan_batches(rank)[i][0] for rank in range(2)]) for i in range(4)]
    for rank in range(2):
        assert cause in note_of(tmp_path, rank)["text"]
        check_weights(tmp_path, rank, 1 - NAN_RATE * np.sum(means))
    chief = note_of(tmp_path, 0)["text"]
    assert "loss or gradient is not finite at global_step=5" in chief
    assert "The batch of this rank is finite. Rank 1 failed after step" in chief
    assert -1 == np.load(str(tmp_path / "1" / "nan-5" / "batch.npz"))["tower0/x"][3]


@pytest.mark.any_tensorflow
def test_gradient(tmp_path):
    """If only the gradient of a rank is NaN, each rank checks its own gradients, before they are reduced."""
    train(tmp_path, "gradient")
    w = 1.0
    for i in range(4):
        grads = [np.mean(0.5 * np.sqrt(nan_batches(rank)[i][0] / w)) for rank in range(2)]
        w -= NAN_RATE * np.mean(grads)
    for rank in range(2):
        assert "datapoint 5 of tower 0 of rank 1, sample 3 of 0-7" in note_of(tmp_path, rank)["text"]
        check_weights(tmp_path, rank, w)

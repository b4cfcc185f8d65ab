"""The files of samples in the directory of a training, `samples/<name>.npz`, which the report shows."""

from __future__ import annotations

import glob
import os
from typing import Mapping

import numpy as np

from ..utils.npz import write_npz
from ..utils.replacing import replacing

DIRECTORY = "samples"
FIRST_BATCH = "first-batch"
WORST = "worst"
PREDICTIONS = "predictions"
CONFUSION = "confusion"  # has only the array MATRIX, [K, K]
MATRIX = "matrix"
PREDICTION, PROBABILITY = "prediction", "probability"  # arrays [N] of the predicted classes
STEP = "global_step"  # the array that has the step, of shape (); all others have the samples
_MAX_CHARS = 200


def sample_path(directory: str, name: str) -> str:
    """Return the path of a file of samples in the directory of a training."""
    return os.path.join(directory, DIRECTORY, f"{name}.npz")


def sample_paths(directory: str) -> list[str]:
    """Return the paths of all files of samples in the directory of a training."""
    return sorted(glob.glob(os.path.join(glob.escape(directory), DIRECTORY, "*.npz")))


def write_samples(directory: str, name: str, arrays: Mapping[str, np.ndarray], global_step: int) -> None:
    """
    Write a file of samples, or replace it atomically.

    Args:
        directory: that of the training.
        name: `FIRST_BATCH`, `WORST`, `PREDICTIONS`, `CONFUSION`, or another one.
        arrays: the samples by the names of inputs and outputs, each `[N, ...]`. Objects are written as text.
        global_step: when they were used.

    Raises:
        OSError: the file cannot be written.
    """
    path = sample_path(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    written = {key: _without_objects(array) for key, array in arrays.items()}
    with replacing(path) as temporary:
        write_npz(temporary, {**written, STEP: np.int64(global_step)}, compress=True)


def _without_objects(array: np.ndarray) -> np.ndarray:
    if not array.dtype.hasobject:
        return array
    values = array.reshape(-1).tolist()
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values]
    return np.array([text[:_MAX_CHARS] for text in texts], dtype=np.str_).reshape(array.shape)

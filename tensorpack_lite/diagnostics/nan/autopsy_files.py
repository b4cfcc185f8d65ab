"""The batches and pictures of a step that is examined, as files and as text."""

from __future__ import annotations

import os
from typing import Any, Sequence

import numpy as np

from ...utils.npz import write_npz
from ...utils.png import encode_png
from .batch_capture import TowerBatch

RECORD_FILE = "step.json"
BATCH_FILE = "batch.npz"
_MAX_TEXT = 200


def write_batches(directory: str, batches: Sequence[TowerBatch]) -> list[str]:
    """
    Write the inputs of all towers as `batch.npz`, with names such as `tower0/image`.

    Returns:
        The names of the written files.
    """
    arrays = {
        f"tower{batch.tower}/{name}": _without_objects(array)
        for batch in batches
        for name, array in zip(batch.names, batch.arrays)
    }
    if not arrays:
        return []
    write_npz(os.path.join(directory, BATCH_FILE), arrays, compress=True)
    return [BATCH_FILE]


def write_pictures(directory: str, batch: TowerBatch, samples: Sequence[int]) -> list[str]:
    """
    Write the images among some samples as PNG files. Values of floating-point images are stretched to 0-255.

    Returns:
        The names of the written files.
    """
    files = []
    for name, array in zip(batch.names, batch.arrays):
        for sample in samples if array.ndim == 4 and array.shape[3] in (1, 3, 4) else ():
            file = f"{name.replace('/', '-')}-{sample}.png"
            with open(os.path.join(directory, file), "wb") as stream:
                stream.write(encode_png(_as_uint8(array[sample])))
            files.append(file)
    return files


def describe_sample(batch: TowerBatch, sample: int) -> str:
    """Return the values of a sample's small components, and the range of the others."""
    return ", ".join(
        f"{name} {_describe(array[sample] if array.ndim else array)}" for name, array in zip(batch.names, batch.arrays)
    )


def _describe(value: Any) -> str:
    array = np.asarray(value)
    if array.size == 1:
        item = array.reshape(-1)[0]
        text = item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
        return f"is {text[:_MAX_TEXT]}"
    if not np.issubdtype(array.dtype, np.number) or not array.size:
        return f"has shape {array.shape}"
    num_bad = int(np.sum(~np.isfinite(array)))
    if num_bad:
        return f"has {num_bad} of {array.size} values that are not finite"
    return f"is finite, from {array.min():.5g} to {array.max():.5g}"


def _without_objects(array: np.ndarray) -> np.ndarray:
    """Return an array of bytes objects, which npz files cannot hold, as one of fixed-size strings."""
    return array.astype(bytes) if array.dtype.hasobject else array


def _as_uint8(image: np.ndarray) -> np.ndarray:
    if image.dtype == np.uint8:
        return image
    values = np.nan_to_num(image.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = values.min(), values.max()
    return ((values - low) * (255.0 / max(high - low, 1e-12))).astype(np.uint8)

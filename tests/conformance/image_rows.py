"""One row for each DataFlow of images; the values of the two-pixel images are the numbers of a `Source`."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.dataflow_rows import IN_ORDER, SIZE, Row, Source

from tensorpack_lite import dataflow
from tensorpack_lite.dataflow import imgaug

__all__ = ["IMAGE_ROWS"]


def as_image(array: np.ndarray) -> np.ndarray:
    """Return an image `[1, 2]`."""
    return array[np.newaxis]


def images(source: Source) -> dataflow.DataFlow:
    """Convert the arrays of a source to images."""
    return dataflow.MapDataComponent(source, as_image, source.keys[0])


def augmentors() -> list:
    """Return a random augmentor that does not change the numbers."""
    return [imgaug.Flip(horiz=True), imgaug.GaussianNoise(clip=False)]


@functools.lru_cache(maxsize=None)
def directory() -> Any:
    """Write six images whose pixels are their numbers; they are deleted when the process exits."""
    cv2 = pytest.importorskip("cv2", reason="ImageFromFile needs OpenCV")
    folder = tempfile.TemporaryDirectory()
    for k in range(SIZE):
        cv2.imwrite(str(Path(folder.name) / f"{k}.png"), np.full((2, 2), k, np.uint8))
    return folder


def with_number(datapoint: list) -> list:
    """Return [image, number], as the laws expect."""
    return [datapoint[0], int(datapoint[0][0, 0, 0])]


def from_files(_: Source) -> dataflow.DataFlow:
    """Return a DataFlow that reads in a new order in each pass."""
    files = [str(Path(directory().name) / f"{k}.png") for k in range(SIZE)]
    return dataflow.MapData(dataflow.ImageFromFile(files, shuffle=True), with_number)


IMAGE_ROWS = [
    Row("ImageFromFile", from_files, (4, 2, 1, 0, 3, 5, 5, 0, 4, 3), random=True, leaf=True),
    Row(
        "AugmentImageComponent",
        lambda ds: dataflow.AugmentImageComponent(images(ds), augmentors(), ds.keys[0]),
        IN_ORDER,
    ),
    Row(
        "AugmentImageCoordinates",
        lambda ds: dataflow.AugmentImageCoordinates(
            images(ds), [imgaug.Flip(vert=True)], ds.keys[0], ds.keys[0], catch_exceptions=True
        ),
        IN_ORDER,
    ),
    Row(
        "AugmentImageComponents",
        lambda ds: dataflow.AugmentImageComponents(images(ds), augmentors(), (ds.keys[0],)),
        IN_ORDER,
    ),
]

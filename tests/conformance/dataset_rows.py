"""
A row for each dataset, as in `dataflow_rows.py`: built on small files in the original formats, with labels 0 to 5.

The files are written once per process, when a row is first built.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy as np
from conformance.dataflow_rows import SIZE, Row
from fakes import datasets as fabricated

from tensorpack_lite import dataflow
from tensorpack_lite.dataflow import dataset

__all__ = ["DATASET_ROWS", "NEEDS"]

# the order of six datapoints with seed 7, the same for all datasets
SHUFFLED = (4, 2, 1, 0, 3, 5, 5, 0, 4, 3)

NEEDS = {
    "Digits": ["sklearn"],
    "SVHNDigit": ["scipy.io"],
    "Caltech101Silhouettes": ["scipy.io"],
    "BSDS500": ["scipy.io", "cv2"],
    "ILSVRC12": ["cv2"],
    "ILSVRC12Files": ["cv2"],
    "TinyImageNet": ["cv2"],
    "Places365Standard": ["cv2"],
}


@functools.lru_cache(maxsize=None)
def folder(write: Callable[..., Any]) -> Path:
    """Write the files of a dataset once."""
    directory = Path(tempfile.mkdtemp(prefix="tensorpack_lite_rows_"))
    atexit.register(shutil.rmtree, str(directory), ignore_errors=True)
    write(directory)
    return directory


def imagenet(directory: Path) -> None:
    """Write images and metadata; return their directories."""
    fabricated.write_ilsvrc_meta(directory / "meta")
    fabricated.write_ilsvrc12(directory, directory / "meta")


def tenths(boundaries: np.ndarray) -> int:
    """Return the number of an image of BSDS500, which is encoded in its boundaries."""
    return round(float(boundaries.max()) * 10)


def bsds500() -> dataflow.DataFlow:
    """Replace the second component, an image, by its number."""
    flow = dataset.BSDS500("train", str(folder(fabricated.write_bsds500)))
    return dataflow.MapDataComponent(flow, tenths, 1)


def row(
    name: str, build: Callable[[], dataflow.DataFlow], seed_7: Tuple[int, ...] = SHUFFLED, length: int = SIZE
) -> Row:
    """Return the row of a dataset: without a source, and in random order."""
    return Row(f"dataset.{name}", lambda _: build(), seed_7, length=length, random=True, leaf=True)


DATASET_ROWS = [
    row("Digits", lambda: dataset.Digits("test"), (4, 5, 0, 2, 5, 9, 1, 8, 3, 6), length=360),
    row("Mnist", lambda: dataset.Mnist("train", dir=str(folder(fabricated.write_mnist)))),
    row("FashionMnist", lambda: dataset.FashionMnist("train", dir=str(folder(fabricated.write_mnist)))),
    row("CifarBase", lambda: dataset.CifarBase("train", dir=str(folder(fabricated.write_cifar10)))),
    row("Cifar10", lambda: dataset.Cifar10("train", dir=str(folder(fabricated.write_cifar10)))),
    row("Cifar100", lambda: dataset.Cifar100("train", dir=str(folder(fabricated.write_cifar100)))),
    row("SVHNDigit", lambda: dataset.SVHNDigit("train", str(folder(fabricated.write_svhn)))),
    row(
        "Caltech101Silhouettes",
        lambda: dataset.Caltech101Silhouettes("train", dir=str(folder(fabricated.write_caltech101))),
    ),
    row("BSDS500", bsds500),
    row(
        "ILSVRC12Files",
        lambda: dataset.ILSVRC12Files(str(folder(imagenet)), "train", str(folder(imagenet) / "meta")),
    ),
    row("ILSVRC12", lambda: dataset.ILSVRC12(str(folder(imagenet)), "train", str(folder(imagenet) / "meta"))),
    row(
        "TinyImageNet",
        lambda: dataset.TinyImageNet(str(folder(fabricated.write_tiny_imagenet)), "val", shuffle=True),
    ),
    row(
        "Places365Standard",
        lambda: dataset.Places365Standard(str(folder(fabricated.write_places)), "train"),
    ),
]

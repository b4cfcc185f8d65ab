"""MNIST and Fashion-MNIST: handwritten digits and pieces of clothing, stored in idx files."""

from __future__ import annotations

import gzip
import struct
from functools import reduce
from operator import mul
from typing import Tuple

import numpy as np

from ...utils.checks import check_choice
from ...utils.errors import parsing
from ...utils.fs import get_dataset_path
from ...utils.unpacking import BoundedReader
from .files import Origin, find_file
from .indexed import LabelledImages

_MAGIC_IMAGES, _MAGIC_LABELS = 2051, 2049
_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}


class Mnist(LabelledImages):
    """
    MNIST, 28x28 grayscale images of handwritten digits: datapoints [float32 (28, 28) in [0, 1], np.uint8 label].

    The two files of the split are downloaded if they are missing; those of the other split are not needed.
    Existing files are not compared with a checksum, so smaller or synthetic files in the same format also
    work.

    Length: the number of images in the file; 60000 for "train", 10000 for "test".
    Order: a new random order in each pass, or that of the file.
    Process: runs in the current process.

    Args:
        train_or_test: "train" or "test".
        shuffle: whether to use a new random order in each pass (also for "test").
        dir: the directory of the idx files. Default: `mnist_data` in the directory of datasets.

    Raises:
        ValueError: unknown name; a file is damaged or not in idx format.
        OSError: a file is missing and cannot be downloaded.

    Attributes:
        images: float32 [N, 28, 28, 1] in [0, 1].
        labels: uint8 [N].

    Source: LeCun, Cortes, Burges; http://yann.lecun.com/exdb/mnist (no longer available; mirrors and checksums are used).
    """

    _DIR_NAME = "mnist_data"
    _MIRRORS: Tuple[str, ...] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    _MD5: Tuple[Tuple[str, str], ...] = (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    )

    def __init__(self, train_or_test: str, shuffle: bool = True, dir: str | None = None) -> None:
        self.train_or_test = check_choice(f"{type(self).__name__}: train_or_test", train_or_test, ("train", "test"))
        directory = get_dataset_path(self._DIR_NAME) if dir is None else dir
        names = _FILES[train_or_test]
        origins = [Origin(name, self._MIRRORS, dict(self._MD5)[name]) for name in names]
        images_path, labels_path = [find_file(self, origin, directory, needed=names) for origin in origins]
        images, labels = read_idx(images_path, True), read_idx(labels_path, False)
        super().__init__(images, labels, white=255, shuffle=shuffle)


class FashionMnist(Mnist):
    """
    Fashion-MNIST, 28x28 grayscale images of clothing: datapoints [float32 (28, 28) in [0, 1], np.uint8 label].

    Length: the number of images in the file; 60000 for "train", 10000 for "test".
    Order: a new random order in each pass, or that of the file.
    Process: runs in the current process.

    Args:
        train_or_test: "train" or "test".
        shuffle: whether to use a new random order in each pass (also for "test").
        dir: the directory of the idx files. Default: `fashion_mnist_data` in the directory of datasets.

    Raises:
        ValueError: unknown name; a file is damaged or not in idx format.
        OSError: a file is missing and cannot be downloaded.

    Source: Xiao, Rasul, Vollgraf 2017, "Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms".
    """

    _DIR_NAME = "fashion_mnist_data"
    _MIRRORS = (
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    )
    _MD5 = (
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    )

    def get_label_names(self) -> list[str]:
        """
        Return the names of the ten classes.

        Returns:
            The names in the order of the labels.
        """
        return [
            "t-shirt/top", "trouser", "pullover", "dress", "coat",
            "sandal", "shirt", "sneaker", "bag", "ankle boot",
        ]  # fmt: skip


def read_idx(path: str, is_images: bool) -> np.ndarray:
    """
    Read an idx file: a magic number, the number and sizes of the entries (big-endian), then one byte per value.

    Args:
        path: a file that is compressed with gzip.
        is_images: whether it has images [N, H, W], or labels [N].

    Raises:
        ValueError: the file is damaged, or of the other kind.
    """
    magic = _MAGIC_IMAGES if is_images else _MAGIC_LABELS
    with parsing(path, "an idx file", "Delete it, and it will be downloaded again."), gzip.open(path) as file:
        content = BoundedReader(file, path).read()
        rank = 3 if is_images else 1
        header_size = 4 * (1 + rank)
        if len(content) < header_size:
            raise ValueError(f"it is cut off after {len(content)} bytes, before the end of its header")
        found, *shape = struct.unpack(f">{1 + rank}I", content[:header_size])
        if found != magic:
            raise ValueError(f"its magic number is {found} (expected {magic})")
        values = np.frombuffer(content, dtype=np.uint8, offset=header_size)
        if values.size != reduce(mul, shape, 1):
            raise ValueError(f"it has {values.size} values (expected {shape})")
        return values.reshape(shape)

"""
`tensorflow.examples.tutorials.mnist.input_data` of TensorFlow 1, which most tutorials import.

It reads the four files of MNIST from the directory that the script names, and never downloads them.
"""

from __future__ import annotations

import gzip
import os
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.replacement import add
from ..dataflow.dataset.mnist import read_idx
from .unsupported import Unsupported, UnsupportedModule

_PACKAGES = ("tensorflow.examples", "tensorflow.examples.tutorials", "tensorflow.examples.tutorials.mnist")
_ONLY_INPUT_DATA = (
    "tensorflow.examples has only tutorials.mnist.input_data under `tensorpack-lite run`. Copy the other modules from "
    "the examples of TensorFlow 1 into the script's folder."
)
_FILES = (
    ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
)


def find_module(name: str) -> Any:
    """
    Return a module of `tensorflow.examples`, which becomes an attribute of TensorFlow.

    Args:
        name: its full name. Modules other than `input_data` and the packages that contain it are stand-ins.
    """
    module = _examples()
    add(tensorflow, "examples", module)  # where `import tensorflow.examples... as name` looks it up
    for part in name.split(".")[2:]:
        module = getattr(module, part)
        if isinstance(module, Unsupported):
            return UnsupportedModule(name, _ONLY_INPUT_DATA)
    return module


@lru_cache(maxsize=None)
def _examples() -> ModuleType:
    """Return `tensorflow.examples` with the packages that contain `input_data`."""
    packages = [UnsupportedModule(package, _ONLY_INPUT_DATA) for package in _PACKAGES]
    vars(packages[0]).update(tutorials=packages[1])
    vars(packages[1]).update(mnist=packages[2])
    vars(packages[2]).update(input_data=sys.modules[__name__])
    return packages[0]


class DataSet:
    """
    Images with labels, in batches.

    Args:
        images: uint8 [N, 28, 28, 1].
        labels: uint8 [N], or float64 [N, 10] with a one for the class.
        fake_data: whether `next_batch` returns constants instead of the data.
        one_hot: the form of the labels of fake data.
        dtype: `tf.float32`, for values from 0 to 1, or `tf.uint8`.
        reshape: whether an image is a row of 784 values.
        seed: of the order.

    Attributes:
        images, labels: all of them, in the order of the current epoch.
        num_examples: how many there are.
        epochs_completed: how often `next_batch` has reached the end.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        self._random = np.random.RandomState(seed)
        self._fake_label: Any = ([1] + [0] * 9 if one_hot else 0) if fake_data else None
        if reshape:
            images = images.reshape(len(images), int(np.prod(images.shape[1:])))  # there may be no images
        is_float = tf.as_dtype(dtype) == tf.float32
        self.images = images.astype(np.float32) * np.float32(1 / 255) if is_float else images
        self.labels = labels
        self.num_examples = 10000 if fake_data else len(images)
        self.epochs_completed = 0
        self._position = 0

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the next images and labels. A batch at the end of an epoch continues in the next one.

        Args:
            batch_size: how many, at most `num_examples`.
            fake_data: return images of ones, and labels of class 0.
            shuffle: whether each epoch has a new random order.
        """
        if fake_data or self._fake_label is not None:
            label = 0 if self._fake_label is None else self._fake_label
            return [[1] * 784 for _ in range(batch_size)], [label] * batch_size  # type: ignore[return-value]
        if self._position == 0 and self.epochs_completed == 0 and shuffle:
            self._shuffle()
        start, end = self._position, self._position + batch_size
        images, labels = self.images[start:end], self.labels[start:end]
        self._position = end
        if end > self.num_examples:
            self.epochs_completed += 1
            if shuffle:
                self._shuffle()
            self._position = end - self.num_examples
            images = np.concatenate([images, self.images[: self._position]])
            labels = np.concatenate([labels, self.labels[: self._position]])
        return images, labels

    def _shuffle(self) -> None:
        order = self._random.permutation(self.num_examples)
        self.images, self.labels = self.images[order], self.labels[order]


class Datasets(NamedTuple):
    """The three `DataSet` of `read_data_sets`."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = "",
) -> Datasets:
    """
    Read MNIST, or another data set in the same four files.

    Args:
        train_dir: the directory of the files `train-images-idx3-ubyte.gz`, `train-labels-idx1-ubyte.gz`,
            `t10k-images-idx3-ubyte.gz` and `t10k-labels-idx1-ubyte.gz`.
        fake_data: make data sets of constants, without files.
        one_hot: whether labels are rows with a one for the class.
        dtype, reshape, seed: see DataSet.
        validation_size: how many of the first training images are for validation.
        source_url: ignored, because nothing is downloaded.

    Raises:
        FileNotFoundError: files are missing. The message lists them.
        ValueError: a file is damaged, or `validation_size` is not between 0 and the number of training images.
    """
    if fake_data:
        nothing = np.zeros((0, 28, 28, 1), np.uint8), np.zeros(0, np.uint8)
        return Datasets(*(DataSet(*nothing, True, one_hot, dtype, reshape, seed) for _ in range(3)))
    directory = str(train_dir)
    missing = [name for pair in _FILES for name in pair if not os.path.exists(os.path.join(directory, name))]
    if missing:
        raise FileNotFoundError(
            f"read_data_sets: {os.path.abspath(directory)} lacks files of MNIST (expected four, missing: "
            f"{', '.join(missing)}). Copy them there: `tensorpack-lite run` downloads nothing for this function. "
            "tensorpack.dataflow.dataset.Mnist('train', dir=...) and Mnist('test', dir=...) download them."
        )
    (images, labels), (test_images, test_labels) = [_read_pair(directory, *pair, one_hot) for pair in _FILES]
    if not 0 <= validation_size <= len(images):
        raise ValueError(
            f"read_data_sets: validation_size is wrong (expected 0 to {len(images)}, the number of training images, got "
            f"{validation_size})."
        )
    parts = [
        (images[validation_size:], labels[validation_size:]),
        (images[:validation_size], labels[:validation_size]),
        (test_images, test_labels),
    ]
    return Datasets(*(DataSet(*part, dtype=dtype, reshape=reshape, seed=seed) for part in parts))


def _read_pair(directory: str, images: str, labels: str, one_hot: bool) -> tuple[np.ndarray, np.ndarray]:
    values = read_idx(os.path.join(directory, images), is_images=True)
    classes = read_idx(os.path.join(directory, labels), is_images=False)
    return values[..., None], dense_to_one_hot(classes, 10) if one_hot else classes


def extract_images(f: Any) -> np.ndarray:
    """Return the images uint8 [N, H, W, 1] of an open idx file that is compressed with gzip."""
    with gzip.open(f) as stream:
        content = stream.read()
    count, height, width = np.frombuffer(content, ">u4", 3, 4)
    return np.frombuffer(content, np.uint8, offset=16).reshape(count, height, width, 1)


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> np.ndarray:
    """Return the labels uint8 [N] of an open idx file that is compressed with gzip; rows if `one_hot`."""
    with gzip.open(f) as stream:
        labels = np.frombuffer(stream.read(), np.uint8, offset=8)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int) -> np.ndarray:
    """Return a float64 array [N, num_classes] with a one for the class of each row."""
    return np.eye(num_classes)[labels_dense]

"""`tensorflow.examples.tutorials.mnist.input_data` reads local files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tf1 import mnist_tutorial as input_data

REAL = Path("/work/shared/data/mnist")


@pytest.fixture
def folder(tmp_path):
    """The four files, with 20 training images and 6 test images. All pixels of image n are n, and its label is n % 10."""
    for part, size in (("train", 20), ("t10k", 6)):
        numbers = np.arange(size, dtype="uint8")
        images = struct.pack(">IIII", 2051, size, 28, 28) + np.repeat(numbers, 784).tobytes()
        labels = struct.pack(">II", 2049, size) + (numbers % 10).tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return str(tmp_path)


def test_parts(folder):
    """The first training images are for validation."""
    data = input_data.read_data_sets(folder, validation_size=5, dtype=tf.uint8, reshape=False)
    assert (15, 28, 28, 1) == data.train.images.shape
    assert list(range(5)) == data.validation.images[:, 0, 0, 0].tolist() == data.validation.labels.tolist()
    assert 6 == data.test.num_examples


def test_batches(folder):
    """A batch at the end of an epoch continues in the next one; each epoch has every image once."""
    train = input_data.read_data_sets(folder, one_hot=True, validation_size=5, seed=0).train
    batches = [train.next_batch(10) for _ in range(3)]
    images = np.concatenate([images for images, _ in batches])
    numbers = np.round(images[:, 0] * 255).astype(int)
    assert list(range(5, 20)) == sorted(numbers[:15]) == sorted(numbers[15:])
    assert (numbers % 10).tolist() == np.concatenate([labels for _, labels in batches]).argmax(1).tolist()
    assert 1 == train.epochs_completed
    assert (784,) == images.shape[1:]
    ordered = input_data.read_data_sets(folder, validation_size=0).train
    assert [0, 1, 2] == ordered.next_batch(3, shuffle=False)[1].tolist()


def test_fake_data(tmp_path):
    """Fake data need no files."""
    images, labels = input_data.read_data_sets(str(tmp_path), fake_data=True, one_hot=True).train.next_batch(2)
    assert [[1] * 784] * 2 == images
    assert [[1] + [0] * 9] * 2 == labels


def test_missing_files(tmp_path):
    """Missing files are listed, with the directory and a way to get them."""
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="missing: train-labels.*t10k-images.*Mnist") as error:
        input_data.read_data_sets(str(tmp_path))
    assert str(tmp_path) in str(error.value)


def test_wrong_validation_size(folder):
    """More images for validation than there are is an error."""
    with pytest.raises(ValueError, match="expected 0 to 20, the number of training images, got 21"):
        input_data.read_data_sets(folder, validation_size=21)


@pytest.mark.skipif(not REAL.exists(), reason="the files of MNIST are not here")
def test_real_files():
    """The real test files have 10000 images of 28 x 28 pixels, and labels from 0 to 9."""
    with open(str(REAL / "t10k-images-idx3-ubyte.gz"), "rb") as file:
        images = input_data.extract_images(file)
    with open(str(REAL / "t10k-labels-idx1-ubyte.gz"), "rb") as file:
        labels = input_data.extract_labels(file, one_hot=True)
    assert ((10000, 28, 28, 1), (10000, 10)) == (images.shape, labels.shape)
    assert [7, 2, 1, 0, 4] == labels[:5].argmax(1).tolist()

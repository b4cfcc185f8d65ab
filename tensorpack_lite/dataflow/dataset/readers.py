"""
Readers of files of datasets, which execute nothing in them: images (with OpenCV), MATLAB files (with SciPy), pickled
dicts of arrays, and Caffe's `BlobProto`. OpenCV and SciPy are optional.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import load_optional
from ...utils.plain_pickle import load_plain
from ...utils.protobuf import read_fields, read_integers
from .mat_check import check_mat

_NUMBERS = "biuf"  # kinds of dtypes


def read_image(path: str) -> np.ndarray:
    """
    Read an image file as a color image, even if it is grayscale.

    Args:
        path: a JPEG, a PNG, or another format that OpenCV can read.

    Returns:
        uint8 [H, W, 3] in BGR order.

    Raises:
        FileNotFoundError: the file does not exist.
        DamagedFileError: the file is damaged or is not an image.
        ImportError: OpenCV is not installed.
    """
    cv2 = load_optional("cv2", "read_image")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"The image {path} does not exist.")
    with parsing(path, "an image"):
        image = cv2.imread(path, cv2.IMREAD_COLOR)
    if image is None:
        raise DamagedFileError(f"{path} ({os.path.getsize(path)} bytes) is not an image that OpenCV can read.")
    return image


def read_mat(path: str, *names: str) -> list[np.ndarray]:
    """
    Read variables of a MATLAB file (up to version 7.2).

    Args:
        path: the .mat file.
        *names: the names of the variables.

    Returns:
        The values of the variables, in this order.

    Raises:
        DamagedFileError: the file is damaged, is not a MATLAB file, or lacks one of these variables.
        OSError: the file cannot be opened.
        ImportError: SciPy is not installed.
    """
    loadmat = load_optional("scipy.io", "read_mat").loadmat
    with open(path, "rb") as file, parsing(
        path, "a MATLAB file", "If it was downloaded, delete it, and it will be downloaded again."
    ):
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as packed:
            check_mat(packed)
        content = loadmat(file, variable_names=names)
    absent = [name for name in names if name not in content]
    if absent:
        raise DamagedFileError(
            f"{path} does not contain the variable {', '.join(absent)}. Is it a file of this dataset?"
        )
    return [content[name] for name in names]


def check_labels(name: str, labels: np.ndarray, count: int, num_classes: int) -> np.ndarray:
    """
    Check labels that were read from a file.

    Args:
        name: the file and its variable, for the message.
        labels: an array of any shape.
        count: the expected number of labels.
        num_classes: the largest valid label; the smallest is 1.

    Returns:
        int64 [count].

    Raises:
        DamagedFileError: there are fewer or more labels, or one is not in range.
    """
    labels = labels.ravel()
    if len(labels) != count or labels.dtype.kind not in _NUMBERS:
        raise DamagedFileError(
            f"{name} is invalid (expected {count} numbers, got {len(labels)} values of dtype {labels.dtype})."
        )
    if labels.size and not (labels.min() >= 1 and labels.max() <= num_classes):
        raise DamagedFileError(
            f"{name} is invalid (expected 1 to {num_classes}, got {labels.min()} to {labels.max()})."
        )
    return labels.astype(np.int64)


def load_array_dict(path: str) -> dict[str, Any]:
    """
    Read a pickled dict of arrays, written by Python 2 or 3: the format of CIFAR.

    Args:
        path: the file.

    Returns:
        The dict with str keys. Arrays are new and writable; a str of Python 2 becomes bytes.

    Raises:
        DamagedFileError: the pickle is damaged, is not a dict, or contains anything other than plain data.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(path, "a pickle of plain data"):
        content = load_plain(file, encoding="bytes")
    if not isinstance(content, dict):
        raise DamagedFileError(f"{path} is not a pickled dict (got {type(content).__name__}).")
    for value in content.values():
        if isinstance(value, np.ndarray) and value.dtype.kind not in _NUMBERS:
            raise DamagedFileError(f"{path} contains an array of dtype {value.dtype} (expected numbers).")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}


def read_blob_proto(path: str) -> np.ndarray:
    """
    Read the array of a `.binaryproto` file: Caffe's `BlobProto`, a protocol buffer with an array of floats.

    Args:
        path: the file.

    Returns:
        float32, with the shape in the file. An old shape loses its leading sizes of 1: [3, 256, 256] for
        ImageNet's mean.

    Raises:
        DamagedFileError: the file is damaged or is not a BlobProto.
        OSError: the file cannot be opened.
    """
    with open(path, "rb") as file:
        content = file.read()
    with parsing(path, f"a BlobProto ({len(content)} bytes)"):
        return _decode_blob(content)


def _decode_blob(content: bytes) -> np.ndarray:
    # Fields 1 to 4 are num, channels, height, width (old shape); 5 is data (float); 7 is shape, a message with the
    # sizes in field 1; 8 is double_data.
    old_shape = dict.fromkeys((1, 2, 3, 4), 1)
    shape: list[int] = []
    values = []
    for number, value in read_fields(content):
        if number in old_shape and isinstance(value, int):
            old_shape[number] = value
        elif number == 7 and isinstance(value, bytes):
            shape = [size for key, sizes in read_fields(value) if key == 1 for size in read_integers(sizes)]
        elif number in (5, 8) and isinstance(value, bytes):
            values.append(np.frombuffer(value, "<f4" if number == 5 else "<f8"))
    array = np.concatenate(values).astype(np.float32)
    if not shape:
        shape = list(old_shape.values())
        while len(shape) > 1 and shape[0] == 1:
            shape.pop(0)
    return array.reshape(shape)

"""Readers of image files (with OpenCV) and MATLAB files (with SciPy). Both packages are optional."""

from __future__ import annotations

import mmap
import os

import numpy as np

from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import load_optional
from .mat_check import check_mat

__all__ = ["check_labels", "read_image", "read_mat"]


def read_image(path: str) -> np.ndarray:
    """
    Read an image file as a color image, also if it is grayscale.

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
        raise DamagedFileError(
            f"{path} ({os.path.getsize(path)} bytes) is not an image that OpenCV can read."
        )
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
    if len(labels) != count or labels.dtype.kind not in "biuf":
        raise DamagedFileError(
            f"{name} is invalid (expected {count} numbers, got {len(labels)} values of dtype {labels.dtype})."
        )
    if labels.size and not (labels.min() >= 1 and labels.max() <= num_classes):
        raise DamagedFileError(
            f"{name} is invalid (expected 1 to {num_classes}, got {labels.min()} to {labels.max()})."
        )
    return labels.astype(np.int64)

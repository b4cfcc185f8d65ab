"""Readers of the file formats that data sets come in: images by OpenCV, MATLAB's files by SciPy. Both are optional."""

from __future__ import annotations

import mmap
import os

import numpy as np

from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import load_optional
from .mat_check import check_mat

__all__ = ["read_image", "read_mat"]


def read_image(path: str) -> np.ndarray:
    """
    Read an image file as colours, whatever is in it.

    Args:
        path: of a JPEG, a PNG, or another format that OpenCV reads.

    Returns:
        uint8 [H, W, 3], blue, green, red.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: the file is damaged, or is not an image.
        ImportError: OpenCV is not installed.
    """
    cv2 = load_optional("cv2", "read_image")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no image {path}.")
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
        path: of the .mat file.
        *names: the variables.

    Returns:
        Their values, in this order.

    Raises:
        DamagedFileError: the file is damaged, is not a MATLAB file, or lacks one of these variables.
        OSError: it cannot be opened.
        ImportError: SciPy is not installed.
    """
    loadmat = load_optional("scipy.io", "read_mat").loadmat
    with open(path, "rb") as file, parsing(
        path, "a MATLAB file", "If it was downloaded, delete it; it is downloaded again."
    ):
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as packed:
            check_mat(packed)
        content = loadmat(file, variable_names=names)
    absent = [name for name in names if name not in content]
    if absent:
        raise DamagedFileError(f"{path} has no variable {', '.join(absent)}. Is it a file of this data set?")
    return [content[name] for name in names]

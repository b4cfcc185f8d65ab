"""Conversion and writing of images."""

from __future__ import annotations

import numpy as np

from ..optional import load_optional


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Return the image as uint8. Values are clipped to [0, 255] and truncated to integers."""
    return image if image.dtype == np.uint8 else np.clip(image, 0, 255).astype(np.uint8)


def as_bgr(image: np.ndarray) -> np.ndarray:
    """Return a new image [H, W, 3] for an image with 1 or 3 channels."""
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image.copy()


def write_image(path: str, image: np.ndarray) -> None:
    """
    Write an image in the format of the file's suffix.

    Raises:
        OSError: the file cannot be written.
    """
    if not load_optional("cv2", "write_image").imwrite(path, image):
        raise OSError(f"write_image: OpenCV cannot write {path}. Check the disk's space and the permissions.")

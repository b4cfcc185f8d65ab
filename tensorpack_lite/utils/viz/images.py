"""What the other files of this package do with images: convert and write them."""

from __future__ import annotations

import numpy as np

from ..optional import load_optional

__all__ = ["as_bgr", "to_uint8", "write_image"]


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Give the image as uint8: values outside of [0, 255] are clipped, and fractions cut off."""
    return image if image.dtype == np.uint8 else np.clip(image, 0, 255).astype(np.uint8)


def as_bgr(image: np.ndarray) -> np.ndarray:
    """Give a new image [H, W, 3] of one with 1 or 3 channels."""
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image.copy()


def write_image(path: str, image: np.ndarray) -> None:
    """
    Write a file; its suffix says in which format.

    Raises:
        OSError: it cannot be written.
    """
    if not load_optional("cv2", "write_image").imwrite(path, image):
        raise OSError(f"OpenCV cannot write {path}. Look at the disk's space and rights.")

"""OpenCV, which is optional: loaded by the first call that needs it."""

from __future__ import annotations

from typing import Any

__all__ = ["load_cv2"]


def load_cv2() -> Any:
    """
    Import OpenCV.

    Returns:
        The module `cv2`.

    Raises:
        ImportError: it is not installed; with the command that installs it.
    """
    try:
        import cv2
    except ImportError as error:
        raise ImportError('Images need OpenCV: pip install "tensorpack_lite[image]"') from error
    return cv2

"""Boxes and text on images, and color maps."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ..optional import load_optional
from .images import as_bgr, to_uint8

_BOX_COLOR = (218, 218, 218)


def draw_boxes(
    im: np.ndarray,
    boxes: np.ndarray | Sequence[Sequence[float]],
    labels: Sequence[str] | None = None,
    color: Sequence[float] | None = None,
) -> np.ndarray:
    """
    Draw boxes on an image, largest first.

    Args:
        im: `[H, W]`, `[H, W, 1]` or `[H, W, 3]`, BGR in [0, 255]. It is not changed.
        boxes: `[N, 4]`, rows `x1, y1, x2, y2` in pixels; N may be 0.
        labels: a line of text for each box.
        color: BGR. Default: light gray.

    Returns:
        A new image, uint8 `[H, W, 3]`.

    Raises:
        ValueError: the boxes have another shape, a box has no area or is outside of the image, or the number
            of labels is wrong.
        ImportError: OpenCV is not installed.
    """
    cv2 = load_optional("cv2", "draw_boxes")
    image = as_bgr(to_uint8(im[:, :, None] if im.ndim == 2 else im))
    corners = np.asarray(boxes, dtype=np.float64)
    corners = corners.reshape(0, 4) if corners.size == 0 else corners
    _check_boxes(corners, image.shape, labels)
    color = tuple(float(c) for c in (_BOX_COLOR if color is None else color))
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    for i in np.argsort(-areas, kind="stable"):
        x1, y1, x2, y2 = (int(corner) for corner in corners[i])
        cv2.rectangle(image, (x1, y1), (x2, y2), color, 1)
        if labels is not None:
            image = draw_text(image, (x1, y1), labels[i], color)
    return image


def draw_text(
    img: np.ndarray, pos: Sequence[float], text: str, color: Sequence[float], font_scale: float = 0.4
) -> np.ndarray:
    """
    Write a line of text on a filled background, so that it is readable on any image.

    Args:
        img: `[H, W, 3]`, BGR in [0, 255]. It is not changed.
        pos: `(x, y)`, the lower left corner of the background. It is moved if the text would leave the image.
        text: the line.
        color: BGR color of the background. The letters are black or white.
        font_scale: size of the letters; 0.4 is 9 pixels.

    Returns:
        A new image, uint8 `[H, W, 3]`.

    Raises:
        ImportError: OpenCV is not installed.
    """
    cv2 = load_optional("cv2", "draw_text")
    image = to_uint8(img).copy()
    font = cv2.FONT_HERSHEY_SIMPLEX
    (width, height), below = cv2.getTextSize(text, font, font_scale, 1)
    height += below
    left = max(0, min(int(pos[0]), image.shape[1] - width))
    bottom = max(height, min(int(pos[1]), image.shape[0]))
    strip = tuple(float(c) for c in color)
    blue, green, red = strip
    letters = (0, 0, 0) if 0.114 * blue + 0.587 * green + 0.299 * red > 127 else (255, 255, 255)
    cv2.rectangle(image, (left, bottom - height), (left + width - 1, bottom - 1), strip, cv2.FILLED)
    cv2.putText(image, text, (left, bottom - below), font, font_scale, letters, 1, cv2.LINE_AA)
    return image


def intensity_to_rgb(intensity: np.ndarray, cmap: str = "cubehelix", normalize: bool = False) -> np.ndarray:
    """
    Convert a 2-D array, such as a saliency map, to colors.

    Args:
        intensity: `[H, W]`, clipped to [0, 1].
        cmap: name of a color map of matplotlib.
        normalize: first map the smallest number to 0 and the largest to 1. If all are equal, they become 0.

    Returns:
        float32 `[H, W, 3]`, RGB in [0, 255].

    Raises:
        ValueError: `intensity` is not 2-D, or the color map does not exist.
        ImportError: matplotlib is not installed.
    """
    matplotlib = load_optional("matplotlib", "intensity_to_rgb")
    numbers = np.asarray(intensity, dtype=np.float64)
    if numbers.ndim != 2:
        raise ValueError(f"intensity_to_rgb: wrong shape (expected [H, W], got {numbers.shape}).")
    if cmap not in matplotlib.colormaps:
        raise ValueError(
            f"intensity_to_rgb: matplotlib has no color map '{cmap}'. List them with sorted(matplotlib.colormaps)."
        )
    if normalize:
        numbers = numbers - numbers.min()
        numbers = numbers / (numbers.max() or 1.0)
    return (matplotlib.colormaps[cmap](numbers)[:, :, :3] * 255).astype(np.float32)


def _check_boxes(boxes: np.ndarray, shape: tuple[int, ...], labels: Sequence[str] | None) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"draw_boxes: the boxes have the wrong shape (expected [N, 4], got {boxes.shape}).")
    if labels is not None and len(labels) != len(boxes):
        raise ValueError(f"draw_boxes: wrong number of labels (expected {len(boxes)}, got {len(labels)}).")
    for x1, y1, x2, y2 in boxes:
        if not (0 <= x1 < x2 <= shape[1] and 0 <= y1 < y2 <= shape[0]):
            raise ValueError(
                f"draw_boxes: the box {x1:g}, {y1:g}, {x2:g}, {y2:g} has no area or is not inside the image of "
                f"{shape[1]} x {shape[0]} pixels. Clip boxes first, and remove empty ones."
            )

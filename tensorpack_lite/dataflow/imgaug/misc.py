"""Flip, transpose and resize."""

from __future__ import annotations

from typing import Any, Tuple, Union

from ...utils import logger
from ._check import check_probability, check_range, check_size
from ._opencv import INTER_LINEAR, require_opencv
from .base import ImageAugmentor
from .transform import FlipTransform, ResizeTransform, TransposeTransform
from .transform_base import BaseTransform, NoOpTransform

__all__ = ["Flip", "RandomResize", "Resize", "ResizeShortestEdge", "Transpose"]

Range = Union[Tuple[int, int], Tuple[float, float]]

_MAX_TRIES = 50


class Flip(ImageAugmentor):
    """
    Mirror, or leave as it is.

    Args:
        horiz: exchange left and right.
        vert: exchange top and bottom. Exactly one of the two is wanted; for both take two augmentors.
        prob: how probable it is.

    Raises:
        ValueError: both or neither; or `prob` is not a probability.

    tensorpack: same.
    """

    def __init__(self, horiz: bool = False, vert: bool = False, prob: float = 0.5) -> None:
        super().__init__()
        if bool(horiz) == bool(vert):
            raise ValueError(
                f"Flip: takes exactly one of horiz and vert, got horiz={horiz!r}, vert={vert!r}. For both, use two Flips."
            )
        check_probability(self, "prob", prob)
        self.horiz, self.vert, self.prob = horiz, vert, prob

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw whether."""
        h, w = img.shape[:2]
        if self.rng.rand() < self.prob:
            return FlipTransform(h, w, bool(self.horiz))
        return NoOpTransform()


class Transpose(ImageAugmentor):
    """
    Exchange rows and columns, or leave as it is.

    Args:
        prob: how probable it is.

    Raises:
        ValueError: `prob` is not a probability.

    tensorpack: same.
    """

    def __init__(self, prob: float = 0.5) -> None:
        super().__init__()
        check_probability(self, "prob", prob)
        self.prob = prob

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw whether."""
        return TransposeTransform() if self.rng.rand() < self.prob else NoOpTransform()


class Resize(ImageAugmentor):
    """
    Stretch to a size.

    Args:
        shape: (height, width), or a number for both.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError, ValueError: `shape` is not a size.
        ImportError: OpenCV is not installed.

    tensorpack: same.
    """

    def __init__(self, shape: int | tuple[int, int], interp: int = INTER_LINEAR) -> None:
        super().__init__()
        require_opencv(self)
        shape = check_size(self, "shape", shape)
        self.shape, self.interp = shape, interp

    def get_transform(self, img: Any) -> BaseTransform:
        """Return a ResizeTransform."""
        return ResizeTransform(img.shape[0], img.shape[1], self.shape[0], self.shape[1], self.interp)


class ResizeShortestEdge(ImageAugmentor):
    """
    Scale so that the shorter side has a length; height and width keep their ratio.

    Args:
        size: the length in pixels.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError, ValueError: `size` is not a size.
        ImportError: OpenCV is not installed.

    tensorpack: same.
    """

    def __init__(self, size: int, interp: int = INTER_LINEAR) -> None:
        super().__init__()
        require_opencv(self)
        size = check_size(self, "size", size)[0]
        self.size, self.interp = size, interp

    def get_transform(self, img: Any) -> ResizeTransform:
        """Return a ResizeTransform."""
        h, w = img.shape[:2]
        scale = self.size / min(h, w)
        new_h, new_w = (self.size, int(scale * w + 0.5)) if h < w else (int(scale * h + 0.5), self.size)
        return ResizeTransform(h, w, new_h, new_w, self.interp)


class RandomResize(ImageAugmentor):
    """
    Scale by, or to, numbers that are drawn.

    Args:
        xrange: (low, high) for the width: floats are factors, integers are pixels.
        yrange: the same for the height; None: like `xrange`.
        minimum: (width, height), in pixels, below which a drawn size does not go.
        aspect_ratio_thres: how much width / height may change, as a fraction of what it was. A size that changes it more
            is drawn again; after 50 of them the image stays as it is, with a warning. 0: height follows width.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError: a range is not a pair of numbers, or one is of floats and the other of integers.
        ValueError: low > high; or `aspect_ratio_thres` is 0 and the ranges differ.
        ImportError: OpenCV is not installed.

    Example:
        >>> RandomResize((0.8, 1.2), (0.8, 1.2))            # by 0.8 to 1.2, not far from the old shape
        >>> RandomResize((200, 300), aspect_ratio_thres=0)  # to a width of 200 to 300

    tensorpack: same; there `yrange=None` fails unless `aspect_ratio_thres` is 0.
    """

    def __init__(
        self,
        xrange: Range,
        yrange: Range | None = None,
        minimum: tuple[int, int] = (0, 0),
        aspect_ratio_thres: float = 0.15,
        interp: int = INTER_LINEAR,
    ) -> None:
        super().__init__()
        require_opencv(self)
        xrange = check_range(self, "xrange", xrange)
        if yrange is not None:
            yrange = check_range(self, "yrange", yrange)
            if _is_float(xrange) != _is_float(yrange):
                raise TypeError(
                    f"RandomResize: xrange and yrange are both factors (floats) or both pixels (integers), got {xrange} "
                    f"and {yrange}."
                )
            if aspect_ratio_thres == 0 and xrange != yrange:
                raise ValueError(
                    f"RandomResize: with aspect_ratio_thres=0 the height follows the width, so yrange must be None or "
                    f"{xrange}, got {yrange}."
                )
        self.xrange = xrange
        self.yrange = yrange
        self.minimum = minimum
        self.aspect_ratio_thres = aspect_ratio_thres
        self.interp = interp

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw sizes until one keeps the shape well enough."""
        h, w = img.shape[:2]
        for _ in range(_MAX_TRIES):
            new_h, new_w = self._draw(h, w)
            change = abs(new_w / new_h / (w / h) - 1)
            if self.aspect_ratio_thres == 0 or change < self.aspect_ratio_thres + 1e-5:
                return ResizeTransform(h, w, new_h, new_w, self.interp)
        logger.warning(
            f"RandomResize: none of {_MAX_TRIES} sizes drawn for an image of {w}x{h} (width x height) changes its shape by "
            f"less than aspect_ratio_thres={self.aspect_ratio_thres}; the image stays as it is."
        )
        return NoOpTransform()

    def _draw(self, h: int, w: int) -> tuple[int, int]:
        """Draw (height, width) in pixels."""
        scale_x, scale_y = (w, h) if _is_float(self.xrange) else (1, 1)
        new_w = float(self._rand_range(*self.xrange)) * scale_x
        if self.aspect_ratio_thres == 0:
            new_h = new_w * h / w
        else:
            new_h = float(self._rand_range(*(self.yrange or self.xrange))) * scale_y
        return (
            max(int(max(new_h, self.minimum[1]) + 0.5), 1),
            max(int(max(new_w, self.minimum[0]) + 0.5), 1),
        )


def _is_float(bounds: Range) -> bool:
    return any(isinstance(bound, float) for bound in bounds)

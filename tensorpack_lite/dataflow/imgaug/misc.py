"""Augmentors that flip, transpose and resize images."""

from __future__ import annotations

from typing import Sequence, Tuple, Union

from ...utils import logger
from ...utils.checks import check_between
from ._check import check_range, check_size
from ._opencv import INTER_LINEAR, require_opencv
from .base import ImageAugmentor, ImageLike
from .transform import FlipTransform, ResizeTransform, TransposeTransform
from .transform_base import BaseTransform, NoOpTransform

Range = Union[Tuple[int, int], Tuple[float, float]]

_MAX_TRIES = 50


class Flip(ImageAugmentor):
    """
    Augmentor that flips the image with a probability.

    Args:
        horiz: whether to swap left and right.
        vert: whether to swap top and bottom. Set exactly one of `horiz` and `vert`; for both, use two augmentors.
        prob: the probability of flipping.

    Raises:
        ValueError: both or neither are set, or `prob` is not a probability.
    """

    def __init__(self, horiz: bool = False, vert: bool = False, prob: float = 0.5) -> None:
        super().__init__()
        if bool(horiz) == bool(vert):
            raise ValueError(
                f"Flip: expected exactly one of horiz and vert, got horiz={horiz!r}, vert={vert!r}. For both, use two Flips."
            )
        self.horiz, self.vert = horiz, vert
        self.prob = check_between("Flip: prob", prob, 0, 1)

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw whether to flip."""
        h, w = img.shape[:2]
        if self.rng.rand() < self.prob:
            return FlipTransform(h, w, bool(self.horiz))
        return NoOpTransform()


class Transpose(ImageAugmentor):
    """
    Augmentor that swaps rows and columns with a probability.

    Args:
        prob: the probability of transposing.

    Raises:
        ValueError: `prob` is not a probability.
    """

    def __init__(self, prob: float = 0.5) -> None:
        super().__init__()
        self.prob = check_between("Transpose: prob", prob, 0, 1)

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw whether to transpose."""
        return TransposeTransform() if self.rng.rand() < self.prob else NoOpTransform()


class Resize(ImageAugmentor):
    """
    Augmentor that resizes the image to a fixed size.

    Args:
        shape: (height, width), or one number for both.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError, ValueError: `shape` is not a size.
        ImportError: OpenCV is not installed.
    """

    def __init__(self, shape: int | Sequence[int], interp: int = INTER_LINEAR) -> None:
        super().__init__()
        require_opencv(self)
        self.shape = check_size("Resize: shape", shape)
        self.interp = interp

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Return a ResizeTransform."""
        return ResizeTransform(img.shape[0], img.shape[1], self.shape[0], self.shape[1], self.interp)


class ResizeShortestEdge(ImageAugmentor):
    """
    Augmentor that resizes the image so that its shorter side has a given length; the aspect ratio does not change.

    Args:
        size: the length in pixels.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError, ValueError: `size` is not a size.
        ImportError: OpenCV is not installed.
    """

    def __init__(self, size: int, interp: int = INTER_LINEAR) -> None:
        super().__init__()
        require_opencv(self)
        self.size = check_size("ResizeShortestEdge: size", size)[0]
        self.interp = interp

    def get_transform(self, img: ImageLike) -> ResizeTransform:
        """Return a ResizeTransform."""
        h, w = img.shape[:2]
        scale = self.size / min(h, w)
        new_h, new_w = (self.size, int(scale * w + 0.5)) if h < w else (int(scale * h + 0.5), self.size)
        return ResizeTransform(h, w, new_h, new_w, self.interp)


class RandomResize(ImageAugmentor):
    """
    Augmentor that resizes the image to a random size, or by random factors.

    Args:
        xrange: (low, high) for the width. Floats are factors, integers are pixels.
        yrange: (low, high) for the height. None: like `xrange`.
        minimum: minimum (width, height) of the result in pixels.
        aspect_ratio_thres: maximum relative change of the aspect ratio. A size that exceeds it is drawn again; after 50
            tries the image stays unchanged, with a warning. 0: the aspect ratio does not change.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError: a range is not a pair of numbers, or one has floats and the other has integers.
        ValueError: low > high; or `aspect_ratio_thres` is 0 and the ranges differ.
        ImportError: OpenCV is not installed.

    Example:
        >>> RandomResize((0.8, 1.2), (0.8, 1.2))            # by factors, with a similar aspect ratio
        >>> RandomResize((200, 300), aspect_ratio_thres=0)  # to a width of 200 to 300, with the same aspect ratio
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
        xrange = check_range("RandomResize: xrange", xrange)
        if yrange is not None:
            yrange = check_range("RandomResize: yrange", yrange)
            if _is_float(xrange) != _is_float(yrange):
                raise TypeError(
                    f"RandomResize: expected factors (floats) or pixels (integers) for both xrange and yrange, got {xrange} "
                    f"and {yrange}."
                )
            if aspect_ratio_thres == 0 and xrange != yrange:
                raise ValueError(
                    f"RandomResize: with aspect_ratio_thres=0 the height follows from the width: expected yrange=None or "
                    f"{xrange}, got {yrange}."
                )
        self.xrange, self.yrange = xrange, yrange
        self.minimum = minimum
        self.aspect_ratio_thres = aspect_ratio_thres
        self.interp = interp

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw sizes until the aspect ratio changes little enough."""
        h, w = img.shape[:2]
        for _ in range(_MAX_TRIES):
            new_h, new_w = self._draw(h, w)
            change = abs(new_w / new_h / (w / h) - 1)
            if self.aspect_ratio_thres == 0 or change < self.aspect_ratio_thres + 1e-5:
                return ResizeTransform(h, w, new_h, new_w, self.interp)
        logger.warning(
            f"RandomResize: {_MAX_TRIES} random sizes for an image of {w}x{h} (width x height) all changed the aspect ratio by "
            f"more than aspect_ratio_thres={self.aspect_ratio_thres}; the image stays unchanged."
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

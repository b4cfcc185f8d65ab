"""Put an image onto a larger background."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple

import numpy as np

from ...utils.errors import type_error
from ._check import check_size
from ._place import anywhere, in_the_middle
from .base import ImageAugmentor
from .transform_base import BaseTransform, TransformFactory

__all__ = ["BackgroundFiller", "CenterPaste", "ConstantBackgroundFiller", "RandomPaste"]


class BackgroundFiller:
    """
    Base of what makes backgrounds. Subclasses define `_fill(background_shape, img)`.

    tensorpack: same.
    """

    def fill(self, background_shape: tuple[int, int], img: np.ndarray) -> np.ndarray:
        """
        Make a background.

        Args:
            background_shape: (height, width).
            img: the image that will be put onto it.

        Returns:
            An array of this height and width, with the channels and the type of `img`, which nobody else holds.
        """
        return self._fill(tuple(background_shape), img)

    def _fill(self, background_shape: tuple[int, ...], img: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__}: does not define _fill(background_shape, img).")


class ConstantBackgroundFiller(BackgroundFiller):
    """
    A background of one value.

    Args:
        value: a number, or one for each channel.

    tensorpack: same.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def _fill(self, background_shape: tuple[int, ...], img: np.ndarray) -> np.ndarray:
        return np.full(background_shape + img.shape[2:], self.value, dtype=img.dtype)

    def __repr__(self) -> str:
        return f"imgaug.ConstantBackgroundFiller(value={self.value!r})"


class CenterPaste(ImageAugmentor):
    """
    Put the image into the middle of a background.

    Args:
        background_shape: (height, width), or a number for both.
        background_filler: makes the background; None: black.

    Raises:
        TypeError: not a size, or not a BackgroundFiller.
        ValueError: when it runs, the background is smaller than the image.

    Note:
        Coordinates are refused with NotImplementedError.

    tensorpack: same.
    """

    def __init__(
        self, background_shape: int | tuple[int, int], background_filler: BackgroundFiller | None = None
    ) -> None:
        super().__init__()
        background_shape = check_size(self, "background_shape", background_shape)
        if background_filler is not None and not hasattr(background_filler, "fill"):
            raise type_error(f"{type(self).__name__}", "a BackgroundFiller", background_filler)
        self.background_shape, self.background_filler = background_shape, background_filler

    def get_transform(self, img: Any) -> BaseTransform:
        """Choose the place."""
        h, w = img.shape[:2]
        space = self.background_shape[0] - h, self.background_shape[1] - w
        if min(space) < 0:
            raise ValueError(
                f"{type(self).__name__}: the background of {self.background_shape} (height, width) is smaller than the image "
                f"of {h}x{w}. Resize or crop the image first."
            )
        filler = self.background_filler or ConstantBackgroundFiller(0)
        paste = _Paste(filler, self.background_shape, self._place(space))
        return TransformFactory(repr(self), apply_image=paste.put)

    def _place(self, space: tuple[int, int]) -> tuple[int, int]:
        """Choose the first row and column, given how many there are to spare."""
        return in_the_middle(space)


class RandomPaste(CenterPaste):
    """
    Put the image somewhere onto a background; each place is as probable as the others.

    Args:
        background_shape: (height, width), or a number for both.
        background_filler: makes the background; None: black.

    Raises:
        TypeError: not a size, or not a BackgroundFiller.
        ValueError: when it runs, the background is smaller than the image.

    Note:
        Coordinates are refused with NotImplementedError.

    tensorpack: same; there it never reaches the last row and column, and a background as large as the image fails.
    """

    def _place(self, space: tuple[int, int]) -> tuple[int, int]:
        return anywhere(space, self.rng)


class _Paste(NamedTuple):
    """What was decided: can be pickled, unlike a function inside a function."""

    filler: Any
    background_shape: Tuple[int, int]
    place: Tuple[int, int]

    def put(self, img: np.ndarray) -> np.ndarray:
        y0, x0 = self.place
        background = self.filler.fill(self.background_shape, img)
        background[y0 : y0 + img.shape[0], x0 : x0 + img.shape[1]] = img
        return background

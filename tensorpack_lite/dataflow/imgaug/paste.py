"""Augmentors that paste an image onto a larger background."""

from __future__ import annotations

from functools import partial
from typing import Sequence

import numpy as np

from ...utils.errors import type_error
from ._check import check_size
from .base import ImageAugmentor, ImageLike
from .transform_base import BaseTransform, TransformFactory


class BackgroundFiller:
    """Base class of background fillers. Subclasses define `_fill(background_shape, img)`."""

    def fill(self, background_shape: tuple[int, int], img: np.ndarray) -> np.ndarray:
        """
        Create a background.

        Args:
            background_shape: (height, width).
            img: the image to paste onto the background.

        Returns:
            A new array of this height and width, with the channels and the dtype of `img`.
        """
        return self._fill(tuple(background_shape), img)

    def _fill(self, background_shape: tuple[int, ...], img: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__}: does not define _fill(background_shape, img).")


class ConstantBackgroundFiller(BackgroundFiller):
    """
    Background of one color.

    Args:
        value: a number, or one for each channel.
    """

    def __init__(self, value: float | Sequence[float]) -> None:
        self.value = value

    def _fill(self, background_shape: tuple[int, ...], img: np.ndarray) -> np.ndarray:
        return np.full(background_shape + img.shape[2:], self.value, dtype=img.dtype)

    def __repr__(self) -> str:
        return f"imgaug.ConstantBackgroundFiller(value={self.value!r})"


class CenterPaste(ImageAugmentor):
    """
    Augmentor that pastes the image onto the middle of a background.

    Args:
        background_shape: (height, width), or one number for both.
        background_filler: creates the background. None: black.

    Raises:
        TypeError: `background_shape` is not a size, or `background_filler` is not a BackgroundFiller.
        ValueError: (when applied) the background is smaller than the image.

    Note:
        Coordinates raise NotImplementedError.
    """

    def __init__(
        self, background_shape: int | Sequence[int], background_filler: BackgroundFiller | None = None
    ) -> None:
        super().__init__()
        self.background_shape = check_size(f"{type(self).__name__}: background_shape", background_shape)
        if background_filler is not None and not hasattr(background_filler, "fill"):
            raise type_error(type(self).__name__, "a BackgroundFiller", background_filler)
        self.background_filler = background_filler

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Choose the position."""
        h, w = img.shape[:2]
        space = self.background_shape[0] - h, self.background_shape[1] - w
        if min(space) < 0:
            raise ValueError(
                f"{type(self).__name__}: the background of {self.background_shape} (height, width) is smaller than the image "
                f"of {h}x{w}. Resize or crop the image first."
            )
        filler = self.background_filler or ConstantBackgroundFiller(0)
        # unlike a closure, a partial can be pickled
        paste = partial(_paste, filler, self.background_shape, self._position(space))
        return TransformFactory(repr(self), apply_image=paste)

    def _position(self, space: tuple[int, int]) -> tuple[int, int]:
        """Return the first row and column, where `space` is the number of spare rows and columns."""
        return space[0] // 2, space[1] // 2


class RandomPaste(CenterPaste):
    """
    Augmentor that pastes the image at a random position onto a background; all positions are equally likely.

    Args:
        background_shape: (height, width), or one number for both.
        background_filler: creates the background. None: black.

    Raises:
        TypeError: `background_shape` is not a size, or `background_filler` is not a BackgroundFiller.
        ValueError: (when applied) the background is smaller than the image.

    Note:
        Coordinates raise NotImplementedError.
    """

    def _position(self, space: tuple[int, int]) -> tuple[int, int]:
        return self._draw_position(space)


def _paste(
    filler: BackgroundFiller, background_shape: tuple[int, int], position: tuple[int, int], img: np.ndarray
) -> np.ndarray:
    y0, x0 = position
    background = filler.fill(background_shape, img)
    background[y0 : y0 + img.shape[0], x0 : x0 + img.shape[1]] = img
    return background

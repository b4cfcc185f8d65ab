"""Random smooth deformation."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ._opencv import BORDER_REPLICATE, INTER_LINEAR, keep_shape_and_type, opencv, require_opencv
from .base import ImageAugmentor, ImageLike
from .transform_base import BaseTransform, Transform


class GaussianDeform(ImageAugmentor):
    """
    Augmentor that deforms an image: anchors move at random, and each pixel moves with the anchors near it.

    A pixel moves by the mean of the anchors' displacements, weighted with a Gaussian of the distance.

    Args:
        anchors: a list of (y, x), as fractions of height and width.
        shape: (height, width) of all images.
        sigma: standard deviation of the Gaussian, as a fraction of the size.
        randrange: maximum displacement of an anchor in each direction, in pixels. None: an eighth of the height.

    Raises:
        ValueError: the anchors are not pairs; (when called) the image has another shape.
        ImportError: OpenCV is not installed.

    Note:
        Coordinates cannot be transformed.
    """

    def __init__(
        self,
        anchors: Sequence[Sequence[float]],
        shape: Sequence[int],
        sigma: float = 0.5,
        randrange: float | None = None,
    ) -> None:
        super().__init__()
        require_opencv(self)
        places = np.asarray(anchors, np.float32)
        if places.ndim != 2 or places.shape[1] != 2 or not len(places):
            raise ValueError(f"GaussianDeform: anchors: expected a list of (y, x), got shape {places.shape}.")
        self.anchors = [tuple(anchor) for anchor in anchors]
        self.shape = int(shape[0]), int(shape[1])
        self.sigma = sigma
        self.randrange = self.shape[0] / 8 if randrange is None else randrange
        grid = np.mgrid[0 : self.shape[0], 0 : self.shape[1]].astype(np.float32)  # [2, h, w]: y, x
        self._grid = grid
        self._weights = _weights(grid / np.reshape(self.shape, (2, 1, 1)), places, sigma)

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw the displacements of the anchors."""
        if tuple(img.shape[:2]) != self.shape:
            raise ValueError(
                f"GaussianDeform: the image has the wrong size (expected {self.shape}, got {tuple(img.shape[:2])})."
            )
        moves = self._rand_range(-self.randrange, self.randrange, (len(self.anchors), 2))
        return _Remap(self._grid + np.einsum("khw,kc->chw", self._weights, moves))


def _weights(grid: np.ndarray, anchors: np.ndarray, sigma: float) -> np.ndarray:
    """Return [anchors, h, w] weights, whose sum is 1 for each pixel."""
    squares = ((grid[None] - anchors[:, :, None, None]) ** 2).sum(1)
    nearest = squares.min(0)  # for numerical stability
    weights = np.exp((nearest - squares) / (2 * sigma**2))
    return (weights / weights.sum(0)).astype(np.float32)


class _Remap(Transform):
    """The transform that reads each pixel at a position, [2, h, w]: y, x."""

    def __init__(self, positions: np.ndarray) -> None:
        self._positions = positions.astype(np.float32)

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        y, x = self._positions
        remap = opencv("GaussianDeform").remap
        return keep_shape_and_type(remap, img, x, y, INTER_LINEAR, borderMode=BORDER_REPLICATE)

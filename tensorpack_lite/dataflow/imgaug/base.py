"""
What an augmentor is: it looks at an image, draws what it needs, and gives a transform.

In:  an image.
Out: a transform (`transform.py`), which is applied to this image, to others of the same size and to coordinates::

    tfm = augmentor.get_transform(img)          draws
    img = tfm.apply_image(img)                  applies, as often as wanted
    boxes = tfm.apply_coords(boxes)

`augmentor.augment(img)` does the first two. One's own augmentor defines `get_transform`, or, where it only changes the
values of pixels, is a `PhotometricAugmentor`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NamedTuple, Sequence, Tuple

import numpy as np

from ...utils.develop import log_deprecated
from ...utils.errors import type_error
from ...utils.utils import get_rng
from ._check import check_image
from ._describe import describe, public_arguments
from .transform_base import BaseTransform, LazyTransform, PhotometricTransform, Transform, TransformList

__all__ = [
    "Augmentor",
    "AugmentorList",
    "ImageAugmentor",
    "ImagePlaceholder",
    "PhotometricAugmentor",
    "TransformAugmentorBase",
]


class ImagePlaceholder(NamedTuple):
    """
    Stands for an image of which only the shape is known; the geometric augmentors draw from that.

    tensorpack: same.
    """

    shape: Tuple[int, ...]


class ImageAugmentor:
    """
    Base of all augmentors. Subclasses define `get_transform`, and draw from `self.rng` and nothing else.

    An augmentor can be pickled; the copy draws a stream of its own. In a process that was forked it begins a new
    stream by itself, so workers differ; after `fix_rng_seed` each of these streams is reproducible.

    Attributes:
        rng: a `numpy.random.RandomState`.

    Example:
        >>> class Darker(ImageAugmentor):
        ...     def __init__(self, lowest=0.5):
        ...         super().__init__()
        ...         self._init(locals())                        # self.lowest; also makes repr work
        ...     def get_transform(self, img):
        ...         factor = self._rand_range(self.lowest, 1.0)
        ...         return PhotometricTransform(lambda img: (img * factor).astype(img.dtype))

    Note:
        Subclasses of the old form, which define `_get_augment_params(img)`, `_augment(img, params)` and
        `_augment_coords(coords, params)`, work as well. Without the last one, coordinates stay unchanged.

    tensorpack: same; there every augmentor lives until the process ends, and one whose constructor does not call this
    one has no `rng`.
    """

    def __init__(self) -> None:
        self.reset_state()

    def reset_state(self) -> None:
        """Begin a new random stream; an augmentor that holds others resets them."""
        self.rng = get_rng(self)

    def get_transform(self, img: Any) -> BaseTransform:
        """
        Draw.

        Args:
            img: the image `[h, w]` or `[h, w, c]`. Where only its size matters, anything with `shape`.

        Returns:
            What is to be done to images of this size.

        Raises:
            NotImplementedError: the class defines neither this nor the methods of the old form.
        """
        return _LegacyTransform(self, _legacy_params(self, img))

    def augment(self, img: np.ndarray) -> np.ndarray:
        """
        Draw, and apply to the image.

        Args:
            img: `[h, w]` or `[h, w, c]`, uint8 or a floating type.

        Returns:
            The new image. It may be a view of `img`, which is not changed.

        Raises:
            TypeError: `img` is not an array.
            ValueError: it has not two or three dimensions.
        """
        check_image(type(self).__name__, img)
        return self.get_transform(img).apply_image(img)

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, BaseTransform]:
        """Augment, and return also the transform; deprecated: use `get_transform` and `apply_image`."""
        log_deprecated("ImageAugmentor.augment_return_params", "Use get_transform and apply_image.", "", 3)
        tfm = self.get_transform(d)
        return tfm.apply_image(d), tfm

    def augment_with_params(self, d: np.ndarray, param: BaseTransform) -> np.ndarray:
        """Apply a transform to an image; deprecated: use `apply_image`."""
        log_deprecated("ImageAugmentor.augment_with_params", "Use the transform's apply_image.", "", 3)
        return param.apply_image(d)

    def augment_coords(self, coords: np.ndarray, param: BaseTransform) -> np.ndarray:
        """Apply a transform to coordinates; deprecated: use `apply_coords`."""
        log_deprecated("ImageAugmentor.augment_coords", "Use the transform's apply_coords.", "", 3)
        return param.apply_coords(coords)

    @property
    def rng(self) -> np.random.RandomState:
        """The random generator of this augmentor in this process."""
        pid, generator = self.__dict__.get("_generator", (None, None))
        if pid != os.getpid():  # forked, unpickled, or the constructor did not call this class's
            generator = get_rng(self)
            self.rng = generator
        return generator

    @rng.setter
    def rng(self, generator: np.random.RandomState) -> None:
        self._generator = os.getpid(), generator

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_generator"}

    def _init(self, params: dict[str, Any] | None = None) -> None:
        """Keep the constructor's arguments as attributes: `self._init(locals())`."""
        self.__dict__.update(public_arguments(params or {}))

    def _rand_range(self, low: float = 1.0, high: float | None = None, size: Any = None) -> Any:
        """
        Draw uniformly.

        Args:
            low: the lowest number; the highest one, if it is the only argument.
            high: the highest number.
            size: shape of the result; None for a single number.

        Returns:
            float32.
        """
        if high is None:
            low, high = 0.0, low
        return np.float32(self.rng.uniform(low, high, size))

    def __repr__(self) -> str:
        return describe(self)

    __str__ = __repr__


Augmentor = ImageAugmentor


class PhotometricAugmentor(ImageAugmentor):
    """
    Base of augmentors that change the values of pixels and move nothing.

    Subclasses define `_augment(img, params)` and, if they draw, `_get_augment_params(img)`. `_augment` must not change
    the array that it gets.

    Example:
        >>> class Darker(PhotometricAugmentor):
        ...     def _get_augment_params(self, img):
        ...         return self._rand_range(0.5, 1.0)
        ...     def _augment(self, img, factor):
        ...         return (img * factor).astype(img.dtype)

    tensorpack: same.
    """

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw; the transform calls `_augment`."""
        params = self._get_augment_params(img)
        return PhotometricTransform(partial(_augment_with, self, params), repr(self))

    def _get_augment_params(self, img: Any) -> Any:
        """Draw what `_augment` needs."""
        return None

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        """Return the new image."""
        raise NotImplementedError(
            f"{type(self).__name__}: does not define _augment(img, params), which returns the new image."
        )


class AugmentorList(ImageAugmentor):
    """
    Several augmentors, one after the other.

    Its transform knows what it does only after the first `apply_image`, because each augmentor draws for the image that
    the ones before it made. From then on it repeats itself: on other images, and on coordinates.

    Args:
        augmentors: a list or tuple.

    Raises:
        TypeError: not a list, or something in it is not an augmentor.

    Example:
        >>> augs = AugmentorList([RandomCrop(224), Flip(horiz=True)])
        >>> tfm = augs.get_transform(img)
        >>> img, points = tfm.apply_image(img), tfm.apply_coords(points)

    tensorpack: same; there an AssertionError.
    """

    def __init__(self, augmentors: Sequence[ImageAugmentor]) -> None:
        if not isinstance(augmentors, (list, tuple)):
            raise type_error("AugmentorList", "a list of augmentors", augmentors)
        for augmentor in augmentors:
            if not hasattr(augmentor, "get_transform"):
                raise type_error(
                    "AugmentorList", "a list of augmentors", augmentor, "Wrap a function: MapImage(func)."
                )
        self.augmentors = list(augmentors)
        super().__init__()

    def reset_state(self) -> None:
        """Reset all of them."""
        super().reset_state()
        for augmentor in self.augmentors:
            augmentor.reset_state()

    def get_transform(self, img: Any) -> TransformList:
        """Draw for the first one; the others draw for what comes out of it."""
        if len(img.shape) not in (2, 3):
            raise ValueError(f"AugmentorList: takes an image [h, w] or [h, w, c], got shape {img.shape}.")
        transforms: list[BaseTransform] = []
        for augmentor in self.augmentors:
            tfm = LazyTransform(augmentor.get_transform) if transforms else augmentor.get_transform(img)
            transforms += tfm.tfms if isinstance(tfm, TransformList) else [tfm]
        return TransformList(transforms)


class TransformAugmentorBase(ImageAugmentor):
    """
    Base of old augmentors whose `_get_augment_params(img)` returns a transform; deprecated: define `get_transform`.

    tensorpack: same, in `imgaug.transform`.
    """

    def get_transform(self, img: Any) -> BaseTransform:
        """Return what `_get_augment_params` does."""
        return _legacy_params(self, img)


class _LegacyTransform(Transform):
    """The transform of an augmentor of the old form."""

    def __init__(self, augmentor: Any, params: Any) -> None:
        self._augmentor, self._params = augmentor, params

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        return self._augmentor._augment(img, self._params)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        augmentor = self._augmentor
        if type(augmentor).augment_coords is not ImageAugmentor.augment_coords:
            return augmentor.augment_coords(coords, self._params)
        if hasattr(augmentor, "_augment_coords"):
            return augmentor._augment_coords(coords, self._params)
        return coords

    def __repr__(self) -> str:
        return f"imgaug.Transform({self._augmentor!r})"


def _augment_with(augmentor: Any, params: Any, img: np.ndarray) -> np.ndarray:
    return augmentor._augment(img, params)


def _legacy_params(augmentor: Any, img: Any) -> Any:
    """Draw by an augmentor of the old form."""
    for name in ("get_augment_params", "_get_augment_params"):
        if hasattr(augmentor, name):
            return getattr(augmentor, name)(img)
    if hasattr(augmentor, "_augment"):
        return None
    raise NotImplementedError(
        f"{type(augmentor).__name__}: does not define get_transform(img), which returns what is to be done to the image."
    )

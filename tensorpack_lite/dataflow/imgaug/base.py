"""
Base classes of augmentors. An augmentor looks at an image, draws random numbers, and returns a transform.

In:  an image.
Out: a transform (`transform.py`), which applies to this image, to other images of the same size and to coordinates::

    tfm = augmentor.get_transform(img)          draws
    img = tfm.apply_image(img)                  applies, as often as needed
    boxes = tfm.apply_coords(boxes)

`augmentor.augment(img)` combines the first two steps. To write an augmentor, define `get_transform`; if it only changes
pixel values, subclass `PhotometricAugmentor` instead.
"""

from __future__ import annotations

import copy
import inspect
import os
from functools import partial
from typing import Any, NamedTuple, Sequence, Tuple, Union

import numpy as np

from ...utils.develop import log_deprecated
from ...utils.errors import type_error
from ...utils.random_streams import get_rng
from ._check import check_image
from ._describe import Described
from .transform_base import BaseTransform, LazyTransform, PhotometricTransform, Transform, TransformList


class ImagePlaceholder(NamedTuple):
    """An image of which only the shape is known. Geometric augmentors can draw from it."""

    shape: Tuple[int, ...]


ImageLike = Union[np.ndarray, ImagePlaceholder]


class ImageAugmentor(Described):
    """
    Base class of all augmentors. Subclasses define `get_transform` and draw all random numbers from `self.rng`.

    An augmentor can be pickled; the copy has a separate random stream. A forked process automatically starts a new
    stream, so workers differ. After `fix_rng_seed`, each of these streams is reproducible.

    Attributes:
        rng: a `numpy.random.RandomState`.

    Example:
        >>> class Darker(ImageAugmentor):
        ...     def __init__(self, lowest=0.5):
        ...         super().__init__()
        ...         self._init(locals())                        # sets self.lowest; also makes repr work
        ...     def get_transform(self, img):
        ...         factor = self._rand_range(self.lowest, 1.0)
        ...         return PhotometricTransform(lambda img: (img * factor).astype(img.dtype))

    Note:
        Subclasses in the old style, which define `_get_augment_params(img)`, `_augment(img, params)` and
        `_augment_coords(coords, params)`, also work. Without `_augment_coords`, coordinates do not change.
    """

    def __init__(self) -> None:
        self.reset_state()

    def reset_state(self) -> None:
        """Start a new random stream, also in the augmentors that this one contains."""
        self.rng = get_rng(self)

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """
        Draw a transform.

        Args:
            img: the image `[h, w]` or `[h, w, c]`. If only its size matters, any object with a `shape`.

        Returns:
            The transform for images of this size.

        Raises:
            NotImplementedError: the class defines neither this method nor those of the old style.
        """
        return _LegacyTransform(self, _legacy_params(self, img))

    def augment(self, img: np.ndarray) -> np.ndarray:
        """
        Draw a transform and apply it to the image.

        Args:
            img: `[h, w]` or `[h, w, c]`, uint8 or a floating type.

        Returns:
            The new image. It may be a view of `img`, which does not change.

        Raises:
            TypeError: `img` is not an array.
            ValueError: `img` does not have two or three dimensions.
        """
        check_image(type(self).__name__, img)
        return self.get_transform(img).apply_image(img)

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, BaseTransform]:
        """Augment, and also return the transform. Deprecated: use `get_transform` and `apply_image`."""
        log_deprecated("ImageAugmentor.augment_return_params", "Use get_transform and apply_image.", "", 3)
        tfm = self.get_transform(d)
        return tfm.apply_image(d), tfm

    def augment_with_params(self, d: np.ndarray, param: BaseTransform) -> np.ndarray:
        """Apply a transform to an image. Deprecated: use the transform's `apply_image`."""
        log_deprecated("ImageAugmentor.augment_with_params", "Use the transform's apply_image.", "", 3)
        return param.apply_image(d)

    def augment_coords(self, coords: np.ndarray, param: BaseTransform) -> np.ndarray:
        """Apply a transform to coordinates. Deprecated: use the transform's `apply_coords`."""
        log_deprecated("ImageAugmentor.augment_coords", "Use the transform's apply_coords.", "", 3)
        return param.apply_coords(coords)

    @property
    def rng(self) -> np.random.RandomState:
        """The random generator of this augmentor in this process."""
        pid, generator = self.__dict__.get("_generator", (None, None))
        if pid != os.getpid():  # forked, unpickled, or the subclass did not call super().__init__
            generator = get_rng(self)
            self.rng = generator
        return generator

    @rng.setter
    def rng(self, generator: np.random.RandomState) -> None:
        self._generator = os.getpid(), generator

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_generator"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle. Arguments that this class did not have when tensorpack wrote it get their defaults."""
        parameters = inspect.signature(type(self)).parameters.values()
        defaults = {param.name: param.default for param in parameters if param.default is not param.empty}
        self.__dict__.update({**defaults, **state})

    def _rand_range(
        self, low: float = 1.0, high: float | None = None, size: int | tuple[int, ...] | None = None
    ) -> Any:
        """
        Draw from a uniform distribution.

        Args:
            low: the lower bound; the upper bound if it is the only argument.
            high: the upper bound.
            size: the shape of the result. None: a single number.

        Returns:
            float32.
        """
        if high is None:
            low, high = 0.0, low
        return np.float32(self.rng.uniform(low, high, size))

    def _draw_position(self, space: tuple[int, int]) -> tuple[int, int]:
        """Draw the first row and column of a rectangle, where `space` is the number of spare rows and columns."""
        rng = self.rng
        return int(rng.randint(space[0] + 1)), int(rng.randint(space[1] + 1))


Augmentor = ImageAugmentor


class PhotometricAugmentor(ImageAugmentor):
    """
    Base class of augmentors that change pixel values and leave coordinates unchanged.

    Subclasses define `_augment(img, params)` and, if they draw random numbers, `_get_augment_params(img)`.
    `_augment` must not modify its input.

    Example:
        >>> class Darker(PhotometricAugmentor):
        ...     def _get_augment_params(self, img):
        ...         return self._rand_range(0.5, 1.0)
        ...     def _augment(self, img, factor):
        ...         return (img * factor).astype(img.dtype)
    """

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw the parameters; the transform calls `_augment`."""
        params = self._get_augment_params(img)
        return PhotometricTransform(partial(_augment_with, self, params), repr(self))

    def _get_augment_params(self, img: np.ndarray) -> Any:
        """Draw the parameters of `_augment`."""
        return None

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        """Return the new image."""
        raise NotImplementedError(
            f"{type(self).__name__}: does not define _augment(img, params), which returns the new image."
        )


class AugmentorGroup(ImageAugmentor):
    """
    Base class of augmentors that contain others.

    Args:
        augmentors: the augmentors that `reset_state` also resets.

    Raises:
        TypeError: one of them is not an augmentor.
    """

    def __init__(self, augmentors: Sequence[ImageAugmentor]) -> None:
        for augmentor in augmentors:
            if not hasattr(augmentor, "get_transform"):
                raise type_error(type(self).__name__, "augmentors", augmentor, "Wrap a function: MapImage(func).")
        self._augmentors = list(augmentors)
        super().__init__()

    def reset_state(self) -> None:
        """Start new random streams in this augmentor and in those that it contains."""
        super().reset_state()
        for augmentor in self._augmentors:
            augmentor.reset_state()


class AugmentorList(AugmentorGroup):
    """
    Augmentor that applies several augmentors one after the other.

    Each augmentor draws for the output of the previous one, so the transform is complete only after its first
    `apply_image`. Later calls repeat the same transform on other images and on coordinates.

    Args:
        augmentors: a list or tuple.

    Raises:
        TypeError: `augmentors` is not a list, or contains something other than augmentors.

    Example:
        >>> augs = AugmentorList([RandomCrop(224), Flip(horiz=True)])
        >>> tfm = augs.get_transform(img)
        >>> img, points = tfm.apply_image(img), tfm.apply_coords(points)
    """

    def __init__(self, augmentors: Sequence[ImageAugmentor]) -> None:
        if not isinstance(augmentors, (list, tuple)):
            raise type_error("AugmentorList", "a list of augmentors", augmentors)
        super().__init__(augmentors)
        self.augmentors = self._augmentors

    def __setstate__(self, state: dict[str, Any]) -> None:
        # tensorpack pickles only `augmentors`
        super().__setstate__({"_augmentors": state["augmentors"], **state})

    def get_transform(self, img: ImageLike) -> TransformList:
        """Draw for the first augmentor; each later one draws when its input is computed."""
        if len(img.shape) not in (2, 3):
            raise ValueError(f"AugmentorList: expected an image [h, w] or [h, w, c], got shape {img.shape}.")
        transforms: list[BaseTransform] = []
        for augmentor in self.augmentors:
            tfm = LazyTransform(augmentor.get_transform) if transforms else augmentor.get_transform(img)
            transforms += tfm.tfms if isinstance(tfm, TransformList) else [tfm]
        return TransformList(transforms)


def fork_augmentors(value: Any, copies: dict[int, Any] | None = None) -> Any:
    """
    Return a copy of an augmentor and of those that it contains; they share all else, such as arrays.

    Args:
        value: an augmentor, or a list or tuple with augmentors in it. Anything else is returned as it is.
        copies: the copies so far, by the `id` of their originals. An augmentor that occurs twice has one copy.
    """
    copies = {} if copies is None else copies
    if id(value) in copies:
        return copies[id(value)]
    if type(value) in (list, tuple):
        copies[id(value)] = type(value)(fork_augmentors(item, copies) for item in value)
        return copies[id(value)]
    if not isinstance(value, ImageAugmentor):
        return value
    copies[id(value)] = copied = copy.copy(value)  # without the random stream; see __getstate__
    for name, item in vars(copied).items():
        vars(copied)[name] = fork_augmentors(item, copies)
    return copied


class TransformAugmentorBase(ImageAugmentor):
    """
    Base class of old augmentors whose `_get_augment_params(img)` returns a transform.

    Deprecated: define `get_transform` instead.
    """

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Return the result of `_get_augment_params`."""
        return _legacy_params(self, img)


class _LegacyTransform(Transform):
    """The transform of an augmentor in the old style."""

    def __init__(self, augmentor: Any, params: object) -> None:
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


def _augment_with(augmentor: PhotometricAugmentor, params: object, img: np.ndarray) -> np.ndarray:
    return augmentor._augment(img, params)  # by position: subclasses name the second argument as they like


def _legacy_params(augmentor: ImageAugmentor, img: ImageLike) -> Any:
    """Draw the parameters of an augmentor in the old style."""
    for name in ("get_augment_params", "_get_augment_params"):
        if hasattr(augmentor, name):
            return getattr(augmentor, name)(img)
    if hasattr(augmentor, "_augment"):
        return None
    raise NotImplementedError(
        f"{type(augmentor).__name__}: does not define get_transform(img), which returns the transform of the image."
    )

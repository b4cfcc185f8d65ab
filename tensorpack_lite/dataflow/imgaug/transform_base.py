"""
Base classes of transforms, and transforms that combine functions or other transforms.

In:  functions or transforms.
Out: objects with `apply_image`, `apply_coords` and any other `apply_...` that a subclass defines.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterable, NoReturn, TypeVar

import numpy as np

from ...utils.checks import check_pickled
from ...utils.errors import type_error
from ._describe import Described

T = TypeVar("T")


class BaseTransform(Described):
    """
    Base class of all transforms. Every attribute `apply_...` is callable; methods that are not defined raise an error.

    To support a new kind of data, define for example `apply_segmentation` in the transforms that need it.

    Raises:
        NotImplementedError: (by `apply_...`) the class does not define the method.
    """

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if not name.startswith("apply_"):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'.")
        return partial(_not_defined, type(self).__name__, name)


class Transform(BaseTransform):
    """
    Base class of transforms of images and coordinates.

    Example:
        >>> class Invert(Transform):
        ...     def apply_image(self, img):
        ...         return 255 - img
        ...     def apply_coords(self, coords):
        ...         return coords
    """

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """
        Transform an image.

        Args:
            img: `[h, w]` or `[h, w, c]`.

        Returns:
            The new image, of the same type. It may be a view of `img`, which does not change.
        """
        return _not_defined(type(self).__name__, "apply_image", img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """
        Transform coordinates.

        Args:
            coords: `[n, 2]` of a floating type, each (x, y).

        Returns:
            A new array of the same shape and type.
        """
        return _not_defined(type(self).__name__, "apply_coords", coords)


class NoOpTransform(BaseTransform):
    """A transform that returns its input from every `apply_...`."""

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return _identity if name.startswith("apply_") else super().__getattr__(name)


class PhotometricTransform(Transform):
    """
    A transform that changes pixel values and leaves coordinates unchanged.

    Args:
        func: takes an image and returns the new one.
        name: the text in `repr`.
    """

    def __init__(self, func: Callable[[np.ndarray], np.ndarray], name: str | None = None) -> None:
        self._func, self._name = func, name

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_pickled("PhotometricTransform", state, "_func")
        self.__dict__.update(state)

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Call the function."""
        return self._func(img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return the coordinates unchanged."""
        return coords

    def __repr__(self) -> str:
        return f"imgaug.PhotometricTransform({self._name or 'func'})"


class TransformFactory(BaseTransform):
    """
    A transform that consists of functions.

    Args:
        name: the text in `repr`.
        **apply_fns: `apply_image`, `apply_coords`, or any other `apply_...`.

    Raises:
        KeyError: the name of a function does not start with `apply_`.

    Example:
        >>> TransformFactory(apply_image=lambda img: 255 - img).apply_image(np.uint8([[0, 1]]))
        array([[255, 254]], dtype=uint8)
    """

    def __init__(self, name: str | None = None, **apply_fns: Callable[[Any], Any]) -> None:
        for argument in apply_fns:
            if not argument.startswith("apply_"):
                raise KeyError(
                    f"TransformFactory: expected functions named apply_..., got '{argument}'. "
                    f"Did you mean 'apply_{argument}'?"
                )
        self._name, self._functions = name, apply_fns

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if name.startswith("apply_") and name in self._functions:
            return self._functions[name]
        return super().__getattr__(name)

    def __repr__(self) -> str:
        return f"imgaug.TransformFactory({self._name or ', '.join(sorted(self._functions))})"


class TransformList(BaseTransform):
    """
    A sequence of transforms.

    Args:
        tfms: transforms. `+` and `+=` append a list, a transform or another TransformList.

    Raises:
        TypeError: `tfms` contains something other than transforms.

    Attributes:
        tfms: the list of transforms.
    """

    def __init__(self, tfms: Iterable[BaseTransform]) -> None:
        self.tfms = list(tfms)
        for tfm in self.tfms:
            if not isinstance(tfm, BaseTransform):
                raise type_error("TransformList", "transforms", tfm, "Use augmentor.get_transform(img).")

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Apply all transforms to an image; the result is contiguous in memory."""
        return np.ascontiguousarray(self._apply("apply_image", img))

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Apply all transforms to coordinates."""
        return self._apply("apply_coords", coords)

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return partial(self._apply, name) if name.startswith("apply_") else super().__getattr__(name)

    def _apply(self, name: str, value: T) -> T:
        for tfm in self.tfms:
            value = getattr(tfm, name)(value)
        return value

    def __add__(self, other: BaseTransform | Iterable[BaseTransform]) -> TransformList:
        return TransformList(self.tfms + _as_transforms(other))

    def __radd__(self, other: BaseTransform | Iterable[BaseTransform]) -> TransformList:
        return TransformList(_as_transforms(other) + self.tfms)

    def __iadd__(self, other: BaseTransform | Iterable[BaseTransform]) -> TransformList:
        self.tfms += TransformList(_as_transforms(other)).tfms
        return self

    def __repr__(self) -> str:
        return f"imgaug.TransformList({self.tfms!r})"


class LazyTransform(BaseTransform):
    """
    A transform that is drawn for the first image to which it is applied, and fixed from then on.

    In a list, an augmentor cannot draw before the previous ones have run, because it does not know the size
    of its input.

    Args:
        get_transform: the method of an augmentor, which takes an image and returns a transform.

    Raises:
        RuntimeError: (by `apply_...`) another method was called before `apply_image`.
    """

    def __init__(self, get_transform: Callable[[Any], BaseTransform]) -> None:
        self._get_transform = get_transform
        self._transform: BaseTransform | None = None

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Transform an image. The first call draws the transform."""
        if self._transform is None:
            self._transform = self._get_transform(img)
        return self._transform.apply_image(img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Transform coordinates, after an image."""
        return self._apply("apply_coords", coords)

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return partial(self._apply, name) if name.startswith("apply_") else super().__getattr__(name)

    def _apply(self, name: str, value: T) -> T:
        if self._transform is None:
            raise RuntimeError(
                f"LazyTransform: {name} was called before apply_image, which draws the transform. "
                f"Call apply_image(img) first."
            )
        return getattr(self._transform, name)(value)

    def __repr__(self) -> str:
        return f"imgaug.LazyTransform({self._transform or '...'})"


def _identity(value: T) -> T:
    return value


def _not_defined(who: str, name: str, value: object = None) -> NoReturn:
    raise NotImplementedError(f"{who}: does not define {name}. Define it in the transform, or remove this augmentor.")


def _as_transforms(value: BaseTransform | Iterable[BaseTransform]) -> list[BaseTransform]:
    if isinstance(value, TransformList):
        return value.tfms
    return [value] if isinstance(value, BaseTransform) else list(value)

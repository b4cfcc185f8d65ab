"""
What a transform is, and transforms made of others and of functions.

In:  functions, transforms, or what will draw one.
Out: objects with `apply_image`, `apply_coords` and, where somebody defines them, further `apply_...`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterable, NoReturn

import numpy as np

from ...utils.errors import type_error
from ._describe import describe, public_arguments

__all__ = [
    "BaseTransform",
    "LazyTransform",
    "NoOpTransform",
    "PhotometricTransform",
    "Transform",
    "TransformFactory",
    "TransformList",
]


class BaseTransform:
    """
    Base of all transforms: any method `apply_something` may be called, and one that is not defined says so.

    So a new kind of data needs nothing here: define `apply_segmentation` in the transforms that can do it.

    Raises:
        NotImplementedError: by a call of `apply_...` that the class does not define.

    tensorpack: same.
    """

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if not name.startswith("apply_"):
            raise AttributeError(f"{type(self).__name__}: has no attribute '{name}'.")
        return partial(_not_defined, type(self).__name__, name)

    def _init(self, params: dict[str, Any]) -> None:
        """Keep the constructor's arguments as attributes: `self._init(locals())`."""
        self.__dict__.update(public_arguments(params))

    def __repr__(self) -> str:
        return describe(self)


class Transform(BaseTransform):
    """
    Base of what is applied to images and coordinates.

    Example:
        >>> class Invert(Transform):
        ...     def apply_image(self, img):
        ...         return 255 - img
        ...     def apply_coords(self, coords):
        ...         return coords

    tensorpack: same.
    """

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """
        Apply to an image.

        Args:
            img: `[h, w]` or `[h, w, c]`.

        Returns:
            The new image, of the same type; it may be a view of `img`, which is never changed.
        """
        return _not_defined(type(self).__name__, "apply_image", img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """
        Apply to coordinates.

        Args:
            coords: `[n, 2]` of a floating type, each (x, y).

        Returns:
            The new coordinates, of the same shape and type, in an array of their own.
        """
        return _not_defined(type(self).__name__, "apply_coords", coords)


class NoOpTransform(BaseTransform):
    """
    Gives back what it gets, whatever `apply_...` is called.

    tensorpack: same.
    """

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return _same if name.startswith("apply_") else super().__getattr__(name)


class PhotometricTransform(Transform):
    """
    Changes values and moves nothing: coordinates stay.

    Args:
        func: takes an image and returns the new one.
        name: shown by `repr`.

    tensorpack: same.
    """

    def __init__(self, func: Callable[[np.ndarray], np.ndarray], name: str | None = None) -> None:
        self._func, self._name = func, name

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Call the function."""
        return self._func(img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Give them back."""
        return coords

    def __repr__(self) -> str:
        return f"imgaug.PhotometricTransform({self._name or 'func'})"


class TransformFactory(BaseTransform):
    """
    A transform out of functions.

    Args:
        name: shown by `repr`.
        **apply_fns: `apply_image`, `apply_coords`, or any other `apply_...`.

    Raises:
        KeyError: an argument does not begin with `apply_`.

    Example:
        >>> TransformFactory(apply_image=lambda img: 255 - img).apply_image(np.uint8([[0, 1]]))
        array([[255, 254]], dtype=uint8)

    tensorpack: same.
    """

    def __init__(self, name: str | None = None, **apply_fns: Callable[[Any], Any]) -> None:
        for argument in apply_fns:
            if not argument.startswith("apply_"):
                raise KeyError(
                    f"TransformFactory: takes functions called apply_..., got '{argument}'. Did you mean 'apply_{argument}'?"
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
    Several transforms, one after the other.

    Args:
        tfms: transforms. `+` and `+=` with a list, a transform or another TransformList make longer ones.

    Raises:
        TypeError: one of them is not a transform.

    Attributes:
        tfms: the list.

    tensorpack: same; there the image that comes out may be a view with negative strides, which some libraries refuse.
    """

    def __init__(self, tfms: Iterable[BaseTransform]) -> None:
        self.tfms = list(tfms)
        for tfm in self.tfms:
            if not isinstance(tfm, BaseTransform):
                raise type_error("TransformList", "transforms", tfm, "Use augmentor.get_transform(img).")

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Apply all to an image; the result lies contiguously in memory."""
        return np.ascontiguousarray(self._apply("apply_image", img))

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Apply all to coordinates."""
        return self._apply("apply_coords", coords)

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return partial(self._apply, name) if name.startswith("apply_") else super().__getattr__(name)

    def _apply(self, name: str, value: Any) -> Any:
        for tfm in self.tfms:
            value = getattr(tfm, name)(value)
        return value

    def __add__(self, other: Any) -> TransformList:
        return TransformList(self.tfms + _as_transforms(other))

    def __radd__(self, other: Any) -> TransformList:
        return TransformList(_as_transforms(other) + self.tfms)

    def __iadd__(self, other: Any) -> TransformList:
        self.tfms += TransformList(_as_transforms(other)).tfms
        return self

    def __repr__(self) -> str:
        return f"imgaug.TransformList({self.tfms!r})"


class LazyTransform(BaseTransform):
    """
    A transform that is drawn by the first image it is applied to, and then stays as it is.

    An augmentor behind others in a list cannot draw before they ran: it does not know the size of its image.

    Args:
        get_transform: takes an image and returns a transform: the method of an augmentor.

    Raises:
        RuntimeError: something else than an image came first.

    tensorpack: same; there an AssertionError.
    """

    def __init__(self, get_transform: Callable[[Any], BaseTransform]) -> None:
        self._get_transform = get_transform
        self._transform: BaseTransform | None = None

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Apply to an image; the first one is also what the transform is drawn for."""
        if self._transform is None:
            self._transform = self._get_transform(img)
        return self._transform.apply_image(img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Apply to coordinates, after an image."""
        return self._apply("apply_coords", coords)

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return partial(self._apply, name) if name.startswith("apply_") else super().__getattr__(name)

    def _apply(self, name: str, value: Any) -> Any:
        if self._transform is None:
            raise RuntimeError(
                f"LazyTransform: {name} was called before apply_image, and the transform is drawn by the first image. "
                f"Call apply_image(img) first."
            )
        return getattr(self._transform, name)(value)

    def __repr__(self) -> str:
        return (
            f"imgaug.LazyTransform({self._transform!r})" if self._transform else "imgaug.LazyTransform(...)"
        )


def _same(value: Any) -> Any:
    return value


def _not_defined(who: str, name: str, value: Any = None) -> NoReturn:
    raise NotImplementedError(
        f"{who}: does not define {name}. Define it in the transform, or leave this augmentor out."
    )


def _as_transforms(value: Any) -> list[BaseTransform]:
    if isinstance(value, TransformList):
        return value.tfms
    return [value] if isinstance(value, BaseTransform) else list(value)

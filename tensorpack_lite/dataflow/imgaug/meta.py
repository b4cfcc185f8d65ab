"""Augmentors made of others: apply it or not, choose one, in any order; and any function as an augmentor."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple, Union

import numpy as np

from ...utils.errors import type_error
from ._check import check_probability
from .base import ImageAugmentor
from .transform_base import BaseTransform, NoOpTransform, TransformFactory, TransformList

__all__ = ["Identity", "MapImage", "RandomApplyAug", "RandomChooseAug", "RandomOrderAug"]

Choice = Union[ImageAugmentor, Tuple[ImageAugmentor, float]]


class Identity(ImageAugmentor):
    """
    Changes nothing.

    tensorpack: same.
    """

    def get_transform(self, img: Any) -> BaseTransform:
        """Return a NoOpTransform."""
        return NoOpTransform()


class RandomApplyAug(ImageAugmentor):
    """
    Apply an augmentor, or leave the image as it is.

    Args:
        aug: the augmentor.
        prob: how probable it is that it is applied.

    Raises:
        TypeError: `aug` is not an augmentor.
        ValueError: `prob` is not a probability.

    Example:
        >>> RandomApplyAug(GaussianBlur(), 0.1)

    tensorpack: same.
    """

    def __init__(self, aug: ImageAugmentor, prob: float) -> None:
        self.aug, self.prob = aug, prob
        _require_augmentor(self, aug)
        check_probability(self, "prob", prob)
        super().__init__()

    def reset_state(self) -> None:
        """Reset this one and `aug`."""
        super().reset_state()
        self.aug.reset_state()

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw whether, and if so what."""
        if self.rng.rand() < self.prob:
            return self.aug.get_transform(img)
        return NoOpTransform()


class RandomChooseAug(ImageAugmentor):
    """
    Apply one of several augmentors.

    Args:
        aug_lists: augmentors, of which each is as probable as the others; or pairs (augmentor, probability).

    Raises:
        TypeError: something in the list is not an augmentor.
        ValueError: the list is empty, or the probabilities do not add up to 1.

    Example:
        >>> RandomChooseAug([(Brightness(30), 0.8), (Gamma(), 0.2)])

    tensorpack: same.
    """

    def __init__(self, aug_lists: Sequence[Choice]) -> None:
        self.aug_lists = aug_lists
        if not aug_lists:
            raise ValueError("RandomChooseAug: takes at least one augmentor, got an empty list.")
        weighted = all(isinstance(choice, (tuple, list)) for choice in aug_lists)
        pairs: Any = aug_lists if weighted else [(augmentor, 1.0 / len(aug_lists)) for augmentor in aug_lists]
        self._augmentors = [augmentor for augmentor, _ in pairs]
        self._probabilities = [probability for _, probability in pairs]
        for augmentor in self._augmentors:
            _require_augmentor(self, augmentor)
        if min(self._probabilities) < 0 or abs(sum(self._probabilities) - 1.0) > 1e-6:
            raise ValueError(
                f"RandomChooseAug: the probabilities must be >= 0 and add up to 1, got {self._probabilities} = {sum(self._probabilities)}."
            )
        super().__init__()

    def reset_state(self) -> None:
        """Reset this one and all of the list."""
        super().reset_state()
        for augmentor in self._augmentors:
            augmentor.reset_state()

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw which, and let it draw."""
        which = self.rng.choice(len(self._augmentors), p=self._probabilities)
        return self._augmentors[which].get_transform(img)


class RandomOrderAug(ImageAugmentor):
    """
    Apply several augmentors in an order that is drawn each time.

    Args:
        aug_lists: augmentors. They must not change the size of the image: each draws for the original one, and only
            then they are put in order.

    Raises:
        TypeError: something in the list is not an augmentor.

    Example:
        >>> RandomOrderAug([Brightness(30), Contrast((0.8, 1.2)), Saturation(0.4)])

    tensorpack: same.
    """

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        self.aug_lists = aug_lists
        for augmentor in aug_lists:
            _require_augmentor(self, augmentor)
        super().__init__()

    def reset_state(self) -> None:
        """Reset this one and all of the list."""
        super().reset_state()
        for augmentor in self.aug_lists:
            augmentor.reset_state()

    def get_transform(self, img: Any) -> BaseTransform:
        """Let all draw for the image, in order of the list; then draw the order."""
        transforms = [augmentor.get_transform(img) for augmentor in self.aug_lists]
        return TransformList([transforms[index] for index in self.rng.permutation(len(transforms))])


class MapImage(ImageAugmentor):
    """
    Apply a function.

    Args:
        func: takes an image and returns the new one; it must not change the array that it gets.
        coord_func: takes coordinates `[n, 2]` and returns the new ones. None: an image with coordinates is refused.

    Raises:
        TypeError: `func` cannot be called.

    Example:
        >>> MapImage(lambda img: img - mean)
        >>> MapImage(np.fliplr, lambda coords: np.float32([w, 0]) - coords * np.float32([1, -1]))

    Note:
        It can be sent to a spawned worker if its functions can be pickled.

    tensorpack: same.
    """

    def __init__(
        self,
        func: Callable[[np.ndarray], np.ndarray],
        coord_func: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        if not callable(func):
            raise type_error("MapImage", "a function", func)
        self.func, self.coord_func = func, coord_func

    def get_transform(self, img: Any) -> BaseTransform:
        """Return the function, or both, as a transform."""
        functions = {"apply_image": self.func}
        if self.coord_func is not None:
            functions["apply_coords"] = self.coord_func
        return TransformFactory(f"MapImage({self.func!r})", **functions)


def _require_augmentor(who: object, augmentor: Any) -> None:
    if not hasattr(augmentor, "get_transform"):
        raise type_error(type(who).__name__, "augmentors", augmentor, "Wrap a function: MapImage(func).")

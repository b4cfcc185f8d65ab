"""Augmentors that combine others: apply at random, choose one, shuffle the order. And functions as augmentors."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple, Union

import numpy as np

from ...utils.checks import check_between, check_callable, check_pickled
from .base import AugmentorGroup, ImageAugmentor, ImageLike
from .transform_base import BaseTransform, NoOpTransform, TransformFactory, TransformList

Choice = Union[ImageAugmentor, Tuple[ImageAugmentor, float]]


class Identity(ImageAugmentor):
    """Augmentor that changes nothing."""

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Return a NoOpTransform."""
        return NoOpTransform()


class RandomApplyAug(AugmentorGroup):
    """
    Augmentor that applies another one with a probability, and otherwise leaves the image unchanged.

    Args:
        aug: the augmentor.
        prob: the probability of applying it.

    Raises:
        TypeError: `aug` is not an augmentor.
        ValueError: `prob` is not a probability.

    Example:
        >>> RandomApplyAug(GaussianBlur(), 0.1)
    """

    def __init__(self, aug: ImageAugmentor, prob: float) -> None:
        super().__init__([aug])
        self.aug = aug
        self.prob = check_between("RandomApplyAug: prob", prob, 0, 1)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_augmentors": [state["aug"]], **state})  # tensorpack pickles only `aug`

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw whether to apply `aug`; if so, draw its transform."""
        if self.rng.rand() < self.prob:
            return self.aug.get_transform(img)
        return NoOpTransform()


class RandomChooseAug(AugmentorGroup):
    """
    Augmentor that applies one of several augmentors.

    Args:
        aug_lists: augmentors, which are equally likely; or pairs (augmentor, probability).

    Raises:
        TypeError: the list contains something other than augmentors.
        ValueError: the list is empty, or the probabilities do not sum to 1.

    Example:
        >>> RandomChooseAug([(Brightness(30), 0.8), (Gamma(), 0.2)])
    """

    def __init__(self, aug_lists: Sequence[Choice]) -> None:
        if not aug_lists:
            raise ValueError("RandomChooseAug: expected at least one augmentor, got an empty list.")
        self.aug_lists = aug_lists
        weighted = all(isinstance(choice, (tuple, list)) for choice in aug_lists)
        pairs: Any = aug_lists if weighted else [(augmentor, 1.0 / len(aug_lists)) for augmentor in aug_lists]
        super().__init__([augmentor for augmentor, _ in pairs])
        self._probabilities = [probability for _, probability in pairs]
        total = sum(self._probabilities)
        if min(self._probabilities) < 0 or abs(total - 1.0) > 1e-6:
            raise ValueError(
                f"RandomChooseAug: expected probabilities >= 0 that sum to 1, got {self._probabilities}, "
                f"which sum to {total}."
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_pickled("RandomChooseAug", state, "_probabilities")
        super().__setstate__(state)

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw one of the augmentors, then its transform."""
        index = self.rng.choice(len(self._augmentors), p=self._probabilities)
        return self._augmentors[index].get_transform(img)


class RandomOrderAug(AugmentorGroup):
    """
    Augmentor that applies several augmentors in random order.

    Args:
        aug_lists: augmentors. They must not change the size of the image, because each draws for the original image
            before the order is drawn.

    Raises:
        TypeError: the list contains something other than augmentors.

    Example:
        >>> RandomOrderAug([Brightness(30), Contrast((0.8, 1.2)), Saturation(0.4)])
    """

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        super().__init__(aug_lists)
        self.aug_lists = aug_lists

    def __setstate__(self, state: dict[str, Any]) -> None:
        # tensorpack pickles only `aug_lists`
        super().__setstate__({"_augmentors": state["aug_lists"], **state})

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw all transforms in the order of the list, then draw the order in which they apply."""
        transforms = [augmentor.get_transform(img) for augmentor in self.aug_lists]
        return TransformList([transforms[index] for index in self.rng.permutation(len(transforms))])


class MapImage(ImageAugmentor):
    """
    Augmentor that applies a function to the image.

    Args:
        func: takes an image and returns the new one. It must not modify its input.
        coord_func: takes coordinates `[n, 2]` and returns the new ones. None: coordinates raise NotImplementedError.

    Raises:
        TypeError: `func` is not callable.

    Example:
        >>> MapImage(lambda img: img - mean)
        >>> MapImage(np.fliplr, lambda coords: np.float32([w, 0]) - coords * np.float32([1, -1]))

    Note:
        It can be pickled, as spawned workers require, if its functions can.
    """

    def __init__(
        self,
        func: Callable[[np.ndarray], np.ndarray],
        coord_func: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        self.func = check_callable("MapImage: func", func)
        self.coord_func = coord_func

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Return a transform that calls the functions."""
        functions = {"apply_image": self.func}
        if self.coord_func is not None:
            functions["apply_coords"] = self.coord_func
        return TransformFactory(f"MapImage({self.func!r})", **functions)

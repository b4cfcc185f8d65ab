"""
DataFlows that read images from files, and that augment images and coordinates.

In:  paths of files; or datapoints with images and coordinates.
Out: datapoints with images.
"""

from __future__ import annotations

import os
from copy import deepcopy
from functools import partial
from typing import Callable, Hashable, Sequence

import numpy as np

from ..utils import logger
from ..utils.errors import DamagedFileError, parsing
from .base import DataFlow, Datapoint, IndexedData
from .imgaug._check import check_coords, check_image, check_size
from .imgaug._opencv import opencv, require_opencv
from .imgaug.base import AugmentorList, ImageAugmentor, fork_augmentors
from .mapping import MapData, MapDataComponent


class ImageFromFile(IndexedData):
    """
    DataFlow that reads images from files.

    Length: the number of files.
    Order: that of `files`, or a new random order in each pass.
    Process: runs in the current process.

    Args:
        files: paths of image files.
        channel: 3 yields RGB images `[h, w, 3]`; 1 yields grayscale images `[h, w, 1]`.
        resize: (height, width) to resize to, or one number for both.
        shuffle: whether to use a new random order in each pass. The list `files` is not changed.

    Raises:
        ValueError: `files` is empty, or `channel` is not 1 or 3.
        DamagedFileError: (while iterating) OpenCV cannot decode a file.
        FileNotFoundError: (while iterating) a file does not exist.
        ImportError: OpenCV is not installed.

    Example:
        >>> ImageFromFile(glob.glob("photos/*.jpg"), resize=(256, 256), shuffle=True)
    """

    def __init__(
        self,
        files: Sequence[str],
        channel: int = 3,
        resize: int | tuple[int, int] | None = None,
        shuffle: bool = False,
    ) -> None:
        super().__init__(shuffle)
        require_opencv(self)
        if len(files) == 0:
            raise ValueError(
                "ImageFromFile: files is empty; expected at least one path. Check the pattern passed to glob."
            )
        if channel not in (1, 3):
            raise ValueError(f"ImageFromFile: channel: expected 1 or 3, got {channel!r}.")
        self.files, self.channel = list(files), int(channel)
        self.resize = None if resize is None else check_size(f"{type(self).__name__}: resize", resize)

    def __len__(self) -> int:
        return len(self.files)

    def _datapoint(self, index: int) -> Datapoint:
        path = self.files[index]
        cv2 = opencv("ImageFromFile")
        with parsing(path, "an image"):
            image = cv2.imread(str(path), cv2.IMREAD_COLOR if self.channel == 3 else cv2.IMREAD_GRAYSCALE)
        if image is None and not os.path.exists(path):
            raise FileNotFoundError(f"ImageFromFile: the file '{path}' does not exist.")
        if image is None:
            raise DamagedFileError(f"ImageFromFile: OpenCV cannot read '{path}' as an image.")
        if self.channel == 3:
            image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        if self.resize is not None:
            image = cv2.resize(image, self.resize[::-1])
        return [image if self.channel == 3 else image[:, :, np.newaxis]]


class AugmentImageComponent(MapDataComponent):
    """
    DataFlow that augments one image of each datapoint.

    Length: that of `ds`; too large if `catch_exceptions` drops datapoints.
    Order: that of `ds`.
    Process: runs in the current process. It can be pickled if the augmentors can.

    Args:
        ds: a DataFlow whose datapoints contain an image `[h, w]` or `[h, w, c]`.
        augmentors: an AugmentorList, or a list of augmentors.
        index: position or key of the image.
        copy: whether to pass a copy to the augmentors, so that they cannot change the image of the source.
        catch_exceptions: whether to drop the datapoint if an augmentor raises. The first nine exceptions and then every
            hundredth are logged.

    Raises:
        TypeError: `augmentors` is not a list of augmentors; (while iterating) the component is not an array.

    Attributes:
        augs: the AugmentorList, with copies of the augmentors. Several DataFlows can be given the same augmentors.

    Example:
        >>> df = AugmentImageComponent(df, [imgaug.RandomCrop(224), imgaug.Flip(horiz=True)])
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: AugmentorList | Sequence[ImageAugmentor],
        index: Hashable = 0,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        self.augs = _augmentor_list(augmentors)
        augment = partial(_augment_image, type(self).__name__, self.augs, copy)
        super().__init__(ds, _guarded(augment, type(self).__name__, catch_exceptions), index)

    def reset_state(self) -> None:
        """Reset `ds` and the augmentors."""
        super().reset_state()
        self.augs.reset_state()


class AugmentImageComponents(MapData):
    """
    DataFlow that applies the same augmentation to several images, and coordinates, of each datapoint.

    Length: that of `ds`; too large if `catch_exceptions` drops datapoints.
    Order: that of `ds`.
    Process: runs in the current process. It can be pickled if the augmentors can.

    Args:
        ds: a DataFlow whose datapoints contain images of equal size.
        augmentors: an AugmentorList, or a list of augmentors.
        index: positions or keys of the images. Random parameters are drawn once per datapoint, for the first image.
        coords_index: positions or keys of the coordinates: floating-point arrays `[n, 2]` of (x, y).
        copy: whether to pass copies to the augmentors.
        catch_exceptions: whether to drop the datapoint if an augmentor raises. The first nine exceptions and then every
            hundredth are logged.

    Raises:
        TypeError: `augmentors` is not a list of augmentors; (while iterating) a component is not an array, or
            coordinates are integers.
        ValueError: `index` is empty; (while iterating) coordinates have another shape.

    Attributes:
        augs: the AugmentorList, with copies of the augmentors. Several DataFlows can be given the same augmentors.

    Example:
        >>> df = AugmentImageComponents(df, augs, index=(0, 1), coords_index=(2,))     # image, mask, points

    Note:
        All images are augmented alike. If one of them is a mask, use geometric augmentors only.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: AugmentorList | Sequence[ImageAugmentor],
        index: Sequence[Hashable] = (0, 1),
        coords_index: Sequence[Hashable] = (),
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        if len(index) == 0:
            raise ValueError(f"{type(self).__name__}: index is empty; expected at least one position.")
        self.augs = _augmentor_list(augmentors)
        who = type(self).__name__
        augment = partial(_augment_datapoint, who, self.augs, copy, tuple(index), tuple(coords_index))
        super().__init__(ds, _guarded(augment, who, catch_exceptions))

    def reset_state(self) -> None:
        """Reset `ds` and the augmentors."""
        super().reset_state()
        self.augs.reset_state()


class AugmentImageCoordinates(AugmentImageComponents):
    """
    DataFlow that augments one image of each datapoint and the coordinates in it.

    Length: that of `ds`; too large if `catch_exceptions` drops datapoints.
    Order: that of `ds`.
    Process: runs in the current process. It can be pickled if the augmentors can.

    Args:
        ds: a DataFlow whose datapoints contain an image and coordinates.
        augmentors: as in AugmentImageComponents.
        img_index: position or key of the image.
        coords_index: position or key of the coordinates, a floating-point array `[n, 2]` of (x, y).
        copy: as in AugmentImageComponents.
        catch_exceptions: as in AugmentImageComponents.

    Raises:
        TypeError: `augmentors` is not a list of augmentors; (while iterating) a component is not an array, or
            coordinates are integers.
        ValueError: (while iterating) coordinates have another shape.

    Attributes:
        augs: the AugmentorList, with copies of the augmentors. Several DataFlows can be given the same augmentors.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: AugmentorList | Sequence[ImageAugmentor],
        img_index: Hashable = 0,
        coords_index: Hashable = 1,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        super().__init__(ds, augmentors, (img_index,), (coords_index,), copy, catch_exceptions)


# functions at module level, because those inside a constructor cannot be pickled
def _augment_image(who: str, augs: AugmentorList, copy: bool, image: object) -> np.ndarray:
    image = _own(check_image(who, image), copy)
    return augs.get_transform(image).apply_image(image)


def _augment_datapoint(
    who: str,
    augs: AugmentorList,
    copy: bool,
    index: tuple[Hashable, ...],
    coords_index: tuple[Hashable, ...],
    datapoint: Datapoint,
) -> Datapoint:
    """Augment the images and coordinates of a datapoint, which MapData has already copied."""
    datapoint = list(datapoint) if isinstance(datapoint, tuple) else datapoint
    images = [_own(check_image(who, datapoint[key]), copy) for key in index]
    transform = augs.get_transform(images[0])
    for key, image in zip(index, images):
        datapoint[key] = transform.apply_image(image)
    for key in coords_index:
        datapoint[key] = transform.apply_coords(_own(check_coords(who, datapoint[key]), copy))
    return datapoint


def _own(array: np.ndarray, copy: bool) -> np.ndarray:
    return deepcopy(array) if copy else array


class _DropAndLog:
    """Picklable wrapper of a function that logs an exception and returns None, which drops the datapoint."""

    def __init__(self, func: Callable[..., object], who: str) -> None:
        self._func, self._who, self._count = func, who, 0

    def __call__(self, value: object) -> object:
        try:
            return self._func(value)
        except Exception:  # noqa: BLE001 (catch_exceptions=True covers all of them)
            self._count += 1
            if self._count < 10 or self._count % 100 == 0:
                logger.exception(f"{self._who}: dropped a datapoint because of exception {self._count}.")
            return None


def _guarded(func: Callable[..., object], who: str, catch_exceptions: bool) -> Callable[..., object]:
    return _DropAndLog(func, who) if catch_exceptions else func


def _augmentor_list(augmentors: AugmentorList | Sequence[ImageAugmentor]) -> AugmentorList:
    """Return a list of copies: the random streams of two pipelines are apart, also if they get the same augmentors."""
    whole = augmentors if isinstance(augmentors, AugmentorList) else AugmentorList(augmentors)
    return fork_augmentors(whole)

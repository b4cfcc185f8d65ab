"""
Images: read from files, and augmented together with what belongs to them.

In:  names of files; or datapoints with images and coordinates in them.
Out: datapoints with images.
"""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..utils import logger
from ..utils.errors import DamagedFileError, parsing
from .base import DataFlow, Datapoint, RNGDataFlow
from .imgaug._check import check_coords, check_image, check_size
from .imgaug._opencv import opencv, require_opencv
from .imgaug.base import AugmentorList, ImageAugmentor
from .mapping import MapData, MapDataComponent

__all__ = ["AugmentImageComponent", "AugmentImageComponents", "AugmentImageCoordinates", "ImageFromFile"]


class ImageFromFile(RNGDataFlow):
    """
    Read images from files.

    Length: the number of files.
    Order: that of the files, or a new one each pass.
    Process: stays in this one.

    Args:
        files: paths.
        channel: 3 gives `[h, w, 3]` in the order red, green, blue; 1 gives `[h, w, 1]`.
        resize: (height, width) to resize to, or a number for both.
        shuffle: whether each pass has an order of its own. The caller's list stays as it is.

    Raises:
        ValueError: no files, or another `channel`.
        DamagedFileError: when it runs, a file is not an image that OpenCV can read.
        FileNotFoundError: when it runs, a file is not there.
        ImportError: OpenCV is not installed.

    Example:
        >>> ImageFromFile(glob.glob("photos/*.jpg"), resize=(256, 256), shuffle=True)

    tensorpack: same; there the errors are AssertionErrors, and `shuffle` reorders the caller's list.
    """

    def __init__(
        self,
        files: Sequence[str],
        channel: int = 3,
        resize: int | tuple[int, int] | None = None,
        shuffle: bool = False,
    ) -> None:
        require_opencv(self)
        if len(files) == 0:
            raise ValueError(
                "ImageFromFile: takes at least one file, got an empty list. Is the pattern right?"
            )
        if channel not in (1, 3):
            raise ValueError(f"ImageFromFile: channel must be 1 or 3, got {channel!r}.")
        self.files, self.channel, self.shuffle = list(files), int(channel), shuffle
        self.resize = None if resize is None else check_size(self, "resize", resize)

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Datapoint]:
        order = self.rng.permutation(len(self.files)) if self.shuffle else range(len(self.files))
        for index in order:
            yield [self._read(self.files[index])]

    def _read(self, path: str) -> np.ndarray:
        cv2 = opencv("ImageFromFile")
        with parsing(path, "an image"):
            image = cv2.imread(str(path), cv2.IMREAD_COLOR if self.channel == 3 else cv2.IMREAD_GRAYSCALE)
        if image is None and not os.path.exists(path):
            raise FileNotFoundError(f"ImageFromFile: there is no file '{path}'.")
        if image is None:
            raise DamagedFileError(f"ImageFromFile: OpenCV cannot read '{path}'. Is it an image?")
        if self.channel == 3:
            image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        if self.resize is not None:
            image = cv2.resize(image, self.resize[::-1])
        return image if self.channel == 3 else image[:, :, np.newaxis]


class AugmentImageComponent(MapDataComponent):
    """
    Augment one image of each datapoint.

    Length: that of `ds`; wrong when `catch_exceptions` drops datapoints.
    Order: that of `ds`.
    Process: stays in this one. It can be pickled if the augmentors can.

    Args:
        ds: datapoints with an image `[h, w]` or `[h, w, c]`.
        augmentors: an AugmentorList, or a list for one.
        index: where the image is.
        copy: give the augmentors a copy, so that nothing they do in place, and no view they return, reaches the source.
        catch_exceptions: log an exception of an augmentor, the first nine and then every hundredth, and drop the datapoint.

    Raises:
        TypeError: no augmentors; when it runs, the component is not an array.

    Attributes:
        augs: the AugmentorList.

    Example:
        >>> df = AugmentImageComponent(df, [imgaug.RandomCrop(224), imgaug.Flip(horiz=True)])

    tensorpack: same; there a component that is not an image is an AssertionError.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: AugmentorList | Sequence[ImageAugmentor],
        index: Any = 0,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        self.augs = _augmentor_list(augmentors)
        augment = _Augment(type(self).__name__, self.augs, copy)
        super().__init__(ds, _guarded(augment.component, type(self).__name__, catch_exceptions), index)

    def reset_state(self) -> None:
        """Reset `ds` and the augmentors."""
        super().reset_state()
        self.augs.reset_state()


class AugmentImageComponents(MapData):
    """
    Augment several images of each datapoint, and coordinates, in the same way.

    Length: that of `ds`; wrong when `catch_exceptions` drops datapoints.
    Order: that of `ds`.
    Process: stays in this one. It can be pickled if the augmentors can.

    Args:
        ds: datapoints with images of one size.
        augmentors: an AugmentorList, or a list for one.
        index: where the images are. What is random is drawn once, for the first of them.
        coords_index: where the coordinates are: `[n, 2]` of a floating type, each (x, y).
        copy: give the augmentors copies.
        catch_exceptions: log an exception of an augmentor, the first nine and then every hundredth, and drop the datapoint.

    Raises:
        TypeError: no augmentors; when it runs, a component is not an array, or coordinates are integers.
        ValueError: `index` is empty; when it runs, coordinates of another shape.

    Attributes:
        augs: the AugmentorList.

    Example:
        >>> df = AugmentImageComponents(df, augs, index=(0, 1), coords_index=(2,))     # image, mask, points

    Note:
        Augmentors that change values change all the images: for a mask take only geometric ones.

    tensorpack: same; there wrong components are AssertionErrors.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: AugmentorList | Sequence[ImageAugmentor],
        index: Sequence[Any] = (0, 1),
        coords_index: Sequence[Any] = (),
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        if len(index) == 0:
            raise ValueError(f"{type(self).__name__}: index must name at least one image, got {index!r}.")
        self.augs = _augmentor_list(augmentors)
        augment = _Augment(type(self).__name__, self.augs, copy, tuple(index), tuple(coords_index))
        super().__init__(ds, _guarded(augment.datapoint, type(self).__name__, catch_exceptions))

    def reset_state(self) -> None:
        """Reset `ds` and the augmentors."""
        super().reset_state()
        self.augs.reset_state()


class AugmentImageCoordinates(AugmentImageComponents):
    """
    Augment an image of each datapoint, and the coordinates on it.

    Length: that of `ds`; wrong when `catch_exceptions` drops datapoints.
    Order: that of `ds`.
    Process: stays in this one. It can be pickled if the augmentors can.

    Args:
        ds: datapoints with an image and coordinates.
        augmentors: an AugmentorList, or a list for one.
        img_index: where the image is.
        coords_index: where the coordinates are: `[n, 2]` of a floating type, each (x, y).
        copy: give the augmentors copies.
        catch_exceptions: log an exception of an augmentor, the first nine and then every hundredth, and drop the datapoint.

    Raises:
        TypeError: no augmentors; when it runs, a component is not an array, or coordinates are integers.
        ValueError: when it runs, coordinates of another shape.

    Attributes:
        augs: the AugmentorList.

    tensorpack: same; there wrong components are AssertionErrors, and it fails on NumPy since 1.24.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: AugmentorList | Sequence[ImageAugmentor],
        img_index: Any = 0,
        coords_index: Any = 1,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        super().__init__(ds, augmentors, (img_index,), (coords_index,), copy, catch_exceptions)


class _Augment:
    """What is done to a component or a datapoint; can be pickled, unlike a function inside a constructor."""

    def __init__(
        self,
        who: str,
        augmentors: AugmentorList,
        copy: bool,
        index: tuple[Any, ...] = (),
        coords_index: tuple[Any, ...] = (),
    ) -> None:
        self._who, self._augmentors, self._copy = who, augmentors, copy
        self._index, self._coords_index = index, coords_index

    def component(self, image: Any) -> np.ndarray:
        """Augment one image."""
        image = self._own(check_image(self._who, image))
        return self._augmentors.get_transform(image).apply_image(image)

    def datapoint(self, datapoint: Any) -> Any:
        """Augment the images and coordinates of a datapoint, which is a copy already."""
        datapoint = list(datapoint) if isinstance(datapoint, tuple) else datapoint
        images = [self._own(check_image(self._who, datapoint[key])) for key in self._index]
        transform = self._augmentors.get_transform(images[0])
        for key, image in zip(self._index, images):
            datapoint[key] = transform.apply_image(image)
        for key in self._coords_index:
            datapoint[key] = transform.apply_coords(self._own(check_coords(self._who, datapoint[key])))
        return datapoint

    def _own(self, array: np.ndarray) -> np.ndarray:
        return deepcopy(array) if self._copy else array


class _DropAndLog:
    """Calls a function; an exception is logged, and the result is None, which drops the datapoint."""

    def __init__(self, func: Callable[[Any], Any], who: str) -> None:
        self._func, self._who, self._count = func, who, 0

    def __call__(self, value: Any) -> Any:
        try:
            return self._func(value)
        except Exception:  # noqa: BLE001 (the user asked for all of them: catch_exceptions=True)
            self._count += 1
            if self._count < 10 or self._count % 100 == 0:
                logger.exception(f"{self._who}: exception number {self._count}; the datapoint is dropped.")
            return None


def _guarded(func: Callable[[Any], Any], who: str, catch_exceptions: bool) -> Callable[[Any], Any]:
    return _DropAndLog(func, who) if catch_exceptions else func


def _augmentor_list(augmentors: Any) -> AugmentorList:
    return augmentors if isinstance(augmentors, AugmentorList) else AugmentorList(augmentors)

"""
What all data sets have in common: a number of datapoints that can be taken by their index, in order or shuffled.

`IndexedData` knows the order, `StoredPairs` has the data in memory, `LabelledFiles` has paths, and reads each file when
it is its turn.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Iterator, List, Sequence, Tuple

from ..base import Datapoint, RNGDataFlow

__all__ = ["IndexedData", "LabelledFiles", "StoredPairs", "require_split"]


class IndexedData(RNGDataFlow):
    """
    A data set whose datapoints have an index. Subclasses define `__len__` and `_datapoint`.

    Length: the number of datapoints.
    Order: a new random one each pass, or that of the indices.
    Process: stays in this one.

    Args:
        shuffle: in a new random order each pass; needs `reset_state`.
    """

    def __init__(self, shuffle: bool) -> None:
        self.shuffle = shuffle

    @abstractmethod
    def __len__(self) -> int:
        """Count the datapoints that are really there."""

    @abstractmethod
    def _datapoint(self, index: int) -> Datapoint:
        """Make the datapoint of an index: a new list each time."""

    def __iter__(self) -> Iterator[Datapoint]:
        order = self.rng.permutation(len(self)).tolist() if self.shuffle else range(len(self))
        for index in order:
            yield self._datapoint(index)


class StoredPairs(IndexedData):
    """
    Images and labels in memory: datapoints [images[k], labels[k]].

    Length: the number of images.
    Order: a new random one each pass, or that of the arrays.
    Process: stays in this one.

    Args:
        images: [N, ...].
        labels: N of them.
        shuffle: in a new random order each pass; needs `reset_state`.

    Raises:
        ValueError: not as many labels as images.

    Attributes:
        images: as given.
        labels: as given.

    Note:
        The list of a datapoint is new, its arrays are views: what changes them in place changes the data set.
    """

    def __init__(self, images: Any, labels: Any, shuffle: bool) -> None:
        super().__init__(shuffle)
        if len(images) != len(labels):
            raise ValueError(
                f"{type(self).__name__}: {len(images)} images, but {len(labels)} labels. Are the files of one data set?"
            )
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def _datapoint(self, index: int) -> Datapoint:
        return [self.images[index], self.labels[index]]


class LabelledFiles(IndexedData):
    """
    Files with a label each: datapoints [path, label].

    Length: the number of files in the list.
    Order: a new random one each pass, or that of the list.
    Process: stays in this one.

    Args:
        full_dir: the directory that the names are relative to.
        imglist: (name, label) of each file.
        shuffle: in a new random order each pass; needs `reset_state`.

    Raises:
        ValueError: one of the first ten files is not there.

    Attributes:
        full_dir: as given.
        imglist: as given.
    """

    _TRIED = 10

    def __init__(self, full_dir: str, imglist: Sequence[Tuple[str, int]], shuffle: bool) -> None:
        super().__init__(shuffle)
        self.full_dir = full_dir
        self.imglist: List[Tuple[str, int]] = list(imglist)
        for name, _ in self.imglist[: self._TRIED]:
            path = os.path.join(full_dir, name)
            if not os.path.isfile(path):
                raise ValueError(
                    f"{type(self).__name__}: there is no file {path}, which the list of images names. "
                    f"Is {full_dir} the right directory, unpacked as the data set's page says?"
                )

    def __len__(self) -> int:
        return len(self.imglist)

    def _datapoint(self, index: int) -> Datapoint:
        name, label = self.imglist[index]
        return [os.path.join(self.full_dir, name), label]


def require_split(
    who: object, name: str, wanted: Sequence[str] = ("train", "test"), argument: str = "train_or_test"
) -> None:
    """
    Refuse the name of a part that the data set does not have.

    Args:
        who: the data set that complains.
        name: the name given.
        wanted: the names there are.
        argument: what the data set's argument is called.

    Raises:
        ValueError: it is none of them.
    """
    if name not in wanted:
        names = " or ".join(filter(None, (", ".join(map(repr, wanted[:-1])), repr(wanted[-1]))))
        raise ValueError(f"{type(who).__name__}: {argument} must be {names}, got {name!r}.")

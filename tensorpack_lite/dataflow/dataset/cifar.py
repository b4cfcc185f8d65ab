"""CIFAR-10 and CIFAR-100: small photographs, stored in archives of pickles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Sequence, Tuple

import numpy as np

from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from .files import Origin, find_file, unpack_tar
from .indexed import StoredPairs
from .readers import load_array_dict

_SHAPE = (3, 32, 32)  # of an image in the files; the channels are in RGB order
_MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)


@dataclass(frozen=True)
class _Edition:
    """The differences between the two archives."""

    archive: Origin
    default_dir: str
    folder: str
    train: Tuple[str, ...]
    test: Tuple[str, ...]
    labels_key: str
    names_file: str
    names_key: str


_CIFAR10 = _Edition(
    Origin("cifar-10-python.tar.gz", _MIRRORS, md5="c58f30108f718f92721af3b95e74349a"),
    default_dir="cifar10_data",
    folder="cifar-10-batches-py",
    train=("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"),
    test=("test_batch",),
    labels_key="labels",
    names_file="batches.meta",
    names_key="label_names",
)
_CIFAR100 = _Edition(
    Origin("cifar-100-python.tar.gz", _MIRRORS, md5="eb9058c3a382ffc7106e4002c42a8d85"),
    default_dir="cifar100_data",
    folder="cifar-100-python",
    train=("train",),
    test=("test",),
    labels_key="fine_labels",
    names_file="meta",
    names_key="fine_label_names",
)


class CifarBase(StoredPairs):
    """
    CIFAR-10 or CIFAR-100: datapoints [uint8 (32, 32, 3) in RGB order, int label].

    If `dir` does not contain the unpacked folder, the archive in `dir` is unpacked, after downloading it if necessary.
    The files may contain any number of images. Their pickles are read as plain data; nothing in them is executed.

    Length: the number of images in the files; 50000 for "train", 10000 for "test".
    Order: a new random order in each pass, or that of the files.
    Process: runs in the current process.

    Args:
        train_or_test: "train" or "test".
        shuffle: whether to use a new random order in each pass. Default: only for "train".
        dir: the directory of the archive. Default: `cifar10_data` or `cifar100_data` in the directory of datasets.
        cifar_classnum: 10 or 100.

    Raises:
        ValueError: unknown name or number of classes; a file is missing from the folder, or is damaged.
        OSError: the archive is missing and cannot be downloaded.

    Attributes:
        images: uint8 [N, 32, 32, 3].
        labels: a list of N ints.

    Source: Krizhevsky 2009, "Learning multiple layers of features from tiny images";
        https://www.cs.toronto.edu/~kriz/cifar.html.
    """

    def __init__(
        self,
        train_or_test: str,
        shuffle: bool | None = None,
        dir: str | None = None,
        cifar_classnum: int = 10,
    ) -> None:
        who = type(self).__name__
        self.train_or_test = check_choice(f"{who}: train_or_test", train_or_test, ("train", "test"))
        self.cifar_classnum = check_choice(f"{who}: cifar_classnum", cifar_classnum, (10, 100))
        self._edition = _CIFAR10 if cifar_classnum == 10 else _CIFAR100
        self.dir = get_dataset_path(self._edition.default_dir) if dir is None else dir
        images, labels = self._read_split(train_or_test)
        super().__init__(images, labels, train_or_test == "train" if shuffle is None else shuffle)

    def get_per_pixel_mean(self, names: Sequence[str] = ("train", "test")) -> np.ndarray:
        """
        Return the mean image of one split, or of both.

        Args:
            names: "train", "test" or both.

        Returns:
            float32 [32, 32, 3], 0 to 255.

        Raises:
            ValueError: unknown name, or `names` is empty.
        """
        if not names:
            raise ValueError(f"{type(self).__name__}: names is empty (expected 'train', 'test' or both).")
        for name in names:
            check_choice(f"{type(self).__name__}: names", name, ("train", "test"))
        splits = [self.images if name == self.train_or_test else self._read_split(name)[0] for name in names]
        total = sum(images.sum(axis=0, dtype=np.float64) for images in splits)
        return np.asarray(total / sum(len(images) for images in splits), dtype=np.float32)

    def get_per_channel_mean(self, names: Sequence[str] = ("train", "test")) -> np.ndarray:
        """
        Return the mean of each channel of one split, or of both.

        Args:
            names: "train", "test" or both.

        Returns:
            float32 [3], 0 to 255.
        """
        return self.get_per_pixel_mean(names).mean(axis=(0, 1))

    def get_label_names(self) -> list[str]:
        """
        Return the names of the classes.

        Returns:
            The names in the order of the labels; for CIFAR-100, the fine classes.
        """
        path = self._file(self._edition.names_file)
        names = load_array_dict(path).get(self._edition.names_key)
        if not isinstance(names, list):
            raise DamagedFileError(f"{path} does not contain the list {self._edition.names_key!r}.")
        return [name.decode("utf-8") if isinstance(name, bytes) else str(name) for name in names]

    def _file(self, name: str) -> str:
        """Return the path of a file of the unpacked archive, after downloading and unpacking it if necessary."""
        folder = os.path.join(self.dir, self._edition.folder)
        if not os.path.isdir(folder):
            unpack_tar(find_file(self, self._edition.archive, self.dir), self.dir)
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            raise ValueError(
                f"{type(self).__name__}: {name} is not in {folder}. Delete that folder, and it will be unpacked again from "
                f"{self._edition.archive.name}, or downloaded."
            )
        return path

    def _read_split(self, name: str) -> tuple[np.ndarray, list[int]]:
        images, labels = zip(*(self._read_file(file) for file in getattr(self._edition, name)))
        return np.concatenate(images), [label for part in labels for label in part]

    def _read_file(self, name: str) -> tuple[np.ndarray, list[int]]:
        """Read images [N, 32, 32, 3] and their labels."""
        path = self._file(name)
        content = load_array_dict(path)
        pixels, labels = content.get("data"), content.get(self._edition.labels_key)
        size = int(np.prod(_SHAPE))
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (size,):
            raise DamagedFileError(f"{path}: 'data' is invalid (expected uint8 [N, {size}], got {_describe(pixels)}).")
        if not isinstance(labels, (list, np.ndarray)) or len(labels) != len(pixels):
            raise DamagedFileError(
                f"{path}: {self._edition.labels_key!r} is invalid (expected {len(pixels)} labels, got {_describe(labels)})."
            )
        images = pixels.reshape(-1, *_SHAPE).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images), [self._label(label, path) for label in labels]

    def _label(self, label: object, path: str) -> int:
        if isinstance(label, (int, np.integer)) and 0 <= label < self.cifar_classnum:
            return int(label)
        raise DamagedFileError(f"{path}: a label is invalid (expected 0 to {self.cifar_classnum - 1}, got {label!r}).")


class Cifar10(CifarBase):
    """
    CIFAR-10, photographs of ten classes: datapoints [uint8 (32, 32, 3) in RGB order, int label].

    Length: as in `CifarBase`.
    Order: as in `CifarBase`.
    Process: runs in the current process.

    Args:
        train_or_test: "train" or "test".
        shuffle: whether to use a new random order in each pass. Default: only for "train".
        dir: the directory of `cifar-10-batches-py` or of its archive. Default: `cifar10_data` in the
            directory of datasets.

    Raises:
        ValueError, OSError: as in `CifarBase`.

    Example:
        >>> train = Cifar10("train")  # doctest: +SKIP
        >>> train.get_label_names()[3]  # doctest: +SKIP
        'cat'

    """

    def __init__(self, train_or_test: str, shuffle: bool | None = None, dir: str | None = None) -> None:
        super().__init__(train_or_test, shuffle, dir, cifar_classnum=10)


class Cifar100(CifarBase):
    """
    CIFAR-100, photographs of a hundred classes: datapoints [uint8 (32, 32, 3) in RGB order, int label].

    Length: as in `CifarBase`.
    Order: as in `CifarBase`.
    Process: runs in the current process.

    Args:
        train_or_test: "train" or "test".
        shuffle: whether to use a new random order in each pass. Default: only for "train".
        dir: the directory of `cifar-100-python` or of its archive. Default: `cifar100_data` in the directory
            of datasets.

    Raises:
        ValueError, OSError: as in `CifarBase`.

    """

    def __init__(self, train_or_test: str, shuffle: bool | None = None, dir: str | None = None) -> None:
        super().__init__(train_or_test, shuffle, dir, cifar_classnum=100)


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return f"{len(value)} in a list" if isinstance(value, list) else type(value).__name__

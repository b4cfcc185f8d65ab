"""SVHN: cropped digits of house numbers, stored in MATLAB files."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from ...utils.optional import require_optional
from .files import Origin, find_file
from .indexed import StoredPairs
from .readers import check_labels, read_mat

_SPLITS = ("train", "test", "extra")
# not available over https; the checksums protect the files
_MIRRORS = ("http://ufldl.stanford.edu/housenumbers/",)
_ORIGINS = {
    "train": Origin("train_32x32.mat", _MIRRORS, md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
    "test": Origin("test_32x32.mat", _MIRRORS, md5="eb5a983be6a315427106f1b164d9cef3"),
    "extra": Origin("extra_32x32.mat", _MIRRORS, md5="a93ce644f1a588dc4d68dda5feec44a7"),
}


class SVHNDigit(StoredPairs):
    """
    SVHN, format 2, digits of house numbers: datapoints [uint8 (32, 32, 3) in RGB order, np.uint8 label].

    Length: the number of images in the file; 73257 for "train", 26032 for "test", 531131 for "extra".
    Order: a new random order in each pass, or that of the file.
    Process: runs in the current process.

    Args:
        name: "train", "test" or "extra".
        data_dir: the directory of the .mat files. Default: `svhn_data` in the directory of datasets.
        shuffle: whether to use a new random order in each pass (also for "test").

    Raises:
        ValueError: unknown name; the file is damaged or is not the expected one.
        OSError: the file is missing and cannot be downloaded.
        ImportError: SciPy is not installed.

    Attributes:
        images: uint8 [N, 32, 32, 3].
        labels: uint8 [N]. The digit 0, which is 10 in the file, has the label 0.

    Source: Netzer et al. 2011, "Reading digits in natural images with unsupervised feature learning";
        http://ufldl.stanford.edu/housenumbers.
    """

    def __init__(self, name: str, data_dir: str | None = None, shuffle: bool = True) -> None:
        self.name = check_choice("SVHNDigit: name", name, _SPLITS)
        require_optional("scipy", type(self).__name__)
        directory = get_dataset_path("svhn_data") if data_dir is None else data_dir
        path = find_file(self, _ORIGINS[name], directory, argument="data_dir")
        super().__init__(*_read(path), shuffle=shuffle)

    @staticmethod
    def get_per_pixel_mean(names: Sequence[str] = _SPLITS, data_dir: str | None = None) -> np.ndarray:
        """
        Return the mean image of one or more splits.

        Args:
            names: the splits. "extra" alone takes 1.6 GB of memory.
            data_dir: as in the constructor.

        Returns:
            float32 [32, 32, 3], 0 to 255.

        Raises:
            ValueError: unknown name, or `names` is empty.
        """
        if not names:
            raise ValueError("SVHNDigit: names is empty (expected some of 'train', 'test' and 'extra').")
        total, count = np.zeros((32, 32, 3)), 0
        for name in names:
            images = SVHNDigit(name, data_dir, shuffle=False).images
            total += images.sum(axis=0, dtype=np.float64)
            count += len(images)
        return np.asarray(total / count, dtype=np.float32)


def _read(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Read images [N, 32, 32, 3] and labels [N]."""
    images, labels = read_mat(path, "X", "y")
    if images.dtype != np.uint8 or images.shape[:3] != (32, 32, 3) or images.ndim != 4:
        raise DamagedFileError(
            f"{path}: X is invalid (expected uint8 [32, 32, 3, N], got {images.dtype} {list(images.shape)}). "
            f"Is it SVHN's format 2?"
        )
    labels = check_labels(f"{path}: y", labels, images.shape[3], 10)
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), (labels % 10).astype(np.uint8)

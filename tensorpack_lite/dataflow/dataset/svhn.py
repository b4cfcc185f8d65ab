"""House numbers on photographs: SVHN's cropped digits, in MATLAB files."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from ...utils.optional import require_optional
from .files import Origin, find_file
from .indexed import StoredPairs, require_split
from .readers import read_mat

__all__ = ["SVHNDigit"]

_SPLITS = ("train", "test", "extra")
_MIRRORS = ("http://ufldl.stanford.edu/housenumbers/",)  # no https; the checksums decide
_ORIGINS = {
    "train": Origin("train_32x32.mat", _MIRRORS, md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
    "test": Origin("test_32x32.mat", _MIRRORS, md5="eb5a983be6a315427106f1b164d9cef3"),
    "extra": Origin("extra_32x32.mat", _MIRRORS, md5="a93ce644f1a588dc4d68dda5feec44a7"),
}


class SVHNDigit(StoredPairs):
    """
    SVHN, format 2: digits of house numbers; datapoints [uint8 (32, 32, 3) in red, green, blue, np.uint8 label].

    Length: 73257 ("train"), 26032 ("test"), 531131 ("extra"); in general the number of images in the file.
    Order: a new random one each pass, or that of the file.
    Process: stays in this one.

    Args:
        name: "train", "test" or "extra".
        data_dir: the directory of the .mat files. Default: `svhn_data` in the directory of data sets.
        shuffle: in a new random order each pass (for "test" too); needs `reset_state`.

    Raises:
        ValueError: another name; a file that is not the wanted one, or damaged.
        OSError: the file is absent and cannot be downloaded.
        ImportError: SciPy is not installed.

    Attributes:
        images: uint8 [N, 32, 32, 3].
        labels: uint8 [N]; the file's 10 is 0.

    Source: Netzer et al. 2011, "Reading digits in natural images with unsupervised feature learning";
        http://ufldl.stanford.edu/housenumbers.
    tensorpack: same; there a second object gets the data of the first one, also from another `data_dir`.
    """

    def __init__(self, name: str, data_dir: str | None = None, shuffle: bool = True) -> None:
        require_split(self, name, _SPLITS, argument="name")
        require_optional("scipy", type(self).__name__)
        self.name = name
        directory = get_dataset_path("svhn_data") if data_dir is None else data_dir
        path = find_file(self, _ORIGINS[name], directory, argument="data_dir")
        super().__init__(*_read(path), shuffle=shuffle)

    @staticmethod
    def get_per_pixel_mean(names: Sequence[str] = _SPLITS, data_dir: str | None = None) -> np.ndarray:
        """
        Average the images of some splits, one after the other.

        Args:
            names: of the splits. Note that "extra" alone takes 1.6 GB of memory.
            data_dir: as for the constructor.

        Returns:
            float32 [32, 32, 3], from 0 to 255.

        Raises:
            ValueError: another name, or none.

        tensorpack: same; there without `data_dir`.
        """
        if not names:
            raise ValueError("SVHNDigit: names is empty, wanted some of 'train', 'test' and 'extra'.")
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
            f"{path}: X must be uint8 [32, 32, 3, N], got {images.dtype} {list(images.shape)}. Is it SVHN's format 2?"
        )
    labels = labels.ravel()
    if len(labels) != images.shape[3] or labels.dtype.kind not in "biuf":
        raise DamagedFileError(
            f"{path}: y must be {images.shape[3]} numbers, got {len(labels)} values of dtype {labels.dtype}."
        )
    if labels.size and not (labels.min() >= 1 and labels.max() <= 10):
        raise DamagedFileError(f"{path}: y must be 1 to 10, got {labels.min()} to {labels.max()}.")
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), (labels % 10).astype(np.uint8)

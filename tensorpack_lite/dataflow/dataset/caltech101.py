"""Outlines of things: the Caltech 101 silhouettes, in a MATLAB file."""

from __future__ import annotations

import numpy as np

from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from ...utils.optional import require_optional
from .files import Origin, find_file
from .indexed import require_split
from .labelled_images import LabelledImages
from .readers import read_mat

__all__ = ["Caltech101Silhouettes"]

_SIDE, _CLASSES = 28, 101
_ORIGIN = Origin(  # its page gives no checksum; the arrays in it are checked
    "caltech101_silhouettes_28_split1.mat", ("https://people.cs.umass.edu/~marlin/data/",)
)


class Caltech101Silhouettes(LabelledImages):
    """
    Caltech 101 silhouettes: filled outlines; datapoints [float32 (28, 28), 0 or 1, np.uint8 label 0 to 100].

    Length: 4100 ("train"), 2307 ("test"), 2264 ("val"); in general the number of images in the file.
    Order: a new random one each pass, or that of the file.
    Process: stays in this one.

    Args:
        name: "train", "test" or "val".
        shuffle: in a new random order each pass (for "test" too); needs `reset_state`.
        dir: the directory of the .mat file. Default: `caltech101_data` in the directory of data sets.

    Raises:
        ValueError: another name; a file that is not the wanted one, or damaged.
        OSError: the file is absent and cannot be downloaded.
        ImportError: SciPy is not installed.

    Attributes:
        images: float32 [N, 28, 28, 1], 0 or 1.
        labels: uint8 [N]; the file's 1 is 0.

    Note:
        The file has no published checksum; what is checked is that it holds images of this size and labels of these
        classes.

    Source: Marlin, Swersky, Chen, de Freitas 2010, "Inductive principles for restricted Boltzmann machine learning".
    tensorpack: same.
    """

    def __init__(self, name: str, shuffle: bool = True, dir: str | None = None) -> None:
        require_split(self, name, ("train", "test", "val"), argument="name")
        require_optional("scipy", type(self).__name__)
        self.name = name
        directory = get_dataset_path("caltech101_data") if dir is None else dir
        path = find_file(self, _ORIGIN, directory)
        images, labels = read_mat(path, f"{name}_data", f"{name}_labels")
        if images.ndim != 2 or images.shape[1] != _SIDE**2 or images.dtype.kind not in "biuf":
            raise DamagedFileError(
                f"{path}: {name}_data must be numbers [N, {_SIDE**2}], got {images.dtype} {list(images.shape)}."
            )
        labels = labels.ravel()
        if len(labels) != len(images) or labels.dtype.kind not in "biuf":
            raise DamagedFileError(
                f"{path}: {name}_labels must be {len(images)} numbers, got {len(labels)} values of dtype {labels.dtype}."
            )
        if labels.size and not (labels.min() >= 1 and labels.max() <= _CLASSES):
            raise DamagedFileError(
                f"{path}: {name}_labels must be 1 to {_CLASSES}, got {labels.min()} to {labels.max()}."
            )
        zero_based = labels.astype(np.int64) - 1
        super().__init__(images.reshape(-1, _SIDE, _SIDE), zero_based, white=1, shuffle=shuffle)

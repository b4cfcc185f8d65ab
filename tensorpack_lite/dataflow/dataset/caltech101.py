"""Caltech 101 silhouettes: outlines of objects, stored in a MATLAB file."""

from __future__ import annotations

from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from ...utils.optional import require_optional
from .files import Origin, find_file
from .indexed import LabelledImages
from .readers import check_labels, read_mat

_SIDE, _CLASSES = 28, 101
_ORIGIN = Origin(  # without a published checksum; the arrays are checked
    "caltech101_silhouettes_28_split1.mat", ("https://people.cs.umass.edu/~marlin/data/",)
)


class Caltech101Silhouettes(LabelledImages):
    """
    Caltech 101 silhouettes, filled outlines of objects: datapoints [float32 (28, 28), np.uint8 label 0 to 100].

    Length: the number of images in the file; 4100 for "train", 2307 for "test", 2264 for "val".
    Order: a new random order in each pass, or that of the file.
    Process: runs in the current process.

    Args:
        name: "train", "test" or "val".
        shuffle: whether to use a new random order in each pass (also for "test").
        dir: the directory of the .mat file. Default: `caltech101_data` in the directory of datasets.

    Raises:
        ValueError: unknown name; the file is damaged or is not the expected one.
        OSError: the file is missing and cannot be downloaded.
        ImportError: SciPy is not installed.

    Attributes:
        images: float32 [N, 28, 28, 1], 0 or 1.
        labels: uint8 [N]. They start at 0; those in the file start at 1.

    Note:
        There is no published checksum. The size of the images and the range of the labels are checked instead.

    Source: Marlin, Swersky, Chen, de Freitas 2010, "Inductive principles for restricted Boltzmann machine learning".
    """

    def __init__(self, name: str, shuffle: bool = True, dir: str | None = None) -> None:
        self.name = check_choice("Caltech101Silhouettes: name", name, ("train", "test", "val"))
        require_optional("scipy", type(self).__name__)
        directory = get_dataset_path("caltech101_data") if dir is None else dir
        path = find_file(self, _ORIGIN, directory)
        images, labels = read_mat(path, f"{name}_data", f"{name}_labels")
        if images.ndim != 2 or images.shape[1] != _SIDE**2 or images.dtype.kind not in "biuf":
            raise DamagedFileError(
                f"{path}: {name}_data is invalid (expected numbers [N, {_SIDE**2}], got {images.dtype} "
                f"{list(images.shape)})."
            )
        labels = check_labels(f"{path}: {name}_labels", labels, len(images), _CLASSES) - 1
        super().__init__(images.reshape(-1, _SIDE, _SIDE), labels, white=1, shuffle=shuffle)

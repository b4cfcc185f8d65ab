"""BSDS500: photographs with boundaries drawn by people, stored as JPEG and MATLAB files."""

from __future__ import annotations

import os

import numpy as np

from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from ...utils.optional import require_optional
from .files import Origin, find_file, unpack_tar
from .indexed import StoredPairs
from .readers import read_image, read_mat

_HEIGHT, _WIDTH = 321, 481
_ORIGIN = Origin(  # without a published checksum; all images and boundary maps are checked when they are read
    "BSR_bsds500.tgz",
    ("https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/",),
)


class BSDS500(StoredPairs):
    """
    BSDS500: datapoints [uint8 (321, 481, 3) in BGR order, float32 (321, 481) in [0, 1]].

    The second component is the fraction of annotators who drew a boundary at each pixel. Upright images and their
    boundaries are transposed, so that all images have the same shape.

    Length: the number of JPEG files in the folder; 200 for "train", 100 for "val", 200 for "test".
    Order: a new random order in each pass, or that of the file names.
    Process: runs in the current process.

    Args:
        name: "train", "val" or "test".
        data_dir: the directory of `BSR/BSDS500/data` or of the archive. Default: `bsds500_data` in the
            directory of datasets.
        shuffle: whether to use a new random order in each pass (also for "test").

    Raises:
        ValueError: unknown name; an image has no boundaries or another size; a file is damaged.
        OSError: the archive is missing and cannot be downloaded.
        ImportError: OpenCV or SciPy is not installed.

    Attributes:
        images: uint8 [N, 321, 481, 3].
        labels: float32 [N, 321, 481].

    Note:
        All images are kept in memory: about 200 MB for "train".

    Source: Arbelaez, Maire, Fowlkes, Malik 2011, "Contour detection and hierarchical image segmentation".
    """

    def __init__(self, name: str, data_dir: str | None = None, shuffle: bool = True) -> None:
        self.name = check_choice("BSDS500: name", name, ("train", "val", "test"))
        require_optional("cv2", type(self).__name__)
        require_optional("scipy", type(self).__name__)
        directory = get_dataset_path("bsds500_data") if data_dir is None else data_dir
        root = os.path.join(directory, "BSR", "BSDS500", "data")
        if not os.path.isdir(root):
            unpack_tar(find_file(self, _ORIGIN, directory, argument="data_dir"), directory)
        super().__init__(*_read(root, name), shuffle=shuffle)


def _read(root: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read images [N, 321, 481, 3] and boundaries [N, 321, 481] of one split."""
    image_dir = os.path.join(root, "images", name)
    found = sorted(os.listdir(image_dir)) if os.path.isdir(image_dir) else []
    files = [file for file in found if file.endswith(".jpg")]
    if not files:
        raise ValueError(
            f"BSDS500: there are no .jpg files in {image_dir}. Is it the folder of {_ORIGIN.name}? If it was unpacked "
            "incompletely, delete it, and it will be unpacked again."
        )
    images = np.empty((len(files), _HEIGHT, _WIDTH, 3), np.uint8)
    boundaries = np.empty((len(files), _HEIGHT, _WIDTH), np.float32)
    for k, file in enumerate(files):
        path = os.path.join(image_dir, file)
        images[k] = _landscape(read_image(path), path)
        path = os.path.join(root, "groundTruth", name, f"{file[: -len('.jpg')]}.mat")
        boundaries[k] = _landscape(_mean_boundaries(path), path)
    return images, boundaries


def _mean_boundaries(path: str) -> np.ndarray:
    """Return the mean of the annotators' maps of zeros and ones, which are in a 1 x K cell of structs."""
    if not os.path.isfile(path):
        raise ValueError(f"BSDS500: {path}, the boundaries of the image of that name, does not exist.")
    (cells,) = read_mat(path, "groundTruth")
    try:
        maps = [np.asarray(cell["Boundaries"][0, 0], dtype=np.float32) for cell in cells.ravel()]
        mean = np.stack(maps).mean(axis=0)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{path}: groundTruth is invalid (expected a 1 x K cell of structs with Boundaries of one shape, K > 0): "
            f"{error}."
        ) from error
    if not (mean.min() >= 0 and mean.max() <= 1):
        raise DamagedFileError(
            f"{path}: Boundaries are invalid (expected zeros and ones, got {mean.min()} to {mean.max()})."
        )
    return mean


def _landscape(values: np.ndarray, path: str) -> np.ndarray:
    """Transpose an upright image, and check the size."""
    if values.shape[:2] == (_WIDTH, _HEIGHT):
        values = values.swapaxes(0, 1)
    if values.shape[:2] != (_HEIGHT, _WIDTH):
        raise DamagedFileError(
            f"{path} has the wrong size (expected {_HEIGHT} x {_WIDTH} or {_WIDTH} x {_HEIGHT}, got "
            f"{values.shape[0]} x {values.shape[1]})."
        )
    return values

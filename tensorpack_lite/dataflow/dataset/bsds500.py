"""Photographs with the boundaries that people drew in them: BSDS500, as JPEGs and MATLAB files."""

from __future__ import annotations

import os

import numpy as np

from ...utils.errors import DamagedFileError
from ...utils.fs import get_dataset_path
from ...utils.optional import require_optional
from .files import Origin, find_file, unpack_tar
from .indexed import StoredPairs, require_split
from .readers import read_image, read_mat

__all__ = ["BSDS500"]

_HEIGHT, _WIDTH = 321, 481
_ORIGIN = Origin(  # its page gives no checksum; every image and every boundary map is checked when it is read
    "BSR_bsds500.tgz",
    ("https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/",),
)


class BSDS500(StoredPairs):
    """
    BSDS500: datapoints [uint8 (321, 481, 3) in blue, green, red, float32 (321, 481) in [0, 1]].

    The second component says of each pixel which share of the people who looked at the image drew a boundary there.
    Upright images are transposed, so that all have the same shape; their boundaries with them.

    Length: 200 ("train"), 100 ("val"), 200 ("test"); in general the number of JPEGs in the folder.
    Order: a new random one each pass, or that of the file names.
    Process: stays in this one.

    Args:
        name: "train", "val" or "test".
        data_dir: where `BSR/BSDS500/data` or its archive is. Default: `bsds500_data` in the directory of data sets.
        shuffle: in a new random order each pass (for "test" too); needs `reset_state`.

    Raises:
        ValueError: another name; an image without boundaries, one of another size, a damaged file.
        OSError: the archive is absent and cannot be downloaded.
        ImportError: OpenCV or SciPy is not installed.

    Attributes:
        images: uint8 [N, 321, 481, 3].
        labels: float32 [N, 321, 481].

    Note:
        All images are in memory: about 200 MB for "train".

    Source: Arbelaez, Maire, Fowlkes, Malik 2011, "Contour detection and hierarchical image segmentation".
    tensorpack: same.
    """

    def __init__(self, name: str, data_dir: str | None = None, shuffle: bool = True) -> None:
        require_split(self, name, ("train", "val", "test"), argument="name")
        require_optional("cv2", type(self).__name__)
        require_optional("scipy", type(self).__name__)
        self.name = name
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
            "only in part, delete it; it is unpacked again."
        )
    images = np.empty((len(files), _HEIGHT, _WIDTH, 3), np.uint8)
    boundaries = np.empty((len(files), _HEIGHT, _WIDTH), np.float32)
    for k, file in enumerate(files):
        path = os.path.join(image_dir, file)
        images[k] = _lying(read_image(path), path)
        path = os.path.join(root, "groundTruth", name, f"{file[: -len('.jpg')]}.mat")
        boundaries[k] = _lying(_mean_boundaries(path), path)
    return images, boundaries


def _mean_boundaries(path: str) -> np.ndarray:
    """Average what the annotators drew: a 1 x K cell of structs, each with a map of zeros and ones."""
    if not os.path.isfile(path):
        raise ValueError(f"BSDS500: there is no {path}, the boundaries of the image of that name.")
    (cells,) = read_mat(path, "groundTruth")
    try:
        maps = [np.asarray(cell["Boundaries"][0, 0], dtype=np.float32) for cell in cells.ravel()]
        mean = np.stack(maps).mean(axis=0)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{path}: groundTruth must be a 1 x K cell of structs with Boundaries of one shape, K > 0: {error}"
        ) from error
    if not (mean.min() >= 0 and mean.max() <= 1):
        raise DamagedFileError(
            f"{path}: Boundaries must be zeros and ones, got {mean.min()} to {mean.max()}."
        )
    return mean


def _lying(values: np.ndarray, path: str) -> np.ndarray:
    """Transpose what is upright, and refuse what has another size."""
    if values.shape[:2] == (_WIDTH, _HEIGHT):
        values = values.swapaxes(0, 1)
    if values.shape[:2] != (_HEIGHT, _WIDTH):
        raise DamagedFileError(
            f"{path} is {values.shape[0]} x {values.shape[1]}, wanted {_HEIGHT} x {_WIDTH} or {_WIDTH} x {_HEIGHT}."
        )
    return values

"""ImageNet as one has it on disk: ILSVRC12's images or their paths, and Tiny ImageNet."""

from __future__ import annotations

import os
from typing import Sequence
from xml.etree import ElementTree

import numpy as np

from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import require_optional
from ..base import Datapoint
from .ilsvrc_meta import ILSVRCMeta
from .indexed import LabelledFiles, require_split
from .readers import read_image

__all__ = ["ILSVRC12", "ILSVRC12Files", "ILSVRCMeta", "TinyImageNet"]

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_TINY_CLASSES = 200


class ILSVRC12Files(LabelledFiles):
    """
    The files of ILSVRC12: datapoints [path, int label 0 to 999].

    `dir` has the folders `train`, `val`, `test`. In `train`, each class has its folder: `train/n02134418/*.JPEG`. In the
    other two, either all images are in one folder ("original") or in folders as for `train` ("train").

    Length: 1281167 ("train"), 50000 ("val"), 100000 ("test"); in general the lines of the list of files.
    Order: a new random one each pass, or that of the list.
    Process: stays in this one.

    Args:
        dir: the directory of the three folders.
        name: "train", "val" or "test".
        meta_dir: the directory of the metadata; see `ILSVRCMeta`.
        shuffle: in a new random order each pass; needs `reset_state`. Default: for "train" only.
        dir_structure: of "val" and "test": "original" or "train". Default: guessed from the first entry of the folder.

    Raises:
        ValueError: other names; a folder that is absent; one of the first ten files is not there.
        OSError: the metadata are absent and cannot be downloaded.

    Attributes:
        full_dir: the folder of the part.
        imglist: (path below `full_dir`, label) of each image.

    Note:
        The images cannot be downloaded without an account at https://image-net.org.

    Source: Russakovsky et al. 2015, "ImageNet large scale visual recognition challenge".
    tensorpack: same; there AssertionErrors.
    """

    def __init__(
        self,
        dir: str,
        name: str,
        meta_dir: str | None = None,
        shuffle: bool | None = None,
        dir_structure: str | None = None,
    ) -> None:
        require_split(self, name, ("train", "val", "test"), argument="name")
        self.name = name
        full_dir = os.path.join(os.path.expanduser(dir), name)
        if not os.path.isdir(full_dir):
            raise ValueError(
                f"{type(self).__name__}: there is no folder {full_dir}. Pass the directory that has the folders train and "
                "val of ILSVRC12, from https://image-net.org."
            )
        meta = ILSVRCMeta(meta_dir)
        if name == "train":
            dir_structure = "train"
        elif dir_structure is None:
            dir_structure = meta.guess_dir_structure(full_dir)
        imglist = meta.get_image_list(name, dir_structure)
        super().__init__(full_dir, imglist, name == "train" if shuffle is None else shuffle)


class ILSVRC12(ILSVRC12Files):
    """
    The images of ILSVRC12: datapoints [uint8 (H, W, 3) in blue, green, red, int label 0 to 999].

    Length: 1281167 ("train"), 50000 ("val"), 100000 ("test"); in general the lines of the list of files.
    Order: a new random one each pass, or that of the list.
    Process: stays in this one.

    Args:
        dir: the directory of the folders `train`, `val`, `test`; see `ILSVRC12Files`.
        name: "train", "val" or "test".
        meta_dir: the directory of the metadata; see `ILSVRCMeta`.
        shuffle: in a new random order each pass; needs `reset_state`. Default: for "train" only.
        dir_structure: of "val" and "test": "original" or "train". Default: guessed from the first entry of the folder.

    Raises:
        ValueError: as for `ILSVRC12Files`. When iterated: an image that is damaged.
        FileNotFoundError: when iterated: an image that is not there.
        ImportError: OpenCV is not installed.

    Example:
        >>> ILSVRC12("/data/imagenet", "val")  # doctest: +SKIP

    Note:
        Decoding is slow. Take `ILSVRC12Files` and decode in a parallel map, or store the data in one file.

    tensorpack: same; there `get_training_bbox` gives only None on Python 3.9 and later.
    """

    def __init__(
        self,
        dir: str,
        name: str,
        meta_dir: str | None = None,
        shuffle: bool | None = None,
        dir_structure: str | None = None,
    ) -> None:
        require_optional("cv2", type(self).__name__)
        super().__init__(dir, name, meta_dir, shuffle, dir_structure)

    def _datapoint(self, index: int) -> Datapoint:
        path, label = super()._datapoint(index)
        return [read_image(path), label]

    @staticmethod
    def get_training_bbox(bbox_dir: str, imglist: Sequence[tuple[str, int]]) -> list[np.ndarray | None]:
        """
        Read the bounding boxes of training images.

        Args:
            bbox_dir: the directory of the annotations, `n02134418/n02134418_198.xml` and so on.
            imglist: of `ILSVRC12Files` for "train", or a part of it.

        Returns:
            For each image float32 [4]: xmin, ymin, xmax, ymax of its first object, in pixels; None where there is no
            annotation, as for half of the images.

        Raises:
            ValueError: an annotation is damaged, or `bbox_dir` does not exist.
        """
        if not os.path.isdir(bbox_dir):
            raise ValueError(f"ILSVRC12.get_training_bbox: there is no directory {bbox_dir}.")
        return [_first_box(os.path.join(bbox_dir, f"{os.path.splitext(name)[0]}.xml")) for name, _ in imglist]


class TinyImageNet(LabelledFiles):
    """
    Tiny ImageNet: datapoints [uint8 (64, 64, 3) in blue, green, red, int label 0 to 199].

    Labels are the places of the classes in `wnids.txt`.

    Length: 100000 ("train"), 10000 ("val"); in general the number of files.
    Order: a new random one each pass, or that of classes and file names ("train") or of the annotations ("val").
    Process: stays in this one.

    Args:
        dir: the unpacked `tiny-imagenet-200.zip`, with `wnids.txt`, `train` and `val` in it.
        name: "train" or "val".
        shuffle: in a new random order each pass; needs `reset_state`. Default: for "train" only.

    Raises:
        ValueError: another name; not 200 classes; a file or a folder that is not there; an annotation of an unknown class.
            When iterated: an image that is damaged.
        ImportError: OpenCV is not installed.

    Attributes:
        full_dir: the folder of the part.
        imglist: (path below `full_dir`, label) of each image.

    Note:
        It is at http://cs231n.stanford.edu/tiny-imagenet-200.zip, without a checksum; this class does not download it.

    Source: the course CS231n of Stanford.
    tensorpack: same; there an AssertionError for other classes.
    """

    def __init__(self, dir: str, name: str, shuffle: bool | None = None) -> None:
        require_split(self, name, ("train", "val"), argument="name")
        require_optional("cv2", type(self).__name__)
        self.name = name
        dir = os.path.expanduser(dir)
        labels = _tiny_classes(dir)
        full_dir = os.path.join(dir, name)
        imglist = _tiny_train(full_dir, labels) if name == "train" else _tiny_val(full_dir, labels)
        super().__init__(full_dir, imglist, name == "train" if shuffle is None else shuffle)

    def _datapoint(self, index: int) -> Datapoint:
        path, label = super()._datapoint(index)
        return [read_image(path), label]


def _first_box(path: str) -> np.ndarray | None:
    if not os.path.isfile(path):
        return None
    with parsing(path, "an annotation of an image"):
        box = ElementTree.parse(path).getroot().find("object/bndbox")
        values = [float(box.findtext(corner, "")) for corner in _CORNERS] if box is not None else None
    return None if values is None else np.array(values, dtype=np.float32)


def _tiny_file(*parts: str) -> str:
    path = os.path.join(*parts)
    if not os.path.exists(path):
        raise ValueError(
            f"TinyImageNet: there is no {path}. Pass the directory that tiny-imagenet-200.zip is unpacked to; it is at "
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip."
        )
    return path


def _tiny_classes(dir: str) -> dict[str, int]:
    path = _tiny_file(dir, "wnids.txt")
    with open(path, encoding="utf-8") as file, parsing(path, "a list of classes"):
        names = file.read().split()
    if len(set(names)) != _TINY_CLASSES:
        raise DamagedFileError(
            f"TinyImageNet: {path} must have {_TINY_CLASSES} classes, got {len(set(names))}."
        )
    return {name: label for label, name in enumerate(names)}


def _tiny_train(full_dir: str, labels: dict[str, int]) -> list[tuple[str, int]]:
    return [
        (os.path.join(name, "images", file), label)
        for name, label in labels.items()
        for file in sorted(os.listdir(_tiny_file(full_dir, name, "images")))
    ]


def _tiny_val(full_dir: str, labels: dict[str, int]) -> list[tuple[str, int]]:
    path = _tiny_file(full_dir, "val_annotations.txt")
    found = []
    with open(path, encoding="utf-8") as file, parsing(path, "a list of images"):
        for number, line in enumerate(file, start=1):
            columns = line.split("\t")
            if len(columns) < 2 or columns[1].strip() not in labels:
                raise DamagedFileError(
                    f"{path}:{number} is {line.strip()!r}, wanted a file name and a class of wnids.txt."
                )
            found.append((os.path.join("images", columns[0]), labels[columns[1].strip()]))
    return found

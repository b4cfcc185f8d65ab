"""ImageNet datasets on disk: the images of ILSVRC12 or their paths, and Tiny ImageNet."""

from __future__ import annotations

import os
from typing import Sequence
from xml.etree import ElementTree

import numpy as np

from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import require_optional
from .ilsvrc_meta import ILSVRCMeta
from .indexed import DecodedFiles, LabelledFiles

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_TINY_CLASSES = 200


class ILSVRC12Files(LabelledFiles):
    """
    The image files of ILSVRC12: datapoints [path, int label 0 to 999].

    `dir` contains the folders `train`, `val`, `test`. `train` has one folder per class:
    `train/n02134418/*.JPEG`. The other two contain either all images directly ("original") or one folder per
    class ("train").

    Length: the number of lines in the list of files; 1281167 for "train", 50000 for "val", 100000 for "test".
    Order: a new random order in each pass, or that of the list.
    Process: runs in the current process.

    Args:
        dir: the directory that contains the folders.
        name: "train", "val" or "test".
        meta_dir: the directory of the metadata; see `ILSVRCMeta`.
        shuffle: whether to use a new random order in each pass. Default: only for "train".
        dir_structure: "original" or "train", for "val" and "test". Default: guessed from the first entry of the folder.

    Raises:
        ValueError: unknown name or structure; the folder is missing; one of the first ten files is missing.
        OSError: the metadata are missing and cannot be downloaded.

    Attributes:
        full_dir: the folder of the split.
        imglist: (path relative to `full_dir`, label) of each image.

    Note:
        Downloading the images requires an account at https://image-net.org.

    Source: Russakovsky et al. 2015, "ImageNet large scale visual recognition challenge".
    """

    def __init__(
        self,
        dir: str,
        name: str,
        meta_dir: str | None = None,
        shuffle: bool | None = None,
        dir_structure: str | None = None,
    ) -> None:
        self.name = check_choice(f"{type(self).__name__}: name", name, ("train", "val", "test"))
        full_dir = os.path.join(os.path.expanduser(dir), name)
        if not os.path.isdir(full_dir):
            raise ValueError(
                f"{type(self).__name__}: the folder {full_dir} does not exist. Pass the directory that contains the folders "
                "train and val of ILSVRC12, from https://image-net.org."
            )
        meta = ILSVRCMeta(meta_dir)
        if name == "train":
            dir_structure = "train"
        elif dir_structure is None:
            dir_structure = meta.guess_dir_structure(full_dir)
        imglist = meta.get_image_list(name, dir_structure)
        super().__init__(full_dir, imglist, name == "train" if shuffle is None else shuffle)


class ILSVRC12(DecodedFiles, ILSVRC12Files):
    """
    The images of ILSVRC12: datapoints [uint8 (H, W, 3) in BGR order, int label 0 to 999].

    Length: the number of lines in the list of files; 1281167 for "train", 50000 for "val", 100000 for "test".
    Order: a new random order in each pass, or that of the list.
    Process: runs in the current process.

    Args:
        dir: the directory of the folders `train`, `val`, `test`; see `ILSVRC12Files`.
        name: "train", "val" or "test".
        meta_dir: the directory of the metadata; see `ILSVRCMeta`.
        shuffle: whether to use a new random order in each pass. Default: only for "train".
        dir_structure: "original" or "train", for "val" and "test". Default: guessed from the first entry of the folder.

    Raises:
        ValueError: as in `ILSVRC12Files`; (while iterating) an image is damaged.
        FileNotFoundError: (while iterating) an image does not exist.
        ImportError: OpenCV is not installed.

    Example:
        >>> ILSVRC12("/data/imagenet", "val")  # doctest: +SKIP

    Note:
        Decoding is slow. Use `ILSVRC12Files` and decode in a parallel map, or store the data in one file.

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

    @staticmethod
    def get_training_bbox(bbox_dir: str, imglist: Sequence[tuple[str, int]]) -> list[np.ndarray | None]:
        """
        Read the bounding boxes of training images.

        Args:
            bbox_dir: the directory of the annotations, e.g. `n02134418/n02134418_198.xml`.
            imglist: the `imglist` of `ILSVRC12Files` for "train", or a part of it.

        Returns:
            For each image, float32 [4]: xmin, ymin, xmax, ymax of its first object, in pixels. None for images without
            an annotation, which are about half.

        Raises:
            ValueError: `bbox_dir` does not exist, or an annotation is damaged.
        """
        if not os.path.isdir(bbox_dir):
            raise ValueError(f"ILSVRC12.get_training_bbox: the directory {bbox_dir} does not exist.")
        return [_first_box(os.path.join(bbox_dir, f"{os.path.splitext(name)[0]}.xml")) for name, _ in imglist]


class TinyImageNet(DecodedFiles):
    """
    Tiny ImageNet: datapoints [uint8 (64, 64, 3) in BGR order, int label 0 to 199].

    The label is the position of the class in `wnids.txt`, counted from 0.

    Length: the number of files; 100000 for "train", 10000 for "val".
    Order: a new random order in each pass, or that of classes and file names ("train") or of the annotations ("val").
    Process: runs in the current process.

    Args:
        dir: the unpacked `tiny-imagenet-200.zip`, which contains `wnids.txt`, `train` and `val`.
        name: "train" or "val".
        shuffle: whether to use a new random order in each pass. Default: only for "train".

    Raises:
        ValueError: unknown name; there are not 200 classes; a file or folder is missing; an annotation has an unknown
            class; (while iterating) an image is damaged.
        ImportError: OpenCV is not installed.

    Attributes:
        full_dir: the folder of the split.
        imglist: (path relative to `full_dir`, label) of each image.

    Note:
        This class does not download the archive, because it has no checksum. It is at
        http://cs231n.stanford.edu/tiny-imagenet-200.zip.

    Source: the course CS231n of Stanford.
    """

    def __init__(self, dir: str, name: str, shuffle: bool | None = None) -> None:
        self.name = check_choice("TinyImageNet: name", name, ("train", "val"))
        require_optional("cv2", type(self).__name__)
        dir = os.path.expanduser(dir)
        labels = _tiny_classes(dir)
        full_dir = os.path.join(dir, name)
        imglist = _tiny_train(full_dir, labels) if name == "train" else _tiny_val(full_dir, labels)
        super().__init__(full_dir, imglist, name == "train" if shuffle is None else shuffle)


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
            f"TinyImageNet: {path} does not exist. Pass the directory of the unpacked archive "
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip."
        )
    return path


def _tiny_classes(dir: str) -> dict[str, int]:
    path = _tiny_file(dir, "wnids.txt")
    with open(path, encoding="utf-8") as file, parsing(path, "a list of classes"):
        names = file.read().split()
    if len(set(names)) != _TINY_CLASSES:
        raise DamagedFileError(
            f"TinyImageNet: {path} is invalid (expected {_TINY_CLASSES} classes, got {len(set(names))})."
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
                    f"{path}:{number} is invalid (expected a file name and a class of wnids.txt, got {line.strip()!r})."
                )
            found.append((os.path.join("images", columns[0]), labels[columns[1].strip()]))
    return found

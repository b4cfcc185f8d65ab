"""Photographs of places: Places365-Standard, as JPEGs below one folder per kind of place."""

from __future__ import annotations

import os

from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import require_optional
from ..base import Datapoint
from .indexed import LabelledFiles, require_split
from .readers import read_image

__all__ = ["Places365Standard"]


class Places365Standard(LabelledFiles):
    """
    Places365-Standard: datapoints [uint8 (256, 256, 3) in blue, green, red, int label].

    `dir` has `train.txt` and `val.txt`, lists of images with one path a line, `/x/label/image.jpg`, relative to `dir`: the
    directory between the first one and the file name is the kind of place. Labels are numbered in alphabetical
    order of all kinds in the lists that are there.

    Length: 1803460 ("train"), 36500 ("val"); in general the number of lines of the list.
    Order: a new random one each pass, or that of the list.
    Process: stays in this one.

    Args:
        dir: the unpacked archive `places365standard_easyformat.tar` (256 x 256 pixels).
        name: "train" or "val".
        shuffle: in a new random order each pass; needs `reset_state`. Default: for "train" only.

    Raises:
        ValueError: another name; a list that is absent or has other lines; images that are not there. When iterated: an
            image that is damaged.
        ImportError: OpenCV is not installed.

    Attributes:
        full_dir: `dir`.
        imglist: (path below `dir`, label) of each image.

    Note:
        Download it from http://places2.csail.mit.edu/download.html; it is 24 GB, so this class does not.

    Source: Zhou, Lapedriza, Khosla, Oliva, Torralba 2017, "Places: a 10 million image database for scene recognition".
    tensorpack: same.
    """

    def __init__(self, dir: str, name: str, shuffle: bool | None = None) -> None:
        require_split(self, name, ("train", "val"), argument="name")
        require_optional("cv2", type(self).__name__)
        self.name = name
        dir = os.path.expanduser(dir)
        lists = {
            split: _read_list(os.path.join(dir, f"{split}.txt"))
            for split in ("train", "val")
            if split == name or os.path.isfile(os.path.join(dir, f"{split}.txt"))
        }
        self._names = sorted({kind for entries in lists.values() for _, kind in entries})
        numbers = {kind: number for number, kind in enumerate(self._names)}
        imglist = [(file, numbers[kind]) for file, kind in lists[name]]
        super().__init__(dir, imglist, name == "train" if shuffle is None else shuffle)

    def get_label_names(self) -> list[str]:
        """
        Name the kinds of places.

        Returns:
            Names in the order of the labels, e.g. "airfield".
        """
        return list(self._names)

    def _datapoint(self, index: int) -> Datapoint:
        path, label = super()._datapoint(index)
        return [read_image(path), label]


def _read_list(path: str) -> list[tuple[str, str]]:
    """Read (path of the image, kind of place) from each line."""
    if not os.path.isfile(path):
        raise ValueError(
            f"Places365Standard: there is no {path}, the list of images. It is in places365standard_easyformat.tar, from "
            "http://places2.csail.mit.edu/download.html; pass the directory that it is unpacked to."
        )
    entries = []
    with open(path, encoding="utf-8") as file, parsing(path, "a list of images"):
        for number, line in enumerate(file, start=1):
            image = line.strip().lstrip("/")
            parts = image.split("/")
            if len(parts) < 3 or ".." in parts or " " in image:
                raise DamagedFileError(
                    f"{path}:{number} is {line.strip()!r}, wanted a line like /x/label/image.jpg."
                )
            entries.append((image, "/".join(parts[1:-1])))
    return entries

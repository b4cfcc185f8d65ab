"""Places365-Standard: photographs of places, stored as JPEG files in one folder per class."""

from __future__ import annotations

import os

from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError, parsing
from ...utils.optional import require_optional
from .indexed import DecodedFiles


class Places365Standard(DecodedFiles):
    """
    Places365-Standard: datapoints [uint8 (256, 256, 3) in BGR order, int label].

    `dir` contains the lists `train.txt` and `val.txt`. Each line is the path of an image relative to `dir`, for example
    `/x/label/image.jpg`; the part between the first directory and the file name is the class. Labels are numbered in
    alphabetical order of all classes in the existing lists.

    Length: the number of lines in the list; 1803460 for "train", 36500 for "val".
    Order: a new random order in each pass, or that of the list.
    Process: runs in the current process.

    Args:
        dir: the unpacked archive `places365standard_easyformat.tar` (256 x 256 pixels).
        name: "train" or "val".
        shuffle: whether to use a new random order in each pass. Default: only for "train".

    Raises:
        ValueError: unknown name; a list is missing or invalid; images are missing; (while iterating) an image is
            damaged.
        ImportError: OpenCV is not installed.

    Attributes:
        full_dir: `dir`.
        imglist: (path relative to `dir`, label) of each image.

    Note:
        This class does not download the 24 GB of images. They are at http://places2.csail.mit.edu/download.html.

    Source: Zhou, Lapedriza, Khosla, Oliva, Torralba 2017, "Places: a 10 million image database for scene recognition".
    """

    def __init__(self, dir: str, name: str, shuffle: bool | None = None) -> None:
        self.name = check_choice("Places365Standard: name", name, ("train", "val"))
        require_optional("cv2", type(self).__name__)
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
        Return the names of the classes.

        Returns:
            The names in the order of the labels, e.g. "airfield".
        """
        return list(self._names)


def _read_list(path: str) -> list[tuple[str, str]]:
    """Read (path of the image, class) from each line."""
    if not os.path.isfile(path):
        raise ValueError(
            f"Places365Standard: {path}, the list of images, does not exist. Pass the directory of the unpacked "
            "places365standard_easyformat.tar, from http://places2.csail.mit.edu/download.html."
        )
    entries = []
    with open(path, encoding="utf-8") as file, parsing(path, "a list of images"):
        for number, line in enumerate(file, start=1):
            image = line.strip().lstrip("/")
            parts = image.split("/")
            if len(parts) < 3 or ".." in parts or " " in image:
                raise DamagedFileError(
                    f"{path}:{number} is invalid (expected a line like /x/label/image.jpg, got {line.strip()!r})."
                )
            entries.append((image, "/".join(parts[1:-1])))
    return entries

"""Metadata of ImageNet's ILSVRC12: classes, lists of files, the mean image."""

from __future__ import annotations

import os

import numpy as np

from ...utils.argtools import shape2d
from ...utils.checks import check_choice
from ...utils.errors import DamagedFileError, parsing
from ...utils.fs import get_dataset_path
from ...utils.optional import load_optional
from .files import Origin, find_file, unpack_tar
from .readers import read_blob_proto

_ORIGIN = Origin(  # without a published checksum; each file is checked when it is read
    "caffe_ilsvrc12.tar.gz", ("http://dl.caffe.berkeleyvision.org/",)
)


class ILSVRCMeta:
    """
    The metadata of ILSVRC12, from the archive `caffe_ilsvrc12.tar.gz`.

    The methods unpack missing files from the archive, and download it if necessary. Existing files do not change.

    Args:
        dir: the directory of `synsets.txt`, `synset_words.txt`, `train.txt`, `val.txt`, `test.txt` and
            `imagenet_mean.binaryproto`. Default: `ilsvrc_metadata` in the directory of datasets.

    Raises:
        OSError: (by the methods) a file is missing and cannot be downloaded.
        ValueError: (by the methods) a file is damaged.

    Source: Russakovsky et al. 2015, "ImageNet large scale visual recognition challenge"; the archive is Caffe's.
    """

    def __init__(self, dir: str | None = None) -> None:
        self.dir = get_dataset_path("ilsvrc_metadata") if dir is None else os.path.expanduser(dir)

    def get_synset_words_1000(self) -> dict[int, str]:
        """
        Return the descriptions of the classes.

        Returns:
            A dict from label to description, e.g. "n01440764 tench, Tinca tinca".
        """
        return dict(enumerate(self._lines("synset_words.txt")))

    def get_synset_1000(self) -> dict[int, str]:
        """
        Return the WordNet IDs of the classes.

        Returns:
            A dict from label to ID, e.g. "n01440764".
        """
        return dict(enumerate(self._lines("synsets.txt")))

    def get_image_list(self, name: str, dir_structure: str = "original") -> list[tuple[str, int]]:
        """
        Return the list of images of a split.

        Args:
            name: "train", "val" or "test". The labels of "test" are not public; all are 0.
            dir_structure: for "val" and "test": "original" has all images in one folder, "train" has one
                folder per class.

        Returns:
            (path, label) of each image. The path is relative to the folder of the split.

        Raises:
            ValueError: unknown name or structure; a line is not a path with a label.
        """
        check_choice("ILSVRCMeta: name", name, ("train", "val", "test"))
        check_choice("ILSVRCMeta: dir_structure", dir_structure, ("original", "train"))
        images = [self._image(line, f"{name}.txt") for line in self._lines(f"{name}.txt")]
        if name == "train" or dir_structure == "original":
            return images
        classes = self.get_synset_1000()
        beyond = [label for _, label in images if label not in classes]
        if beyond:
            raise DamagedFileError(
                f"{os.path.join(self.dir, name)}.txt has the label {beyond[0]}, but synsets.txt has {len(classes)} classes."
            )
        return [(os.path.join(classes[label], path), label) for path, label in images]

    def get_per_pixel_mean(self, size: int | tuple[int, int] | None = None) -> np.ndarray:
        """
        Return the mean of all training images.

        Args:
            size: (height, width) to which OpenCV resizes it. Default: as in the file, 256 x 256.

        Returns:
            float32 [256, 256, 3] or [*size, 3] in BGR order, 0 to 255.
        """
        path = self._file("imagenet_mean.binaryproto")
        blob = read_blob_proto(path)
        if blob.ndim != 3 or blob.shape[0] != 3:
            raise DamagedFileError(f"{path} has the wrong shape (expected [3, height, width], got {list(blob.shape)}).")
        mean = np.ascontiguousarray(blob.transpose(1, 2, 0))
        if size is None:
            return mean
        height, width = shape2d(size)
        return load_optional("cv2", "ILSVRCMeta").resize(mean, (width, height))

    @staticmethod
    def guess_dir_structure(dir: str) -> str:
        """
        Return the structure of the folder of a split, judged by its first entry.

        Args:
            dir: the folder.

        Returns:
            "train" if there is one folder per class (n01440764, ...), otherwise "original".

        Raises:
            ValueError: the folder does not exist or is empty.
        """
        entries = sorted(os.listdir(dir)) if os.path.isdir(dir) else []
        if not entries:
            raise ValueError(
                f"ILSVRCMeta: {dir} does not exist or is empty (expected images, or one folder of images per class)."
            )
        first = entries[0]
        return "train" if first.startswith("n") and os.path.isdir(os.path.join(dir, first)) else "original"

    def _file(self, name: str) -> str:
        path = os.path.join(self.dir, name)
        if not os.path.isfile(path):
            archive = find_file(self, _ORIGIN, self.dir)
            unpack_tar(archive, self.dir)
            if not os.path.isfile(path):
                raise DamagedFileError(
                    f"{archive} does not contain {name}. Delete it, and it will be downloaded again."
                )
        return path

    def _lines(self, name: str) -> list[str]:
        path = self._file(name)
        with open(path, encoding="utf-8") as file, parsing(path, "a list"):
            return [line.strip() for line in file if line.strip()]

    def _image(self, line: str, list_name: str) -> tuple[str, int]:
        path, _, label = line.rpartition(" ")
        if not path or not label.isdigit():
            raise DamagedFileError(
                f"{os.path.join(self.dir, list_name)}: a line is invalid (expected a path and a label, got {line!r})."
            )
        return path, int(label)

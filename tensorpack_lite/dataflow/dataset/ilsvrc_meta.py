"""What is known of ImageNet's ILSVRC12 without its images: classes, lists of files, the mean image."""

from __future__ import annotations

import os

import numpy as np

from ...utils.argtools import shape2d
from ...utils.errors import DamagedFileError, parsing
from ...utils.fs import get_dataset_path
from ...utils.optional import load_optional
from .blob_proto import read_blob_proto
from .files import Origin, find_file, unpack_tar
from .indexed import require_split

__all__ = ["ILSVRCMeta"]

_ORIGIN = Origin(  # Caffe gives no checksum; each file of it is checked when it is read
    "caffe_ilsvrc12.tar.gz", ("http://dl.caffe.berkeleyvision.org/",)
)


class ILSVRCMeta:
    """
    The metadata of ILSVRC12, from the archive `caffe_ilsvrc12.tar.gz`.

    A file that is asked for and absent is taken from the archive, which is downloaded if need be. Files that are there stay
    as they are.

    Args:
        dir: the directory of `synsets.txt`, `synset_words.txt`, `train.txt`, `val.txt`, `test.txt` and
            `imagenet_mean.binaryproto`. Default: `ilsvrc_metadata` in the directory of data sets.

    Raises:
        OSError: (by the methods) a file is absent and cannot be downloaded.
        ValueError: (by the methods) a file is damaged.

    Source: Russakovsky et al. 2015, "ImageNet large scale visual recognition challenge"; the archive is Caffe's.
    tensorpack: same; there the constructor downloads, and the mean needs Caffe or a compiler of protocol buffers.
    """

    def __init__(self, dir: str | None = None) -> None:
        self.dir = get_dataset_path("ilsvrc_metadata") if dir is None else os.path.expanduser(dir)

    def get_synset_words_1000(self) -> dict[int, str]:
        """
        Describe the classes.

        Returns:
            From label to a line such as "n01440764 tench, Tinca tinca".
        """
        return dict(enumerate(self._lines("synset_words.txt")))

    def get_synset_1000(self) -> dict[int, str]:
        """
        Name the classes as WordNet does.

        Returns:
            From label to a name such as "n01440764".
        """
        return dict(enumerate(self._lines("synsets.txt")))

    def get_image_list(self, name: str, dir_structure: str = "original") -> list[tuple[str, int]]:
        """
        List the images of a part.

        Args:
            name: "train", "val" or "test". (The labels of "test" are not public; all are 0.)
            dir_structure: of "val" and "test": "original" has all images in one folder, "train" one folder per class.

        Returns:
            (path, label) of each image; the path is relative to the folder of the part.

        Raises:
            ValueError: other names, or a line that is no path with a label.
        """
        require_split(self, name, ("train", "val", "test"), argument="name")
        require_split(self, dir_structure, ("original", "train"), argument="dir_structure")
        images = [self._image(line, f"{name}.txt") for line in self._lines(f"{name}.txt")]
        if name == "train" or dir_structure == "original":
            return images
        classes = self.get_synset_1000()
        beyond = [label for _, label in images if label not in classes]
        if beyond:
            raise DamagedFileError(
                f"{os.path.join(self.dir, name)}.txt has label {beyond[0]}, but synsets.txt {len(classes)} classes."
            )
        return [(os.path.join(classes[label], path), label) for path, label in images]

    def get_per_pixel_mean(self, size: int | tuple[int, int] | None = None) -> np.ndarray:
        """
        Read the mean of all training images.

        Args:
            size: (height, width) to enlarge or reduce it to; needs OpenCV. Default: as in the file, 256 x 256.

        Returns:
            float32 [256, 256, 3] or [*size, 3] in blue, green, red, from 0 to 255.
        """
        path = self._file("imagenet_mean.binaryproto")
        blob = read_blob_proto(path)
        if blob.ndim != 3 or blob.shape[0] != 3:
            raise DamagedFileError(f"{path}: the mean must be [3, height, width], got {list(blob.shape)}.")
        mean = np.ascontiguousarray(blob.transpose(1, 2, 0))
        if size is None:
            return mean
        height, width = shape2d(size)
        return load_optional("cv2", "ILSVRCMeta").resize(mean, (width, height))

    @staticmethod
    def guess_dir_structure(dir: str) -> str:
        """
        Tell how the images of a part are stored, by the first entry of its folder.

        Args:
            dir: the folder, e.g. of "val".

        Returns:
            "train" if it has a folder for each class (n01440764, ...), otherwise "original".

        Raises:
            ValueError: it does not exist, or is empty.
        """
        entries = sorted(os.listdir(dir)) if os.path.isdir(dir) else []
        if not entries:
            raise ValueError(
                f"ILSVRCMeta: {dir} does not exist or is empty. It must have the images, or one folder of images per class."
            )
        first = entries[0]
        return "train" if first.startswith("n") and os.path.isdir(os.path.join(dir, first)) else "original"

    def _file(self, name: str) -> str:
        path = os.path.join(self.dir, name)
        if not os.path.isfile(path):
            archive = find_file(self, _ORIGIN, self.dir)
            unpack_tar(archive, self.dir)
            if not os.path.isfile(path):
                raise DamagedFileError(f"{archive} has no {name}. Delete it; it is downloaded again.")
        return path

    def _lines(self, name: str) -> list[str]:
        path = self._file(name)
        with open(path, encoding="utf-8") as file, parsing(path, "a list"):
            return [line.strip() for line in file if line.strip()]

    def _image(self, line: str, list_name: str) -> tuple[str, int]:
        path, _, label = line.rpartition(" ")
        if not path or not label.isdigit():
            raise DamagedFileError(
                f"{os.path.join(self.dir, list_name)}: a line is {line!r}, wanted a path and a label."
            )
        return path, int(label)

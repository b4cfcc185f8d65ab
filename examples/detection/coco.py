"""
Data sets in COCO's format: their annotations and images.

Source: Lin et al. 2014, "Microsoft COCO: common objects in context"; https://cocodataset.org/#format-data
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from config import Config
from pycocotools.coco import COCO


class Split(NamedTuple):
    """The annotations of a data set, and a part of its images."""

    coco: COCO
    images: list  # COCO's dictionaries, with the path of the file as "path"


def load_splits(data: str) -> tuple:
    """
    Return the splits for training and testing.

    Args:
        data: a folder with train.json and test.json or val.json; a folder with annotations/instances_*.json, like COCO; or a
            JSON file, of which every tenth image is held out.
    """
    path = Path(data)
    if path.is_file():
        split = load_split(path)
        return split._replace(images=[x for i, x in enumerate(split.images) if i % 10]), split._replace(
            images=split.images[::10]
        )
    return load_split(find_json(path, ["train"])), load_split(find_json(path, ["test", "val"]))


def find_json(folder: Path, names: list) -> Path:
    """Return the annotations of the first split of these names that exists."""
    for name in names:
        for pattern in (f"{name}.json", f"annotations/instances_{name}*.json"):
            for path in sorted(folder.glob(pattern)):
                return path
    raise FileNotFoundError(f"find_json: {folder} has no annotations (expected {' or '.join(names)}.json).")


def load_split(path: Path) -> Split:
    """Read annotations. The images are next to them, or in a folder with the name of the split."""
    coco = COCO(str(path))
    images = [coco.imgs[i] for i in sorted(coco.imgs)]
    split = path.stem.replace("instances_", "")
    folders = [path.parent / split, path.parent, path.parent.parent / split, path.parent.parent]
    for folder in folders:
        if images and (folder / images[0]["file_name"]).exists():
            return Split(coco, [dict(image, path=str(folder / image["file_name"])) for image in images])
    raise FileNotFoundError(
        f"load_split: {path} has no images (expected {images[0]['file_name'] if images else 'an entry'} in one of "
        f"{', '.join(map(str, folders))})."
    )


def with_classes(config: Config, coco: COCO) -> Config:
    """Add the categories of a data set to the settings."""
    ids = sorted(coco.cats)
    return config._replace(category_ids=tuple(ids), classes=tuple(coco.cats[i]["name"] for i in ids))


def read_image(path: str) -> np.ndarray:
    """Return an image as uint8 [H, W, 3], RGB."""
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise OSError(f"read_image: OpenCV cannot read {path}. Check that it exists and is an image.")
    return image[:, :, ::-1]

"""
Data sets in COCO's format: their annotations and images.

Source: Lin et al. 2014, "Microsoft COCO: common objects in context"; https://cocodataset.org/#format-data
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from config import Config
from pycocotools.coco import COCO

REQUIRED = {
    "images": ("id", "file_name", "height", "width"),
    "annotations": ("id", "image_id", "category_id", "bbox"),
    "categories": ("id", "name"),
}


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
        train = [image for i, image in enumerate(split.images) if i % 10 != 0]
        return split._replace(images=train), split._replace(images=split.images[::10])
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
    coco: Any = COCO()
    coco.dataset = read_annotations(path)
    coco.createIndex()
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


def read_annotations(path: Path) -> dict:
    """Return the content of a file in COCO's format. The error for a wrong one names the image or the annotation."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"read_annotations: {path} is not a JSON file: {error}.") from error
    for kind, keys in REQUIRED.items():
        rows = content.get(kind) if isinstance(content, dict) else None
        if not isinstance(rows, list):
            raise ValueError(f"read_annotations: {path} has no list '{kind}' (expected COCO's format).")
        seen = set()
        for number, row in enumerate(rows):
            missing = [key for key in keys if not isinstance(row, dict) or key not in row]
            name = f"entry {number} of '{kind}', {json.dumps(row)[:200]},"
            if missing:
                raise ValueError(f"read_annotations: {path}: {name} has no {' and no '.join(missing)}.")
            if row["id"] in seen:
                raise ValueError(f"read_annotations: {path}: {name} has the id of an earlier one.")
            seen.add(row["id"])
    images = {image["id"]: image for image in content["images"]}
    categories = {category["id"] for category in content["categories"]}
    for row in content["annotations"]:
        problem = find_problem(row, images, categories)
        if problem:
            file = images.get(row["image_id"], {}).get("file_name", "unknown")
            raise ValueError(f"read_annotations: {path}: annotation {row['id']} of image '{file}': {problem}.")
    return content


def find_problem(row: dict, images: dict, categories: set) -> str:
    """Return what is wrong with an annotation; an empty text if nothing is."""
    if row["image_id"] not in images:
        return f"its image_id {row['image_id']!r} is not among the images"
    if row["category_id"] not in categories:
        return f"its category_id {row['category_id']!r} is not among the categories {sorted(categories)}"
    box, image = row["bbox"], images[row["image_id"]]
    is_number = [isinstance(x, (int, float)) and math.isfinite(x) for x in box] if isinstance(box, list) else []
    if is_number != [True] * 4:
        return f"its bbox is {box!r} (expected [x, y, width, height] in pixels)"
    x, y, width, height = box
    if x >= image["width"] or y >= image["height"] or x + width < 0 or y + height < 0:
        return f"its bbox {box} is outside of the image, of {image['width']} x {image['height']} pixels"
    return ""


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


def read_annotated(image: dict) -> np.ndarray:
    """Return an image of a split, after a check that it has the size that its annotations are for."""
    pixels = read_image(image["path"])
    height, width = pixels.shape[:2]
    if (height, width) != (image["height"], image["width"]):
        is_turned = (width, height) == (image["height"], image["width"])
        cause = " Its EXIF data turns it, so turn the pixels: mogrify -auto-orient." if is_turned else ""
        raise ValueError(
            f"read_annotated: {image['path']} has {width} x {height} pixels, but its annotations are for "
            f"{image['width']} x {image['height']}.{cause} Correct the annotations or the image."
        )
    return pixels

"""
Data sets in COCO's format: annotations, augmentation of images with their boxes and masks, and batches.

    records -> MultiProcessMapData(Augment) -> [image, boxes, labels, masks] -> batches, padded to equal sizes

Source: Lin et al. 2014, "Microsoft COCO: common objects in context"; https://cocodataset.org/#format-data
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from config import MINI_MASK, Config
from pycocotools.coco import COCO

from tensorpack_lite import *

PADDING = (124, 116, 104)  # the mean color, which the network turns into zeros
MIN_SIZE = 2  # pixels; smaller boxes are left out


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


class ResizeToFit(imgaug.ImageAugmentor):
    """Resize so that the shorter edge has a random length, but the longer one at most `max_edge`. Keeps the aspect ratio."""

    def __init__(self, low: int, high: int, max_edge: int) -> None:
        super().__init__()
        self.low, self.high, self.max_edge = low, high, max_edge

    def get_transform(self, img):
        height, width = img.shape[:2]
        scale = self.rng.randint(self.low, self.high + 1) / min(height, width)
        scale = min(scale, self.max_edge / max(height, width))
        size = [max(int(scale * length + 0.5), 1) for length in (height, width)]
        return imgaug.ResizeTransform(height, width, *size, interp=cv2.INTER_LINEAR)


def resizer(config: Config, is_training: bool) -> ResizeToFit:
    """Return the augmentor that resizes images: to a random size in training, otherwise to the largest one."""
    low, high = config.short_edge
    return ResizeToFit(low if is_training else high, high, config.max_edge)


class Augment:
    """
    Function that reads and augments [an image of a split]; returns [image, boxes, labels] and, with masks, their masks.

    The image is uint8 [H, W, 3], boxes float32 [M, 4], labels int32 [M], -1 for crowds, and masks uint8 [M, 56, 56]. A mask
    covers only the box of its object and is resized, so that it needs little memory.
    """

    def __init__(self, split: Split, config: Config) -> None:
        self.coco, self.config = split.coco, config
        self.label = {category: i for i, category in enumerate(config.category_ids, start=1)}
        geometric = [resizer(config, is_training=True)] + ([imgaug.Flip(horiz=True)] if config.flip else [])
        self.geometric = imgaug.AugmentorList(geometric)
        self.photometric = imgaug.AugmentorList([imgaug.Brightness(30), imgaug.Contrast((0.7, 1.3))])

    def __call__(self, datapoint: list) -> list:
        image = datapoint[0]
        rows = [row for row in self.coco.imgToAnns[image["id"]] if min(row["bbox"][2:]) > 0]
        pixels = read_image(image["path"])
        transform = self.geometric.get_transform(pixels)
        pixels = transform.apply_image(pixels)
        boxes = np.array([row["bbox"] for row in rows], "float32").reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]  # (x, y, width, height) -> (x1, y1, x2, y2)
        boxes = transform_boxes(boxes, transform, pixels.shape)
        kept = np.flatnonzero((boxes[:, 2:] - boxes[:, :2]).min(axis=1) >= MIN_SIZE)
        rows = [rows[i] for i in kept]
        labels = [-1 if row.get("iscrowd") else self.label[row["category_id"]] for row in rows]
        results = [self.photometric.augment(pixels), boxes[kept], np.array(labels, "int32")]
        if self.config.masks:
            masks = [transform.apply_image(self.coco.annToMask(row) * 255) for row in rows]
            masks = [crop_mask(mask, box) for mask, box in zip(masks, boxes[kept])]
            results.append(np.array(masks, "uint8").reshape(-1, MINI_MASK, MINI_MASK))
        return results


def transform_boxes(boxes: np.ndarray, transform, shape: tuple) -> np.ndarray:
    """Apply a transform to boxes [M, 4]: return the boxes around their corners, clipped to an image of this shape."""
    x1, y1, x2, y2 = boxes.T
    corners = np.stack([x1, y1, x2, y1, x1, y2, x2, y2], axis=1).reshape(-1, 2)
    corners = transform.apply_coords(corners).reshape(-1, 4, 2)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return np.clip(boxes, 0, np.array(shape)[[1, 0, 1, 0]]).astype("float32")


def crop_mask(mask: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return the part of a mask [H, W] in [0, 255] inside of a box, resized to [56, 56], with values 0 and 1."""
    x1, y1, x2, y2 = box
    step_x, step_y = (x2 - x1) / MINI_MASK, (y2 - y1) / MINI_MASK
    # maps the center of each pixel of the result to its place in the image; pixel centers of OpenCV are integers
    matrix = np.array([[step_x, 0, x1 + step_x / 2 - 0.5], [0, step_y, y1 + step_y / 2 - 0.5]], "float32")
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    mask = cv2.warpAffine(mask, matrix, (MINI_MASK, MINI_MASK), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return (mask > 127).astype("uint8")


def pad_batch(columns: list) -> list:
    """
    Convert lists of components to arrays, padded to the largest image and the largest number of objects.

    Padding has the label 0. There is at least one row of it if no image has an object.
    """
    images, rest = columns[0], columns[1:]
    height, width = np.max([image.shape[:2] for image in images], axis=0)
    batch = np.empty([len(images), height, width, 3], "uint8")
    batch[:] = PADDING
    for target, image in zip(batch, images):
        target[: image.shape[0], : image.shape[1]] = image
    most = max(1, max(len(labels) for labels in columns[2]))
    return [batch] + [np.stack([pad_rows(x, most) for x in column]) for column in rest]


def pad_rows(array: np.ndarray, count: int) -> np.ndarray:
    """Append zeros, so that the first axis has the length `count`."""
    return np.concatenate([array, np.zeros([count - len(array), *array.shape[1:]], array.dtype)])


def get_train_data(split: Split, config: Config, batch: int, workers: int, rank: int = 0, size: int = 1):
    """Return endless batches of `batch` augmented images. Each of `size` ranks gets other images."""
    images = [image for image in split.images if split.coco.imgToAnns[image["id"]]]
    ds = DataFromList([[image] for image in images], shuffle=True)
    if size > 1:
        ds = ShardData(RepeatedData(ds, -1), rank, size)
    ds = MultiProcessMapData(ds, workers, Augment(split, config), buffer_size=8 * batch)
    return MapData(BatchData(ds, batch, use_list=True), pad_batch)

"""
Scenes in COCO's format, without a download: colored handwritten digits over photographs, with boxes and masks.

Each scene shows 1 to 6 digits of scikit-learn; some overlap. Test scenes have other digits and photographs. The JSON
contains the visible part of each digit, its class plus 1, and `order` (not in COCO), its position in reading order.

    python examples/data/scenes.py                       1,000 + 200 scenes: train_log/scenes/{train,test}{/*.jpg,.json}
    python examples/data/scenes.py --num-train 50 --folder F --preview        also F/preview.png, with boxes and masks

Source: T.-Y. Lin et al. 2014, "Microsoft COCO: common objects in context"; https://cocodataset.org/#format-data
"""

import argparse
import contextlib
import json
import tempfile
from pathlib import Path

import cv2
import numpy as np
import skimage.data
from pycocotools import coco, mask

from tensorpack_lite.dataflow import dataset
from tensorpack_lite.utils.viz import draw_boxes, stack_patches

TRAIN_PHOTOS = ["brick", "grass", "astronaut", "camera", "coffee", "coins", "hubble_deep_field", "rocket"]
TEST_PHOTOS = ["gravel", "chelsea", "immunohistochemistry"]
MAX_OVERLAP = 0.4  # of two boxes, as a part of the smaller one
MIN_VISIBLE = 0.6  # of the area of each digit


def cut_background(rng: np.random.RandomState, photo: np.ndarray, size: int) -> np.ndarray:
    """Return a random square of a photograph as float32 [size, size, 3], with another tint and brightness."""
    side = rng.randint(size // 2, min(photo.shape[0], photo.shape[1], 3 * size))
    y, x = (rng.randint(length - side + 1) for length in photo.shape[:2])
    square = cv2.resize(photo[y : y + side, x : x + side], (size, size), interpolation=cv2.INTER_AREA)
    color = square.reshape(size, size, -1) * rng.uniform(0.6, 1.2, 3) + rng.uniform(-30, 30)
    return np.clip(color, 0, 255).astype(np.float32)


def draw_digit(rng: np.random.RandomState, digit: np.ndarray, height: float) -> np.ndarray:
    """Enlarge a digit [8, 8] to this height and rotate it; return the opacity, [h, w] in [0, 1], inside its box."""
    scale, side = height / 8, int(1.5 * height)
    matrix = cv2.getRotationMatrix2D((3.5, 3.5), rng.uniform(-35, 35), scale)
    matrix[:, 2] += (side - 1) / 2 - 3.5
    ink = cv2.warpAffine(digit, matrix, (side, side), flags=cv2.INTER_CUBIC)
    opacity = np.clip((ink - 0.45) * scale + 0.5, 0, 1)  # the edge is about one pixel wide
    x, y, w, h = cv2.boundingRect(np.uint8(opacity > 0.5))
    return opacity[y : y + h, x : x + w]


class Scene:
    """
    A background, to which digits are added one after the other, each in front of those before.

    Args:
        background: float32 [size, size, 3], which changes.
    """

    def __init__(self, background: np.ndarray) -> None:
        self.image = background
        self.owner = np.zeros(background.shape[:2], int)  # the number of the digit that is seen at a pixel; 0: none
        self.boxes: list = []  # (x, y, w, h)
        self.areas: list = []  # visible pixels of each digit when it was added
        self.classes: list = []

    def cover(self, box: list, opacity: np.ndarray) -> np.ndarray:
        """Return `owner` as it would be with another digit."""
        x, y, w, h = box
        owner = self.owner.copy()
        owner[y : y + h, x : x + w][opacity > 0.5] = len(self.classes) + 1
        return owner

    def has_room(self, box: list, opacity: np.ndarray) -> bool:
        """Return whether another digit leaves the others visible enough, and overlaps none of their boxes too much."""
        visible = np.bincount(self.cover(box, opacity).ravel(), minlength=len(self.classes) + 1)[1:]
        if (visible[: len(self.areas)] < MIN_VISIBLE * np.array(self.areas)).any():
            return False
        for other in self.boxes:
            # with 1, COCO's iou is the part of the first box that is inside the second one
            if mask.iou([box], [other], [1]) > MAX_OVERLAP or mask.iou([other], [box], [1]) > MAX_OVERLAP:
                return False
        return True

    def add(self, rng: np.random.RandomState, box: list, opacity: np.ndarray, digit: int) -> None:
        """Draw a digit in the one of four random colors that differs most from the image."""
        x, y, w, h = box
        place = self.image[y : y + h, x : x + w]  # a view
        mean = place.mean(axis=(0, 1))
        color = max(rng.uniform(0, 255, [4, 3]), key=lambda color: np.abs(color - mean).sum())
        place += opacity[:, :, None] * (color - place)
        self.owner = self.cover(box, opacity)
        self.boxes.append(box)
        self.classes.append(digit)
        self.areas.append(np.count_nonzero(self.owner == len(self.classes)))


def make_scene(rng: np.random.RandomState, digits: dataset.Digits, photos: list, size: int) -> tuple:
    """Return a scene: image uint8 [size, size, 3], visible masks bool [N, size, size], classes [N]."""
    photo = photos[rng.randint(len(photos))]
    scene = Scene(cut_background(rng, photo, size))
    count = rng.randint(1, 7)
    for index in rng.randint(len(digits), size=5 * count):  # some do not fit
        height = size * np.exp(rng.uniform(np.log(0.16), np.log(0.47)))  # 20 to 60 of 128 pixels
        opacity = draw_digit(rng, digits.images[index, :, :, 0], height)
        h, w = opacity.shape
        y = rng.randint(size - h + 1)
        x = rng.randint(size - w + 1)
        box = [x, y, w, h]
        if len(scene.classes) < count and scene.has_room(box, opacity):
            scene.add(rng, box, opacity, int(digits.labels[index]))
    numbers = np.arange(1, len(scene.classes) + 1)
    masks = scene.owner == numbers[:, None, None]
    return scene.image.round().astype(np.uint8), masks, scene.classes


def reading_order(boxes: list) -> list:
    """Order boxes (x, y, w, h). A row is all whose center is above the bottom of the topmost box that is left."""
    rest = sorted(range(len(boxes)), key=lambda i: boxes[i][1])
    order: list = []
    while rest:
        bottom = boxes[rest[0]][1] + boxes[rest[0]][3]
        row = [i for i in rest if boxes[i][1] + boxes[i][3] / 2 < bottom]
        order += sorted(row, key=lambda i: boxes[i][0])
        rest = [i for i in rest if i not in row]
    return order


def write_scenes(folder: str, split: str, info: dict) -> None:
    """Write the scenes that `info` describes to <folder>/<split>/ and their annotations to <folder>/<split>.json."""
    digits = dataset.Digits(split, size=8)
    size = info["size"]
    photos = [getattr(skimage.data, name)() for name in (TEST_PHOTOS if split == "test" else TRAIN_PHOTOS)]
    images: list = []
    annotations: list = []
    Path(folder, split).mkdir(parents=True)
    for number in range(1, info["num_" + split] + 1):
        rng = np.random.RandomState([info["seed"], split == "test", number])
        image, masks, classes = make_scene(rng, digits, photos, size)
        name = f"{number:06d}.jpg"
        images.append({"id": number, "file_name": name, "height": size, "width": size})
        _, jpeg = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
        Path(folder, split, name).write_bytes(jpeg.tobytes())
        for row in annotate(masks, classes):
            annotations.append({"id": len(annotations) + 1, "image_id": number, **row})
    categories = [{"id": digit + 1, "name": str(digit), "supercategory": "digit"} for digit in range(10)]
    content = {"info": info, "images": images, "annotations": annotations, "categories": categories}
    Path(folder, split + ".json").write_text(json.dumps(content), encoding="utf-8")


def annotate(masks: np.ndarray, classes: list) -> list:
    """Return COCO's annotations of the digits of a scene, in reading order, without `id` and `image_id`."""
    codes = mask.encode(np.asfortranarray(masks.transpose(1, 2, 0), np.uint8))
    boxes = mask.toBbox(codes).tolist()
    areas = mask.area(codes).tolist()
    rows = []
    for order, i in enumerate(reading_order(boxes)):
        code = {"size": list(masks.shape[1:]), "counts": codes[i]["counts"].decode()}
        row = {"category_id": classes[i] + 1, "order": order, "bbox": boxes[i], "area": areas[i]}
        rows.append({**row, "segmentation": code, "iscrowd": 0})
    return rows


def make_scenes(folder: str, num_train=1000, num_test=200, size=128, seed=1) -> str:
    """Write scenes to a folder, unless it contains the same ones; return the folder."""
    info = {"version": "1", "num_train": num_train, "num_test": num_test, "size": size, "seed": seed}
    path = Path(folder).absolute()
    if not path.is_dir() or not any(path.iterdir()):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:  # a crash leaves no incomplete folder
            for split in ("train", "test"):
                write_scenes(f"{temporary}/scenes", split, info)
            with contextlib.suppress(OSError):  # another process was faster
                Path(temporary, "scenes").rename(path)
    if [info] != [json.loads(file.read_text(encoding="utf-8"))["info"] for file in path.glob("test.json")]:
        raise FileExistsError(f"make_scenes: {folder} has other contents. Delete it, or choose another.")
    return folder


def preview(folder: str) -> np.ndarray:
    """Return twelve training scenes from the files, enlarged, with boxes and masks, uint8 BGR."""
    data = coco.COCO(f"{folder}/train.json")
    patches = []
    for number in sorted(data.imgs)[:12]:
        image = cv2.imread(f"{folder}/train/{number:06d}.jpg")
        rows = data.imgToAnns[number]
        image[sum(map(data.annToMask, rows)) > 0, 1] = 160
        boxes = 2 * np.array([(x, y, x + w, y + h) for x, y, w, h in (row["bbox"] for row in rows)])
        names = [str(row["category_id"] - 1) for row in rows]
        patches.append(draw_boxes(cv2.resize(image, None, fx=2, fy=2), boxes, names))
    return stack_patches(patches, 3, 4, border=4)


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    defaults = {"folder": "train_log/scenes", "num-train": 1000, "num-test": 200, "size": 128, "seed": 1}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--preview", action="store_true", help="also write preview.png")
    args = parser.parse_args(argv)
    print(make_scenes(args.folder, args.num_train, args.num_test, args.size, args.seed))
    if args.preview:
        cv2.imwrite(f"{args.folder}/preview.png", preview(args.folder))


if __name__ == "__main__":
    main()

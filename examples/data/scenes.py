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
MAX_OVERLAP, MIN_VISIBLE = 0.4, 0.6  # of two boxes, as a part of the smaller one; of the area of each digit


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


def make_scene(rng: np.random.RandomState, digits: dataset.Digits, photos: list, size: int) -> tuple:
    """Return a scene: image uint8 [size, size, 3], visible masks bool [N, size, size], classes [N]."""
    image = cut_background(rng, photos[rng.randint(len(photos))], size)
    count, owner, boxes, areas, classes = rng.randint(1, 7), np.zeros([size, size], int), [], [0], []
    for index in rng.randint(len(digits), size=5 * count):  # some do not fit
        height = size * np.exp(rng.uniform(np.log(0.16), np.log(0.47)))  # 20 to 60 of 128 pixels
        opacity = draw_digit(rng, digits.images[index, :, :, 0], height)
        h, w = opacity.shape
        y, x = rng.randint(size - h + 1), rng.randint(size - w + 1)
        box, covered, number = [x, y, w, h], owner.copy(), len(classes) + 1  # 0 is the background
        covered[y : y + h, x : x + w][opacity > 0.5] = number
        visible = np.bincount(covered.ravel(), minlength=number + 1)  # areas
        hides = (visible[:number] < MIN_VISIBLE * np.array(areas)).any()
        shares = [mask.iou([a], [b], [1]) for other in boxes for a, b in ((box, other), (other, box))]
        if number > count or hides or max(shares, default=0) > MAX_OVERLAP:  # [1]: as a part of box a
            continue
        place = image[y : y + h, x : x + w]  # a view; of four colors, the best contrast
        color = max(rng.uniform(0, 255, [4, 3]), key=lambda c: np.abs(c - place.mean(axis=(0, 1))).sum())
        place += opacity[:, :, None] * (color - place)
        owner, areas, boxes = covered, [*areas, visible[number]], [*boxes, box]
        classes.append(int(digits.labels[index]))
    return image.round().astype(np.uint8), owner == np.arange(1, len(classes) + 1)[:, None, None], classes


def reading_order(boxes: list) -> list:
    """Order boxes (x, y, w, h). A row is all whose center is above the bottom of the topmost box that is left."""
    rest, order = sorted(range(len(boxes)), key=lambda i: boxes[i][1]), []
    while rest:
        bottom = boxes[rest[0]][1] + boxes[rest[0]][3]
        row = [i for i in rest if boxes[i][1] + boxes[i][3] / 2 < bottom]
        order += sorted(row, key=lambda i: boxes[i][0])
        rest = [i for i in rest if i not in row]
    return order


def write_scenes(folder: str, split: str, info: dict) -> None:
    """Write the scenes that `info` describes to <folder>/<split>/ and their annotations to <folder>/<split>.json."""
    digits, size, images, rows = dataset.Digits(split, size=8), info["size"], [], []
    photos = [getattr(skimage.data, name)() for name in (TEST_PHOTOS if split == "test" else TRAIN_PHOTOS)]
    Path(folder, split).mkdir(parents=True)
    for number in range(1, info["num_" + split] + 1):
        rng = np.random.RandomState([info["seed"], split == "test", number])
        image, masks, classes = make_scene(rng, digits, photos, size)
        images.append({"id": number, "file_name": f"{number:06d}.jpg", "height": size, "width": size})
        _, jpeg = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
        Path(folder, split, images[-1]["file_name"]).write_bytes(jpeg.tobytes())
        codes = mask.encode(np.asfortranarray(masks.transpose(1, 2, 0), np.uint8))
        boxes, areas = mask.toBbox(codes).tolist(), mask.area(codes).tolist()
        for order, i in enumerate(reading_order(boxes)):
            row = {"id": len(rows) + 1, "image_id": number, "category_id": classes[i] + 1, "order": order}
            code = {"size": [size, size], "counts": codes[i]["counts"].decode()}
            rows.append(dict(row, bbox=boxes[i], area=areas[i], segmentation=code, iscrowd=0))
    categories = [{"id": digit + 1, "name": str(digit), "supercategory": "digit"} for digit in range(10)]
    content = {"info": info, "images": images, "annotations": rows, "categories": categories}
    Path(folder, split + ".json").write_text(json.dumps(content), encoding="utf-8")


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
    data, patches = coco.COCO(f"{folder}/train.json"), []
    for number in sorted(data.imgs)[:12]:
        image, rows = cv2.imread(f"{folder}/train/{number:06d}.jpg"), data.imgToAnns[number]
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

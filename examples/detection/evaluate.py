"""
Detection in one image, pictures of the detections, and COCO's average precision, alone or as a callback.

    python examples/detection/evaluate.py --log-dir train_log/detection       evaluate the last checkpoint
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from typing import NamedTuple, Optional

import cv2
import numpy as np
from coco import Split, load_splits, read_image, resizer
from config import Config
from model import Model
from pycocotools import mask as rle
from pycocotools.cocoeval import COCOeval

from tensorpack_lite import *
from tensorpack_lite.utils.palette import PALETTE_RGB
from tensorpack_lite.utils.viz import draw_boxes, stack_patches


class Detection(NamedTuple):
    """An object in an image."""

    box: np.ndarray  # (x1, y1, x2, y2) in pixels of the image
    score: float
    label: int
    mask: Optional[np.ndarray]  # bool [H, W], or None


def detect(predictor, image: np.ndarray, config: Config) -> list:
    """
    Return the objects in an image, those with the largest scores first.

    Args:
        predictor: maps images [1, H, W, 3] to the tensors `Model.output_names`.
        image: uint8 [H, W, 3], RGB, of any size.
    """
    height, width = image.shape[:2]
    resized = resizer(config, is_training=False).augment(image)
    boxes, scores, labels, *masks = (output[0] for output in predictor(resized[None]))
    boxes = boxes * np.tile([width / resized.shape[1], height / resized.shape[0]], 2)
    boxes = np.clip(boxes, 0, [width, height, width, height])
    found = []
    for i in np.flatnonzero(scores > 0):
        mask = paste_mask(masks[0][i], boxes[i], height, width) if masks else None
        found.append(Detection(boxes[i], float(scores[i]), int(labels[i]), mask))
    return found


def paste_mask(mask: np.ndarray, box: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a mask [28, 28] in [0, 1], which fills a box, as bool [height, width]."""
    x1, y1, x2, y2 = (float(x) for x in box)
    scale_x, scale_y = max(x2 - x1, 1e-2) / mask.shape[1], max(y2 - y1, 1e-2) / mask.shape[0]
    # pixel centers of OpenCV are integers; a border of zeros lets the mask end within its outermost pixels
    matrix = [[scale_x, 0, x1 - 0.5 * scale_x - 0.5], [0, scale_y, y1 - 0.5 * scale_y - 0.5]]
    padded = np.pad(mask, 1, mode="constant")
    return cv2.warpAffine(padded, np.array(matrix, "float32"), (width, height)) > 0.5


def draw(image: np.ndarray, detections: list, config: Config, min_score=0.5, scale=1) -> np.ndarray:
    """Return a picture of an RGB image with its detections: uint8, BGR, `scale` times as large."""
    picture = cv2.resize(image[:, :, ::-1], None, fx=scale, fy=scale)
    detections = [d for d in detections if d.score >= min_score and (d.box[2:] > d.box[:2] + 1).all()]
    for number, detection in enumerate(detections):
        color = PALETTE_RGB[number % len(PALETTE_RGB)][::-1]
        if detection.mask is not None:
            mask = cv2.resize(detection.mask.astype("uint8"), picture.shape[1::-1]) > 0
            picture[mask] = (0.5 * picture[mask] + 0.5 * color).astype("uint8")
        text = f"{config.classes[detection.label - 1]} {detection.score:.2f}"
        picture = draw_boxes(picture, detection.box[None] * scale, [text], color)
    return picture


def to_coco(image_id: int, detections: list, config: Config) -> list:
    """Convert the detections in an image to COCO's format of results."""
    rows = []
    for d in detections:
        x1, y1, x2, y2 = (float(x) for x in d.box)
        row = {"image_id": image_id, "category_id": config.category_ids[d.label - 1], "score": d.score}
        row["bbox"] = [x1, y1, x2 - x1, y2 - y1]
        if d.mask is not None:
            code = rle.encode(np.asfortranarray(d.mask, "uint8"))
            row["segmentation"] = {"size": code["size"], "counts": code["counts"].decode()}
        rows.append(row)
    return rows


def average_precision(split: Split, results: list, masks: bool) -> dict:
    """Return COCO's average precision of results: {"box_AP": ..., "box_AP50": ..., "box_AP75": ...}, and those of masks."""
    figures = {}
    for kind, name in [("bbox", "box"), ("segm", "mask")][: 2 if masks else 1]:
        figures.update({f"{name}_AP": 0.0, f"{name}_AP50": 0.0, f"{name}_AP75": 0.0})
        if not results:
            continue  # loadRes fails
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
            evaluation = COCOeval(split.coco, split.coco.loadRes([dict(row) for row in results]), kind)
            evaluation.params.imgIds = [image["id"] for image in split.images]
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        for position, suffix in enumerate(["AP", "AP50", "AP75"]):
            figures[f"{name}_{suffix}"] = float(evaluation.stats[position])
    return figures


def evaluate(predictor, split: Split, config: Config, log_dir: str) -> dict:
    """Detect objects in all images of a split; write results.json and predictions.png, and return the figures."""
    results: list = []
    pictures: list = []
    for image in split.images:
        pixels = read_image(image["path"])
        detections = detect(predictor, pixels, config)
        results += to_coco(image["id"], detections, config)
        if len(pictures) < 6:
            scale = max(1, round(256 / max(pixels.shape)))
            pictures.append(draw(pixels, detections, config, scale=scale))
    with open(os.path.join(log_dir, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file)
    sheet = stack_patches(pictures, 2, 3, border=4, pad=True)
    cv2.imwrite(os.path.join(log_dir, "predictions.png"), sheet)
    return average_precision(split, results, config.masks)


class EvaluateCOCO(Callback):
    """Callback that evaluates a split after every `period` epochs and after the last one."""

    def __init__(self, split: Split, model: Model, period: int = 1) -> None:
        self.split, self.model, self.period = split, model, period

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(["image"], self.model.output_names)

    def _trigger_epoch(self) -> None:
        if self.epoch_num % self.period == 0 or self.epoch_num == self.trainer.max_epoch:
            figures = evaluate(self.predictor, self.split, self.model.config, logger.get_logger_dir())
            for name, value in figures.items():
                self.trainer.monitors.put_scalar(name, value)


def load_predictor(log_dir: str, checkpoint: str = "") -> tuple:
    """Return a predictor with the last checkpoint of a training, or with another one, and its settings."""
    config = Config.load(log_dir)
    model = Model(config)
    checkpoint = checkpoint or os.path.join(log_dir, "checkpoint")
    predictor = OfflinePredictor(
        PredictConfig(
            model=model,
            session_init=SmartInit(checkpoint),
            input_names=["image"],
            output_names=model.output_names,
        )
    )
    return predictor, config


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", default=os.path.join("train_log", "scenes"), help="as in train.py")
    parser.add_argument("--log-dir", default=os.path.join("train_log", "detection"), help="that of train.py")
    parser.add_argument("--load", default="", help="another checkpoint than the last one")
    args = parser.parse_args(argv)
    predictor, config = load_predictor(args.log_dir, args.load)
    for name, value in evaluate(predictor, load_splits(args.data)[1], config, args.log_dir).items():
        print(f"{name:10s} {value:.3f}")


if __name__ == "__main__":
    main()

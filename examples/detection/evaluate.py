"""
COCO's average precision, alone or as a callback.

    python examples/detection/evaluate.py --log-dir train_log/detection       evaluate the last checkpoint
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os

import cv2
import numpy as np
from coco import Split, load_splits, read_annotated
from config import Config
from detect import detect, draw, get_predict_config
from model import Model
from pycocotools import mask as rle
from pycocotools.cocoeval import COCOeval

from tensorpack_lite import *
from tensorpack_lite.utils.viz import stack_patches


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
        pixels = read_annotated(image)
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

    def __init__(self, split: Split, model: Model, log_dir: str, period: int = 1) -> None:
        self.split, self.model, self.log_dir, self.period = split, model, log_dir, period

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(["image"], self.model.output_names)

    def _trigger_epoch(self) -> None:
        if self.epoch_num % self.period == 0 or self.epoch_num == self.trainer.max_epoch:
            figures = evaluate(self.predictor, self.split, self.model.config, self.log_dir)
            for name, value in figures.items():
                self.trainer.monitors.put_scalar(name, value)


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", default=os.path.join("train_log", "scenes"), help="as in train.py")
    parser.add_argument("--log-dir", default=os.path.join("train_log", "detection"), help="that of train.py")
    parser.add_argument("--load", default="", help="another checkpoint than the last one")
    args = parser.parse_args(argv)
    predict_config, config = get_predict_config(args.log_dir, args.load)
    predictor = OfflinePredictor(predict_config)
    for name, value in evaluate(predictor, load_splits(args.data)[1], config, args.log_dir).items():
        print(f"{name:10s} {value:.3f}")


if __name__ == "__main__":
    main()

"""Detection in one image with a trained detector, and pictures of the detections."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

import cv2
import numpy as np
from augment import resizer
from config import Config
from model import Model

from tensorpack_lite import *
from tensorpack_lite.utils.palette import PALETTE_RGB
from tensorpack_lite.utils.viz import draw_boxes


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
    for number, detection in reversed(list(enumerate(detections))):  # the best one is drawn last, over the others
        color = PALETTE_RGB[number % len(PALETTE_RGB)][::-1]
        if detection.mask is not None:
            mask = cv2.resize(detection.mask.astype("uint8"), picture.shape[1::-1]) > 0
            picture[mask] = (0.5 * picture[mask] + 0.5 * color).astype("uint8")
        text = f"{config.classes[detection.label - 1]} {detection.score:.2f}"
        picture = draw_boxes(picture, detection.box[None] * scale, [text], color)
    return picture


def get_predict_config(log_dir: str, checkpoint: str = "") -> tuple:
    """Return the PredictConfig for the last checkpoint of a training, or for another one, and the detector's settings."""
    if not os.path.exists(os.path.join(log_dir, "config.json")):
        raise SystemExit(f"There is no detector in {log_dir}. Run train.py first, or pass another --log-dir.")
    config = Config.load(log_dir)
    model = Model(config)
    predict_config = PredictConfig(
        model=model,
        session_init=SmartInit(checkpoint or os.path.join(log_dir, "checkpoint")),
        input_names=["image"],
        output_names=model.output_names,
    )
    return predict_config, config

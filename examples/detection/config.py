"""
Settings of the detector. `SCENES` fits small images of digits, and `COCO` holds the settings of the papers.

train.py stores the settings of a training as config.json next to its checkpoints, where predict.py and export.py find them.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple, Tuple

MINI_MASK = 56  # rows and columns of a mask for training, which covers only the box of its object


class Config(NamedTuple):
    """All settings that the network and its data share. Sizes are in pixels of the resized image."""

    classes: Tuple[str, ...] = ()  # label i is classes[i - 1]; label 0 is the background
    category_ids: Tuple[int, ...] = ()  # their ids in the annotations, in the same order
    masks: bool = False
    cascade: bool = False

    # images
    short_edge: Tuple[int, int] = (112, 128)  # range in training; the maximum is used for prediction
    max_edge: int = 256
    flip: bool = False  # a mirrored 2 is not a 2

    # backbone and feature pyramid
    depth: int = 18  # layers of the ResNet, as in the paper
    width: int = 24  # channels of its first group; 64 in the paper
    norm: str = "batch"  # "batch", "group", or "frozen": batch normalization with pretrained statistics
    fpn_channels: int = 48
    levels: Tuple[int, ...] = (2, 3, 4)  # level k has a stride of 2 ** k pixels

    # region proposals
    anchor_sizes: Tuple[int, ...] = (20, 32, 48)  # one for each level
    anchor_ratios: Tuple[float, ...] = (0.5, 1.0, 2.0)  # height / width
    rpn_batch: int = 64  # anchors of an image that contribute to the cost
    proposals_before_nms: int = 200  # of each level
    proposals: int = 100

    # heads
    roi_batch: int = 32  # proposals of an image that contribute to the cost
    roi_positive: float = 0.25  # maximum share of objects among them
    canonical_size: int = 224  # RoIs of this size are pooled from level 4
    head_units: int = 256
    mask_convs: int = 2
    mask_channels: int = 48

    # results
    min_score: float = 0.05
    nms_iou: float = 0.5
    detections: int = 20  # maximum per image

    # training
    optimizer: str = "adam"  # or "momentum"
    rate: float = 2e-3  # maximum, for batches of 8 images
    warmup_steps: int = 100
    weight_decay: float = 1e-4

    def save(self, folder: str) -> None:
        """Write the settings to config.json."""
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self._asdict(), file, indent=2)

    @classmethod
    def load(cls, folder: str) -> Config:
        """Read the settings from config.json."""
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            return cls(**json.load(file))


SCENES = Config()
COCO = Config(
    short_edge=(640, 800),
    max_edge=1333,
    flip=True,
    depth=50,
    width=64,
    norm="frozen",
    fpn_channels=256,
    levels=(2, 3, 4, 5, 6),
    anchor_sizes=(32, 64, 128, 256, 512),
    rpn_batch=256,
    proposals_before_nms=2000,
    proposals=1000,
    roi_batch=512,
    head_units=1024,
    mask_convs=4,
    mask_channels=256,
    detections=100,
    optimizer="momentum",
    rate=0.01,
    warmup_steps=1000,
)
PRESETS = {"scenes": SCENES, "coco": COCO}

"""
Draw the objects in images.

    python examples/detection/predict.py train_log/scenes/test/00000*.jpg       with the last checkpoint in train_log/
    python examples/detection/predict.py IMAGE ... --log-dir DIR --output DIR   with another one

The pictures have the names of the images, by default in train_log/pictures. The boxes, with their classes and scores,
are printed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import cv2
from coco import read_image
from detect import detect, draw, get_predict_config

from tensorpack_lite import *


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("images", nargs="+", metavar="IMAGE")
    parser.add_argument("--log-dir", default=os.path.join("train_log", "detection"), help="that of train.py")
    parser.add_argument("--load", default="", help="another checkpoint than the last one")
    parser.add_argument("--output", default=os.path.join("train_log", "pictures"), help="folder of pictures")
    parser.add_argument("--min-score", type=float, default=0.5)
    args = parser.parse_args(argv)
    predict_config, config = get_predict_config(args.log_dir, args.load)
    predictor = OfflinePredictor(predict_config)
    os.makedirs(args.output, exist_ok=True)
    for path in args.images:
        image = read_image(path)
        detections = [d for d in detect(predictor, image, config) if d.score >= args.min_score]
        for d in detections:
            box = ", ".join(f"{x:.1f}" for x in d.box)
            print(f"{path}: {config.classes[d.label - 1]} {d.score:.2f} at ({box})")
        scale = max(1, round(256 / max(image.shape)))
        picture = draw(image, detections, config, args.min_score, scale)
        file = os.path.join(args.output, Path(path).stem + ".png")
        cv2.imwrite(file, picture)
        print(f"{path}: see {file}")


if __name__ == "__main__":
    main()

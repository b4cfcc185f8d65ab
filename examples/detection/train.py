"""
Faster R-CNN or Mask R-CNN with a feature pyramid, on any data set in COCO's format. The README explains the files.

Shows: a model with several heads and dynamic shapes, augmentation of boxes and masks in worker processes, batches of images
of different sizes, a callback with COCO's metric, several GPUs and several processes.
Expect: on the scenes, box AP above 0.45 and mask AP above 0.40.

    python examples/detection/train.py --masks                  Mask R-CNN on 1,000 scenes of digits; no download
    python examples/detection/train.py --data FOLDER_OR_JSON    another data set in COCO's format
    python examples/detection/train.py --data COCO --preset coco --load ImageNet-R50.npz --batch 8 --gpus 8
    python -m tensorpack_lite.launch -n 2 examples/detection/train.py --engine collective
    python examples/detection/train.py --resume                 continue the last run in train_log/

Source: see the README.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from backbone import BLOCKS, read_pretrained
from batches import get_train_data
from coco import load_splits, with_classes
from config import PRESETS
from evaluate import EvaluateCOCO
from model import Model

from tensorpack_lite import *
from tensorpack_lite.dataflow import ShardData
from tensorpack_lite.train.horovod import HorovodTrainer

sys.path.append(str(Path(__file__).resolve().parents[1]))

import common

ENGINES = {"collective": CollectiveTrainer, "horovod": HorovodTrainer}


def make_default_data() -> str:
    """Return the folder of the scenes of ../data/scenes.py, and write them the first time."""
    from data.scenes import make_scenes

    return make_scenes(os.path.join("train_log", "scenes"))


def get_config(args: argparse.Namespace, trainer) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    train, test = load_splits(args.data or make_default_data())
    settings = with_classes(PRESETS[args.preset], train.coco)._replace(masks=args.masks, cascade=args.cascade)
    given = {name: getattr(args, name) for name in ("depth", "norm", "rate") if getattr(args, name)}
    settings = settings._replace(**given)
    rank, size = getattr(trainer, "rank", 0), getattr(trainer, "size", 1)
    tower_batch = ShardData.share(args.batch, args.gpus * size)
    steps = args.steps_per_epoch or max(1, len(train.images) // args.batch)
    model = Model(settings, steps * args.max_epoch, args.batch)
    if rank == 0:
        settings.save(args.log_dir)
    return common.get_config_class(args)(
        model=model,
        data=QueueInput(get_train_data(train, settings, tower_batch, args.workers, rank, size)),
        callbacks=[
            ModelSaver(),
            EstimatedTimeLeft(),
            ThroughputTracker(args.batch),
            EvaluateCOCO(test, model, args.log_dir, args.eval_period),
        ],
        session_init=read_pretrained(args.load) if args.load else None,
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )


def get_args(argv=None) -> argparse.Namespace:
    """Parse the command line."""
    parser = common.get_parser(__doc__, "detection", max_epoch=10)
    parser.add_argument("--data", default="", help="a folder or JSON file in COCO's format; see the README")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="scenes", help="settings of config.py")
    parser.add_argument("--masks", action="store_true", help="also predict masks")
    parser.add_argument("--cascade", action="store_true", help="refine boxes in three stages")
    parser.add_argument("--backbone", dest="depth", type=int, choices=sorted(BLOCKS), help="its layers")
    parser.add_argument("--norm", choices=["batch", "group", "frozen"], help="normalization in the ResNet")
    parser.add_argument("--rate", type=float, help="learning rate for batches of 8 images")
    parser.add_argument("--load", default="", help="a checkpoint, or an .npz file of an ImageNet model")
    parser.add_argument("--batch", type=int, default=8, help="images of a step, on all devices together")
    parser.add_argument("--gpus", type=int, default=1, help="towers; without a GPU they run on the CPU")
    parser.add_argument("--engine", choices=sorted(ENGINES), help="train in several processes")
    parser.add_argument("--workers", type=int, default=2, help="processes that augment images")
    parser.add_argument("--eval-period", type=int, default=5, help="epochs between evaluations")
    return parser.parse_args(argv)


def main(argv=None) -> None:
    args = get_args(argv)
    trainer = ENGINES[args.engine]() if args.engine else SyncMultiGPUTrainerReplicated(args.gpus)
    rank = getattr(trainer, "rank", 0)
    common.start(args, rank)
    fix_rng_seed(args.seed + rank)  # each rank augments in its own way
    launch_train_with_config(get_config(args, trainer), trainer)
    if rank == 0:
        names = ["box_AP", "box_AP50"] + (["mask_AP", "mask_AP50"] if args.masks else [])
        figures = {name: trainer.monitors.get_latest(name) for name in names}
        files = {"predictions.png": "detections in held-out images", "results.json": "all of them, in COCO's format"}
        common.print_summary(args, "average precision on held-out images", figures, files)


if __name__ == "__main__":
    main()

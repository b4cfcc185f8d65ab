"""
Train a ResNet on ImageNet, on one or several GPUs. Also measures training speed on fake images.

Shows: data-parallel training and validation, decoding and augmentation in threads of a worker process, a learning rate that
warms up over five epochs and is proportional to the total batch size.
Expect: with `--fake` the loss approaches 0, because each step uses the same images. The log contains the speed.

    python examples/imagenet/train.py --fake            ResNet-18 on the same 8 random images of 64x64 in each step
    python examples/imagenet/train.py --fake --size 224 --batch 64 --depth 50 --gpus 8
    python examples/imagenet/train.py --data DIR --size 224 --batch 64 --depth 50 --gpus 8

`DIR` contains the folders `train` and `val` of ILSVRC12.
Source: Goyal et al. 2017, "Accurate, large minibatch SGD: training ImageNet in 1 hour".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from resnet_model import BLOCKS, CLASSES, Model

from tensorpack_lite import *
from tensorpack_lite.dataflow import dataset

sys.path.append(str(Path(__file__).resolve().parents[1]))

import common


def decode(datapoint: list, augmentor) -> list:
    """Convert [path, label] to [augmented image, label]. OpenCV reads images in BGR order; the result is RGB."""
    import cv2

    path, label = datapoint
    image = augmentor.augment(cv2.imread(path, cv2.IMREAD_COLOR))
    return [image[:, :, ::-1], np.int32(label)]


def get_data(args: argparse.Namespace, which: str) -> DataFlow:
    """Return batches [uint8 [N, size, size, 3] in RGB order, int32 [N]] of the split "train" or "val"."""
    if args.fake:
        shapes, dtype = [[args.batch, args.size, args.size, 3], [args.batch]], ["uint8", "int32"]
        size = 1000 if which == "train" else 2 * args.gpus
        return FakeData(shapes, size, random=False, dtype=dtype, domain=[(0, 256), (0, CLASSES)])
    files = dataset.ILSVRC12Files(args.data, which)
    if which == "train":
        augmentors = [imgaug.GoogleNetRandomCropAndResize(target_shape=args.size), imgaug.Flip(horiz=True)]
    else:
        augmentors = [imgaug.ResizeShortestEdge(args.size * 8 // 7), imgaug.CenterCrop(args.size)]
    augmentor = imgaug.AugmentorList(augmentors)
    images = MultiThreadMapData(
        files, args.workers, lambda dp: decode(dp, augmentor), buffer_size=200, strict=which != "train"
    )
    images = BatchData(images, args.batch, remainder=which != "train")
    return MultiProcessRunnerZMQ(images, 1) if which == "train" else images


def get_config(args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    total_batch = args.batch * args.gpus
    rate = 0.1 * total_batch / 256
    errors = [ClassificationError(f"wrong_top{k}", f"val_error_top{k}") for k in (1, 5)]
    validation = get_data(args, "val")
    if args.gpus > 1:
        inference = DataParallelInferenceRunner(validation, errors, list(range(args.gpus)))
    else:
        inference = InferenceRunner(QueueInput(validation), errors)
    return TrainConfig(
        model=Model(args.depth, args.size, total_batch),
        data=QueueInput(get_data(args, "train")),
        callbacks=[
            ModelSaver(),
            EstimatedTimeLeft(),
            ThroughputTracker(total_batch),
            ScheduledHyperParamSetter("learning_rate", [(0, min(rate, 0.1)), (5, rate)], interp="linear"),
            ScheduledHyperParamSetter("learning_rate", [(30, rate / 10), (60, rate / 100), (85, rate / 1000)]),
            inference,
        ],
        steps_per_epoch=args.steps_per_epoch or (20 if args.fake else 1281167 // total_batch),
        max_epoch=args.max_epoch,
    )


def main(argv=None) -> None:
    parser = common.get_parser(__doc__, "imagenet", max_epoch=0, has_resume=False)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", metavar="DIR", help="directory of ILSVRC12, with the folders train and val")
    source.add_argument("--fake", action="store_true", help="use the same random images in each step")
    parser.add_argument("--depth", type=int, choices=sorted(BLOCKS), default=18)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8, help="batch size of each tower")
    parser.add_argument("--gpus", type=int, default=1, help="number of towers; without a GPU they run on the CPU")
    parser.add_argument("--workers", type=int, default=8, help="threads that decode images")
    args = parser.parse_args(argv)
    args.max_epoch = args.max_epoch or (3 if args.fake else 90)
    common.start(args)
    trainer = SyncMultiGPUTrainerReplicated(args.gpus)
    launch_train_with_config(get_config(args), trainer)
    figures = {"top-1 error": trainer.monitors.get_latest("val_error_top1")}
    figures["images per second"] = trainer.monitors.get_latest("Throughput (samples/sec)")
    common.print_summary(args, "validation images" + (" (random ones)" if args.fake else ""), figures)


if __name__ == "__main__":
    main()

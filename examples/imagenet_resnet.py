"""
ResNet-18 to 101 on ImageNet's images, on one or several devices: the script to measure speed with.

Shows: bottleneck blocks, a warm-up of the learning rate that grows with the total batch, decoding and augmentation in other
processes, validation on all devices.
Expect: with `--fake` a loss that goes to 0, as training has the same images in each step; the speed is in the log.

    python examples/imagenet_resnet.py --fake           images of 64x64 that are always the same, ResNet-18, batches of 8
    python examples/imagenet_resnet.py --fake --size 224 --batch 64 --depth 50 --gpus 8
    python examples/imagenet_resnet.py --data DIR --size 224 --batch 64 --depth 50 --gpus 8

`DIR` has the folders `train` and `val` of ILSVRC12.
Source: He, Zhang, Ren, Sun 2015, "Deep residual learning"; Goyal et al. 2017, "Accurate, large minibatch SGD".
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.summary import add_moving_summary

BLOCKS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3]}
CLASSES = 1000


def basic_block(x, filters: int, strides: int):
    x = Conv2D("conv1", x, filters, 3, strides=strides, activation=BNReLU)
    return Conv2D("conv2", x, filters, 3, activation=last_norm)


def bottleneck(x, filters: int, strides: int):
    x = Conv2D("conv1", x, filters, 1, activation=BNReLU)
    x = Conv2D("conv2", x, filters, 3, strides=strides, activation=BNReLU)
    return Conv2D("conv3", x, filters * 4, 1, activation=last_norm)


def last_norm(x):
    """A BatchNorm that begins at 0, so that each block begins as the identity."""
    return BatchNorm("bn", x, gamma_initializer=tf.zeros_initializer())


def shortcut(x, channels: int, strides: int):
    if x.shape.as_list()[3] == channels:
        return x
    return Conv2D("shortcut", x, channels, 1, strides=strides, activation=lambda y: BatchNorm("bn", y))


class Model(ModelDesc):
    """A ResNet of a given depth."""

    def __init__(self, depth: int, size: int, total_batch: int) -> None:
        super().__init__()
        self.depth, self.size, self.total_batch = depth, size, total_batch

    def inputs(self):
        return [
            tf.TensorSpec([None, self.size, self.size, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        logits = self.get_logits((tf.cast(image, tf.float32) - [123.7, 116.3, 103.5]) / [58.4, 57.1, 57.4])
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        for k in (1, 5):
            wrong = tf.cast(
                tf.logical_not(tf.nn.in_top_k(logits, label, k)), tf.float32, name=f"wrong_top{k}"
            )
            add_moving_summary(tf.reduce_mean(wrong, name=f"train_error_top{k}"))
        decay = tf.multiply(1e-4, regularize_cost(".*/W", tf.nn.l2_loss), name="decay_loss")
        add_moving_summary(cost, decay)
        return tf.add(cost, decay, name="cost")

    def get_logits(self, x):
        """Images to scores of the classes."""
        block, expansion = (bottleneck, 4) if self.depth >= 50 else (basic_block, 1)
        initializer = tf.variance_scaling_initializer(2.0, mode="fan_out")
        with argscope(Conv2D, use_bias=False, kernel_initializer=initializer):
            x = Conv2D("conv0", x, 64, 7, strides=2, activation=BNReLU)
            x = MaxPooling("pool0", x, 3, strides=2, padding="same")
            for group, count in enumerate(BLOCKS[self.depth]):
                for index in range(count):
                    filters, strides = 64 * 2**group, 2 if group > 0 and index == 0 else 1
                    with tf.variable_scope(f"group{group}/block{index}"):
                        x = tf.nn.relu(block(x, filters, strides) + shortcut(x, filters * expansion, strides))
        return FullyConnected("linear", GlobalAvgPooling("gap", x), CLASSES)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1 * self.total_batch / 256, trainable=False)
        tf.summary.scalar("learning_rate-summary", rate)
        return tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)


def decode(datapoint: list, augmentor) -> list:
    """A file's name and a label to an image, blue first as OpenCV reads it, and a label."""
    import cv2

    return [augmentor.augment(cv2.imread(datapoint[0], cv2.IMREAD_COLOR))[:, :, ::-1], np.int32(datapoint[1])]


def get_data(args: argparse.Namespace, which: str) -> DataFlow:
    """Batches [uint8 [N, size, size, 3] in red, green, blue; int32 [N]]."""
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
    """Everything that makes up this training."""
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
            ScheduledHyperParamSetter(
                "learning_rate", [(30, rate / 10), (60, rate / 100), (85, rate / 1000)]
            ),
            inference,
        ],
        steps_per_epoch=args.steps_per_epoch or (20 if args.fake else 1281167 // total_batch),
        max_epoch=args.max_epoch,
    )


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--data", metavar="DIR", help="ILSVRC12, with the folders train and val")
    where.add_argument("--fake", action="store_true", help="the same random images again and again")
    parser.add_argument("--depth", type=int, choices=sorted(BLOCKS), default=18)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8, help="of each tower")
    parser.add_argument(
        "--gpus", type=int, default=1, help="how many towers; where no GPU is, the CPU has them"
    )
    parser.add_argument("--workers", type=int, default=8, help="threads that decode")
    parser.add_argument("--max-epoch", type=int, default=0, help="0: 3 with --fake, otherwise 90")
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: the whole data; 20 with --fake")
    parser.add_argument("--log-dir", default=os.path.join("train_log", "imagenet_resnet"))
    args = parser.parse_args(argv)
    args.max_epoch = args.max_epoch or (3 if args.fake else 90)
    logger.set_logger_dir(args.log_dir, action="b")
    launch_train_with_config(get_config(args), SyncMultiGPUTrainerReplicated(args.gpus))


if __name__ == "__main__":
    main()

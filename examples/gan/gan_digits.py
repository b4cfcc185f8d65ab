"""
Shared code of the GANs in this folder: batches of digits, a sheet of samples after each epoch, a measure of the
samples.

Shows: callbacks that run a predictor during training and report an image and a number.
Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse
import os
import sys
from itertools import islice
from pathlib import Path

import numpy as np
from gan_trainer import GANTrainer, MultiGPUGANTrainer

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.utils.png import encode_png
from tensorpack_lite.utils.viz import stack_patches

sys.path.append(str(Path(__file__).resolve().parents[1]))

import common
from data.baselines import draw_gaussian, neighbor_test

SIZE = 28
BATCH = 64
NOISE = 32  # size of the generator's input
HELD_OUT = 360  # images that samples are compared with


def get_images(name: str, split: str, mnist_dir: str = "") -> DataFlow:
    """Return images of the split "train" or "test": [image [28, 28] float32 in [0, 1], label]."""
    if name == "digits":
        return dataset.Digits(split, shuffle=split == "train", size=SIZE)
    has_all = not mnist_dir or os.path.exists(os.path.join(mnist_dir, "train-images-idx3-ubyte.gz"))
    return dataset.Mnist(split if has_all else "test", shuffle=split == "train", dir=mnist_dir or None)


def get_data(name: str, mnist_dir: str = "", batch: int = BATCH) -> DataFlow:
    """Return infinite batches [image [N, 28, 28] float32 in [0, 1], label [N] int32]."""
    images = MapData(get_images(name, "train", mnist_dir), lambda dp: [dp[0], np.int32(dp[1])])
    return BatchData(RepeatedData(images, -1), batch)


def read_images(args: argparse.Namespace, split: str) -> np.ndarray:
    """Return the first 360 images of a split, [360, 28, 28]."""
    images = get_images(args.data, split, args.mnist_dir)
    images.reset_state()
    return np.stack([image for image, _ in islice(images, HELD_OUT)])


def to_network(image):
    """Convert images [N, 28, 28] in [0, 1] to the input of the networks, [N, 28, 28, 1] in [-1, 1]."""
    return tf.expand_dims(image, 3) * 2 - 1


def to_sample(image):
    """Convert generated images to the tensor `sample` [N, 28, 28] in [0, 255]."""
    return tf.multiply(image[:, :, :, 0] + 1, 127.5, name="sample")


def random_noise(image):
    """Return the tensor `z` [N, 32], uniform in [-1, 1] and new for each batch. It can be fed."""
    noise = tf.random_uniform([tf.shape(image)[0], NOISE], -1, 1)
    return tf.placeholder_with_default(noise, [None, NOISE], name="z")


def fixed_noise(count: int) -> np.ndarray:
    """Return constant noise, so that all sheets show the same samples."""
    return np.random.RandomState(0).uniform(-1, 1, [count, NOISE]).astype("float32")


class SampleSheet(Callback):
    """Write a sheet of samples after each epoch: `samples-<epoch>.png`, and an image in the event file."""

    def __init__(self, feeds: dict, columns: int) -> None:
        self.names = list(feeds)
        self.values = list(feeds.values())
        self.columns = columns

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(self.names, ["sample"])

    def draw(self) -> np.ndarray:
        """Return the sheet, [H, W, 1] uint8."""
        samples = self.predictor(*self.values)[0]
        return stack_patches(samples, len(samples) // self.columns, self.columns, border=1, bgcolor=64)

    def _trigger_epoch(self) -> None:
        sheet = self.draw()
        self.trainer.monitors.put_image("samples", sheet)
        path = os.path.join(logger.get_logger_dir() or ".", f"samples-{self.epoch_num:03d}.png")
        with open(path, "wb") as file:
            file.write(encode_png(sheet))


class CompareSamples(Callback):
    """
    Report `neighbor_test` after each epoch: how well samples can be told from images that training does not see.

    Args:
        feeds: inputs for as many samples as there are images.
        images: [N, 28, 28] in [0, 1].
    """

    def __init__(self, feeds: dict, images: np.ndarray) -> None:
        self.feeds = feeds
        self.images = images

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(list(self.feeds), ["sample"])

    def _trigger_epoch(self) -> None:
        samples = self.predictor(*self.feeds.values())[0] / 255
        self.trainer.monitors.put_scalar("neighbor_test", neighbor_test(samples, self.images))


def get_args(doc: str | None, name: str, max_epoch: int, argv=None, has_towers: bool = True) -> argparse.Namespace:
    """Parse the options that all GANs share. Set the log directory and the seeds."""
    parser = common.get_parser(doc, name, max_epoch=max_epoch, steps_per_epoch=100, has_resume=False)
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--mnist-dir", default="", help="directory of MNIST's files")
    if has_towers:
        parser.add_argument("--gpus", type=int, default=1, help="number of towers")
    args = parser.parse_args(argv)
    common.start(args)
    return args


def make_trainer(args: argparse.Namespace, model) -> GANTrainer:
    """Return a trainer that updates both networks in each step, on `args.gpus` towers."""
    data = QueueInput(get_data(args.data, args.mnist_dir))
    return MultiGPUGANTrainer(args.gpus, data, model) if args.gpus > 1 else GANTrainer(data, model)


def train_gan(trainer: GANTrainer, args: argparse.Namespace, sheet: SampleSheet, feeds: dict, callbacks=()) -> None:
    """
    Train with the options of the command line, and print how well samples can be told from held-out images.

    Args:
        trainer: of one of the GANs.
        args: the options.
        sheet: written after each epoch.
        feeds: inputs for 360 samples.
        callbacks: further ones.
    """
    held_out = read_images(args, "test")
    trainer.train_with_defaults(
        callbacks=[ModelSaver(), *callbacks, sheet, CompareSamples(feeds, held_out)],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    train = read_images(args, "train")
    figures = {
        "generator": trainer.monitors.get_latest("neighbor_test"),
        "Gaussian with the covariances of the pixels": neighbor_test(draw_gaussian(train, HELD_OUT), held_out),
        "images of the training split": neighbor_test(train, held_out),
    }
    title = "part of samples and held-out images that their nearest neighbor tells apart (0.5: none can be told)"
    common.print_summary(args, title, figures, {f"samples-{args.max_epoch:03d}.png": "samples"})

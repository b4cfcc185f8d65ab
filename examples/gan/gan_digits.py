"""
Shared code of the GANs in this folder: batches of digits, a sheet of samples after each epoch, command line options.

Shows: a callback that runs a predictor during training and reports an image.
Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from gan_trainer import GANTrainer, MultiGPUGANTrainer

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.utils.png import encode_png
from tensorpack_lite.utils.viz import stack_patches

SIZE = 28
BATCH = 64
NOISE = 32  # size of the generator's input


def get_data(name: str, mnist_dir: str = "", batch: int = BATCH) -> DataFlow:
    """Return infinite batches [image [N, 28, 28] float32 in [0, 1], label [N] int32]."""
    if name == "digits":
        images = dataset.Digits("train", size=SIZE)
    else:
        has_all = not mnist_dir or os.path.exists(os.path.join(mnist_dir, "train-images-idx3-ubyte.gz"))
        images = dataset.Mnist("train" if has_all else "test", dir=mnist_dir or None)
    return BatchData(RepeatedData(MapData(images, lambda dp: [dp[0], np.int32(dp[1])]), -1), batch)


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
        self.names, self.values = list(feeds), list(feeds.values())
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


def get_args(doc: str | None, name: str, max_epoch: int, argv=None, has_towers: bool = True) -> argparse.Namespace:
    """Parse the options that all GANs share. Set the log directory and the seeds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--mnist-dir", default="", help="directory of MNIST's files")
    if has_towers:
        parser.add_argument("--gpus", type=int, default=1, help="number of towers")
    parser.add_argument("--max-epoch", type=int, default=max_epoch)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", name))
    args = parser.parse_args(argv)
    logger.set_logger_dir(args.log_dir, action="b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    return args


def make_trainer(args: argparse.Namespace, model) -> GANTrainer:
    """Return a trainer that updates both networks in each step, on `args.gpus` towers."""
    data = QueueInput(get_data(args.data, args.mnist_dir))
    return MultiGPUGANTrainer(args.gpus, data, model) if args.gpus > 1 else GANTrainer(data, model)


def train_gan(trainer: GANTrainer, args: argparse.Namespace, callbacks: list) -> None:
    """Train with the options of the command line."""
    trainer.train_with_defaults(
        callbacks=[ModelSaver(), *callbacks],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )

"""
What the GANs of this folder share: batches of digits, a sheet of samples each epoch, the options of the command line.

Shows: a callback that asks a predictor of the training session, and reports an image.
Expect: a module for the other examples of this folder; run one of those.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from gan_trainer import GANTrainer, MultiGPUGANTrainer

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.png import encode_png
from tensorpack_lite.utils.viz import stack_patches

SIZE = 28
BATCH = 64
NOISE = 32  # numbers that the generator makes an image of


def get_data(name: str, mnist_dir: str = "", batch: int = BATCH) -> DataFlow:
    """Batches [image [N, 28, 28] float32 in [0, 1], label [N] int32], without end."""
    if name == "digits":
        images = dataset.Digits("train", size=SIZE)
    else:
        has_all = not mnist_dir or os.path.exists(os.path.join(mnist_dir, "train-images-idx3-ubyte.gz"))
        images = dataset.Mnist("train" if has_all else "test", dir=mnist_dir or None)
    return BatchData(RepeatedData(MapData(images, lambda dp: [dp[0], np.int32(dp[1])]), -1), batch)


def to_network(image):
    """Images [N, 28, 28] in [0, 1] as networks want them: [N, 28, 28, 1] in [-1, 1]."""
    return tf.expand_dims(image, 3) * 2 - 1


def to_sample(image):
    """What a generator makes, as the tensor `sample` [N, 28, 28] in [0, 255]."""
    return tf.multiply(image[:, :, :, 0] + 1, 127.5, name="sample")


def random_noise(image):
    """The tensor `z`: a new [N, 32] uniform in [-1, 1] for each batch; it can be fed."""
    noise = tf.random_uniform([tf.shape(image)[0], NOISE], -1, 1)
    return tf.placeholder_with_default(noise, [None, NOISE], name="z")


def fixed_noise(count: int) -> np.ndarray:
    """The same noise for each sheet, so that it can be seen how its images change."""
    return np.random.RandomState(0).uniform(-1, 1, [count, NOISE]).astype("float32")


class SampleSheet(Callback):
    """Draw a sheet of samples each epoch: `samples-<epoch>.png` beside the log, and an image in the event file."""

    def __init__(self, feeds: dict, columns: int) -> None:
        self.names, self.values = list(feeds), list(feeds.values())
        self.columns = columns

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(self.names, ["sample"])

    def draw(self) -> np.ndarray:
        """The sheet, [H, W, 1] uint8."""
        samples = self.predictor(*self.values)[0]
        return stack_patches(samples, len(samples) // self.columns, self.columns, border=1, bgcolor=64)

    def _trigger_epoch(self) -> None:
        sheet = self.draw()
        self.trainer.monitors.put_image("samples", sheet)
        path = os.path.join(logger.get_logger_dir(), f"samples-{self.epoch_num:03d}.png")
        with open(path, "wb") as file:
            file.write(encode_png(sheet))


def get_args(doc: str, name: str, max_epoch: int, argv=None, has_towers: bool = True) -> argparse.Namespace:
    """The options that all have, `--gpus` if there can be several towers; sets the logger's directory and the seeds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--mnist-dir", default="", help="a directory with MNIST's idx files")
    if has_towers:
        parser.add_argument(
            "--gpus", type=int, default=1, help="how many; where there are none, the CPU does it"
        )
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
    """Both players in each step, on as many towers as asked for."""
    data = QueueInput(get_data(args.data, args.mnist_dir))
    return MultiGPUGANTrainer(args.gpus, data, model) if args.gpus > 1 else GANTrainer(data, model)


def train_gan(trainer: GANTrainer, args: argparse.Namespace, callbacks: list) -> None:
    """Train as the options say."""
    trainer.train_with_defaults(
        callbacks=[ModelSaver(), *callbacks],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )

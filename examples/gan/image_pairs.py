"""
Shared code of pix2pix.py and cyclegan.py: pairs of images of 64 x 64 pixels, command line options, and the training.

Shows: validation of a GAN with InferenceRunner; resuming with a trainer that is not started by launch_train_with_config.
Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse
import glob
import os
import sys

import cv2
import numpy as np
from gan_digits import SampleSheet
from gan_trainer import GANModelDesc, GANTrainer

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset

SIZE = 64
BATCH = 8


def to_network(image):
    """Convert images in [0, 255] to the input of the networks, in [-1, 1]."""
    return tf.cast(image, tf.float32) / 127.5 - 1


def to_sample(images: list):
    """Return the tensor `sample` [N, 64, K * 64, 3] in [0, 255] with K images [N, 64, 64, 3] side by side."""
    return tf.multiply(tf.concat(images, 2) + 1, 127.5, name="sample")


def read_images(*path: str) -> list:
    """Return the images that match a pattern: RGB, 64 pixels high, and 64 or (two side by side) 128 pixels wide."""
    images = [cv2.imread(file)[:, :, ::-1] for file in sorted(glob.glob(os.path.join(*path)))]
    widths = [SIZE * round(x.shape[1] / x.shape[0]) for x in images]
    return [cv2.resize(x, (w, SIZE), interpolation=cv2.INTER_AREA) for x, w in zip(images, widths)]


def edges(image: np.ndarray) -> np.ndarray:
    return np.tile(cv2.Canny(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), 100, 200)[:, :, None], 3)


def read_digits(which: str) -> list:
    """Return pairs of a white digit on black, and a dark one over a random piece of a texture."""
    import skimage.data

    textures = [getattr(skimage.data, name)() for name in ("brick", "grass", "gravel")]
    rng, pairs = np.random.RandomState(which == "test"), []
    for digit in dataset.Digits(which, size=SIZE).images:
        texture, (y, x) = textures[rng.randint(3)], rng.randint(512 - 2 * SIZE, size=2)
        piece = cv2.resize(texture[y : y + 2 * SIZE, x : x + 2 * SIZE], (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        pairs.append([np.tile(np.uint8(image), 3) for image in (255 * digit, piece[:, :, None] * (1 - digit))])
    return pairs


def read_pairs(data: str, which: str) -> list:
    """Return pairs [input, target] of the split "train" or "test", uint8 [64, 64, 3]."""
    if data == "digits":
        return read_digits(which)
    if data == "scenes":
        sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "data"))
        from scenes import make_scenes

        scenes = read_images(make_scenes(os.path.join("train_log", "scenes")), which, "*.jpg")
        return [[edges(scene), scene] for scene in scenes]
    return [[x[:, SIZE:], x[:, :SIZE]] for x in read_images(data, which, "*")]


def get_args(doc: str | None, name: str, data: str, max_epoch: int, argv=None, flags=()) -> argparse.Namespace:
    """Parse the options of this example and of cyclegan.py. Set the log directory and the seeds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=data, help="scenes, digits, or the directory of a data set")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    parser.add_argument("--max-epoch", type=int, default=max_epoch)
    parser.add_argument("--steps-per-epoch", type=int, default=125)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", name))
    args = parser.parse_args(argv)
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    return args


def train_on_pairs(args: argparse.Namespace, model: GANModelDesc, data: DataFlow, test: list, measures: list) -> None:
    """Train a model of two kinds of images. After each epoch, write a sheet, and average the measures over the test images."""
    trainer = GANTrainer(QueueInput(BatchData(RepeatedData(data, -1), BATCH)), model)
    names = [spec.name for spec in model.get_input_signature()]
    sheet = SampleSheet({name: np.stack(x) for name, x in zip(names, zip(*test[:12]))}, columns=2)
    validation = BatchData(DataFromList(test, shuffle=False), BATCH, remainder=True)
    config_class = AutoResumeTrainConfig if args.resume else TrainConfig
    inference = InferenceRunner(validation, ScalarStats(measures, prefix="val"))
    config = config_class(callbacks=[ModelSaver(), sheet, inference], steps_per_epoch=args.steps_per_epoch)
    trainer.train_with_defaults(
        callbacks=config.callbacks,
        session_init=config.session_init,
        steps_per_epoch=config.steps_per_epoch,
        starting_epoch=config.starting_epoch,
        max_epoch=args.max_epoch,
    )

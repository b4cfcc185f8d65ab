"""
Shared code of pix2pix.py and cyclegan.py: pairs of images of 64 x 64 pixels, their options, and the training.

Shows: validation of a GAN with InferenceRunner; resuming with a trainer that is not started by
launch_train_with_config.
Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse
import glob
import os

import cv2
import numpy as np
from gan_digits import SampleSheet, common
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
    images = []
    for file in sorted(glob.glob(os.path.join(*path))):
        image = cv2.imread(file)[:, :, ::-1]  # BGR to RGB
        height, width = image.shape[:2]
        size = (SIZE * round(width / height), SIZE)
        images.append(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    return images


def edges(image: np.ndarray) -> np.ndarray:
    """Return the edges of an RGB image, white on black, uint8 [H, W, 3]."""
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    lines = cv2.Canny(gray, 100, 200)  # [H, W]
    return np.tile(lines[:, :, None], 3)


def read_digits(which: str) -> list:
    """Return pairs of a white digit on black, and a dark one over a random piece of a texture."""
    import skimage.data

    textures = [getattr(skimage.data, name)() for name in ("brick", "grass", "gravel")]
    rng = np.random.RandomState(which == "test")
    pairs = []
    for digit in dataset.Digits(which, size=SIZE).images:  # [64, 64, 1] in [0, 1]
        texture = textures[rng.randint(3)]
        y, x = rng.randint(512 - 2 * SIZE, size=2)
        piece = texture[y : y + 2 * SIZE, x : x + 2 * SIZE]
        piece = cv2.resize(piece, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        white = 255 * digit
        dark = piece[:, :, None] * (1 - digit)
        pairs.append([np.tile(image.astype("uint8"), 3) for image in (white, dark)])
    return pairs


def read_pairs(data: str, which: str) -> list:
    """Return pairs [input, target] of the split "train" or "test", uint8 [64, 64, 3]."""
    if data == "digits":
        return read_digits(which)
    if data == "scenes":
        from data.scenes import make_scenes

        scenes = read_images(make_scenes(os.path.join("train_log", "scenes")), which, "*.jpg")
        return [[edges(scene), scene] for scene in scenes]
    return [[x[:, SIZE:], x[:, :SIZE]] for x in read_images(data, which, "*")]


def get_args(doc: str | None, name: str, data: str, max_epoch: int, argv=None, flags=()) -> argparse.Namespace:
    """Parse the options of this example and of cyclegan.py. Set the log directory and the seeds."""
    parser = common.get_parser(doc, name, max_epoch=max_epoch, steps_per_epoch=125)
    parser.add_argument("--data", default=data, help="scenes, digits, or the directory of a data set")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args(argv)
    common.start(args)
    return args


def train_on_pairs(args, model: GANModelDesc, data: DataFlow, test: list, measures: list) -> list:
    """
    Train a model of two kinds of images, write a sheet after each epoch, and return the measures after the last one.

    Args:
        args: the options.
        model: a GAN.
        data: a DataFlow of training images.
        test: pairs of held-out images.
        measures: names of scalars, which are averaged over the held-out images.
    """
    trainer = GANTrainer(QueueInput(BatchData(RepeatedData(data, -1), BATCH)), model)
    names = [spec.name for spec in model.get_input_signature()]
    columns = zip(*test[:12])  # the first images of twelve pairs, and the second ones
    feeds = {name: np.stack(images) for name, images in zip(names, columns)}
    validation = BatchData(DataFromList(test, shuffle=False), BATCH, remainder=True)
    config = common.get_config_class(args)(
        callbacks=[
            ModelSaver(),
            SampleSheet(feeds, columns=2),
            InferenceRunner(validation, ScalarStats(measures, prefix="val")),
        ],
        steps_per_epoch=args.steps_per_epoch,
    )
    trainer.train_with_defaults(
        callbacks=config.callbacks,
        session_init=config.session_init,
        steps_per_epoch=config.steps_per_epoch,
        starting_epoch=config.starting_epoch,
        max_epoch=args.max_epoch,
    )
    return [trainer.monitors.get_latest(f"val_{name}") for name in measures]


def report(args: argparse.Namespace, title: str, figures: dict) -> None:
    """Print figures of the test images."""
    common.print_summary(args, title, figures, {f"samples-{args.max_epoch:03d}.png": "test images"})

"""
CycleGAN: two generators learn to turn images of one kind into the other and back, without pairs.

Shows: four networks in two scopes, a cost that connects them, unpaired data with JoinData.
Expect: the distance (L1) between a digit and the one that is recovered from its negative over a texture is 0.13 after
the last epoch. That of the inverted image is 0.71, and that of its dark pixels, by Otsu's threshold, 0.50.

    python examples/gan/cyclegan.py                     digits <-> negatives of other digits over textures; no download
    python examples/gan/cyclegan.py --data scenes       edges <-> scenes of examples/data/scenes.py
    python examples/gan/cyclegan.py --data DIR          horse2zebra: trainA, trainB, testA and testB in DIR
    python examples/gan/cyclegan.py --resume            continue the last training

samples-<epoch>.png has rows of: A, A turned into B, and back; B, B turned into A, and back.
Source: Zhu, Park, Isola, Efros 2017, "Unpaired image-to-image translation using cycle-consistent adversarial networks";
its history of 50 generated images is omitted.
"""

from __future__ import annotations

import cv2
import numpy as np
from gan_trainer import GANModelDesc
from image_pairs import SIZE, get_args, read_images, read_pairs, report, to_network, to_sample, train_on_pairs
from pix2pix import SMALL, norm, patch_scores

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.summary import add_moving_summary

CYCLE_WEIGHT = 10
BLOCKS = 3


def norm_relu(x):
    return tf.nn.relu(norm(x))


@auto_reuse_variable_scope
def generator(x):
    """Map images [N, 64, 64, 3] to images: residual blocks between two convolutions that halve, and two that double the size."""
    with argscope([Conv2D, Conv2DTranspose], kernel_size=3, activation=norm_relu, kernel_initializer=SMALL):
        x = Conv2D("conv0", x, 16, kernel_size=5)
        x = Conv2D("conv1", x, 32, strides=2)
        x = Conv2D("conv2", x, 64, strides=2)
        for k in range(BLOCKS):
            with tf.variable_scope(f"block{k}"):
                y = Conv2D("conv0", x, 64)
                x = x + Conv2D("conv1", y, 64, activation=norm)
        x = Conv2DTranspose("up0", x, 32, strides=2)
        x = Conv2DTranspose("up1", x, 16, strides=2)
        return Conv2D("image", x, 3, kernel_size=5, activation=tf.tanh)


def squared_losses(real, fake) -> tuple:
    """Return `(d_loss, g_loss)` of scores whose targets are 1 for real images and 0 for generated ones (LSGAN)."""
    d_loss = (tf.reduce_mean(tf.square(real - 1)) + tf.reduce_mean(tf.square(fake))) / 2
    return d_loss, tf.reduce_mean(tf.square(fake - 1))


def distance(x, y, name: str | None = None):
    return tf.reduce_mean(tf.abs(x - y), name=name)


class Model(GANModelDesc):
    """Two generators with 260,000 weights each, and two discriminators."""

    def inputs(self):
        return [tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8, name) for name in ("a", "b")]

    def build_graph(self, a, b):
        a = to_network(a)
        b = to_network(b)
        with tf.variable_scope(self.g_scope + "/to_b"):
            fake_b = generator(a)
        with tf.variable_scope(self.g_scope + "/to_a"):
            fake_a = generator(b)
            cycle_a = generator(fake_b)
        with tf.variable_scope(self.g_scope + "/to_b"):
            cycle_b = generator(fake_a)
        to_sample([a, fake_b, cycle_a, b, fake_a, cycle_b])

        with tf.variable_scope(self.d_scope + "/a"):
            d_loss_a, g_loss_a = squared_losses(patch_scores(a), patch_scores(fake_a))
        with tf.variable_scope(self.d_scope + "/b"):
            d_loss_b, g_loss_b = squared_losses(patch_scores(b), patch_scores(fake_b))
        d_loss = tf.add(d_loss_a, d_loss_b, name="d_loss")
        g_loss = tf.add(g_loss_a, g_loss_b, name="g_loss")
        cycle = tf.add(distance(a, cycle_a), distance(b, cycle_b), name="cycle_loss")
        # The test images are pairs, so these two measure how well the digit is recovered.
        l1 = distance(a, fake_a, "l1_to_digits")
        distance(a, -b, "l1_of_inverted")
        add_moving_summary(d_loss, g_loss, cycle, l1)
        return d_loss, g_loss + CYCLE_WEIGHT * cycle

    def optimizers(self):
        return tuple(tf.train.AdamOptimizer(5e-4, beta1=0.5) for _ in range(2))


def get_data(data: str) -> tuple:
    """Return training images [a, b], in which a and b are in independent random orders, and test images."""
    if data in ("digits", "scenes"):
        pairs = read_pairs(data, "train")
        a = [x for x, _ in pairs[::2]]
        b = [y for _, y in pairs[1::2]]  # the counterparts of other images
        test = read_pairs(data, "test")
    else:
        a = read_images(data, "trainA", "*")
        b = read_images(data, "trainB", "*")
        test = list(zip(read_images(data, "testA", "*"), read_images(data, "testB", "*")))
    flows = [DataFromList([[image] for image in images]) for images in (a, b)]
    return JoinData(flows), test


def threshold_distance(test: list) -> float:
    """Return the distance between the images a and the dark pixels of b, by Otsu's threshold."""
    distances = []
    for a, b in test:
        gray = cv2.cvtColor(b, cv2.COLOR_RGB2GRAY)
        _, dark = cv2.threshold(gray, 0, 255, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
        distances.append(np.mean(np.abs(a[..., 0] - dark.astype("float32"))) / 127.5)
    return float(np.mean(distances))


def main(argv=None) -> None:
    args = get_args(__doc__, "cyclegan", "digits", max_epoch=3, argv=argv)
    images, test = get_data(args.data)
    l1, inverted = train_on_pairs(args, Model(), images, test, ["l1_to_digits", "l1_of_inverted"])
    figures = {"generator": l1, "inverted images": inverted, "dark pixels (Otsu's threshold)": threshold_distance(test)}
    report(args, "distance (L1) between recovered and true test images", figures)


if __name__ == "__main__":
    main()

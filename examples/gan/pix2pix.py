"""
pix2pix: a U-Net learns from pairs to turn one image into another, with an adversary that punishes blurred results.

Shows: a GAN with an additional cost, validation of a GAN with InferenceRunner, augmentation of pairs of images.
Expect: sharper images than without the adversary (`--plain`), at nearly the same distance: L1 0.41, and 0.39 with
`--plain`; sharpness 0.46, and 0.24 with `--plain`. The colors of the test scenes cannot be known from their edges; the
results are textures in wrong colors.

    python examples/gan/pix2pix.py                      edges -> scenes of examples/data/scenes.py; no download
    python examples/gan/pix2pix.py --plain              the U-Net without the adversary
    python examples/gan/pix2pix.py --data digits        digits -> their negatives over textures
    python examples/gan/pix2pix.py --data DIR           facades: DIR/train and DIR/test have photo and labels side by side
    python examples/gan/pix2pix.py --resume             continue the last training

samples-<epoch>.png has the input, the result and the target of twelve test images.
Source: Isola, Zhu, Zhou, Efros 2017, "Image-to-image translation with conditional adversarial networks".
"""

from __future__ import annotations

import numpy as np
from gan_trainer import GANModelDesc, build_gan_losses
from image_pairs import SIZE, get_args, read_pairs, report, to_network, to_sample, train_on_pairs

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.summary import add_moving_summary

FILTERS = [32, 64, 128, 128]
L1_WEIGHT = 100
SMALL = tf.random_normal_initializer(stddev=0.02)  # larger outputs would saturate tanh


def norm(x):
    return InstanceNorm("norm", x)


def unet(x):
    """Map images [N, 64, 64, 3] to images: halve the size four times, and double it with the features of each size."""
    features = []
    with argscope([Conv2D, Conv2DTranspose], kernel_size=4, strides=2, kernel_initializer=SMALL):
        for k, filters in enumerate(FILTERS):
            x = Conv2D(f"down{k}", tf.nn.leaky_relu(x) if k else x, filters, activation=norm)
            features.append(x)
        for k in (2, 1, 0):
            x = Conv2DTranspose(f"up{k}", tf.nn.relu(x), FILTERS[k], activation=norm)
            x = tf.concat([x, features[k]], 3)
        return Conv2DTranspose("image", tf.nn.relu(x), 3, activation=tf.tanh)


@auto_reuse_variable_scope
def patch_scores(x):
    """Map images [N, 64, 64, C] to scores [N, 16, 16, 1], one for each piece of 22 x 22 pixels; positive means real."""
    with argscope(Conv2D, kernel_size=4, kernel_initializer=SMALL):
        x = Conv2D("conv0", x, 32, strides=2, activation=tf.nn.leaky_relu)
        x = tf.nn.leaky_relu(Conv2D("conv1", x, 64, strides=2, activation=norm))
        return Conv2D("score", x, 1)


def gradient_energy(image, name: str):
    """Return the mean square of the differences between neighboring pixels."""
    right = image[:, :, 1:] - image[:, :, :-1]
    down = image[:, 1:] - image[:, :-1]
    return tf.add(tf.reduce_mean(tf.square(right)), tf.reduce_mean(tf.square(down)), name=name)


class Model(GANModelDesc):
    """A U-Net with 1.5 million weights, and a discriminator that sees the input, too."""

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.plain = plain

    def inputs(self):
        return [tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8, name) for name in ("input", "target")]

    def build_graph(self, image, target):
        image = to_network(image)
        target = to_network(target)
        with tf.variable_scope(self.g_scope):
            generated = unet(image)
        to_sample([image, generated, target])
        with tf.variable_scope(self.d_scope):
            real = patch_scores(tf.concat([image, target], axis=3))
            fake = patch_scores(tf.concat([image, generated], axis=3))
        d_loss, adversarial = build_gan_losses(real, fake)
        l1 = tf.reduce_mean(tf.abs(generated - target), name="l1")
        energy = gradient_energy(generated, "energy")
        sharpness = tf.divide(energy, gradient_energy(target, "real_energy"), name="sharpness")
        add_moving_summary(l1, sharpness)
        adversarial_weight = 0.0 if self.plain else 1.0
        return d_loss, L1_WEIGHT * l1 + adversarial_weight * adversarial

    def optimizers(self):
        return tuple(tf.train.AdamOptimizer(2e-4, beta1=0.5) for _ in range(2))


def mean_distance(train: list, test: list) -> float:
    """Return the distance of the mean of the training targets to the test targets."""
    mean = np.mean([target for _, target in train], axis=0)
    return float(np.mean([np.abs(mean - target) for _, target in test]) / 127.5)


def main(argv=None) -> None:
    args = get_args(__doc__, "pix2pix", "scenes", max_epoch=4, argv=argv, flags=["--plain"])
    train, test = read_pairs(args.data, "train"), read_pairs(args.data, "test")
    pairs = AugmentImageComponents(DataFromList(train), [imgaug.Flip(horiz=True)])
    l1, sharpness = train_on_pairs(args, Model(args.plain), pairs, test, ["l1", "sharpness"])
    figures = {
        "L1 of the U-Net": l1,
        "L1 of the mean training image": mean_distance(train, test),
        "sharpness of the U-Net (real images: 1)": sharpness,
    }
    report(args, "distance and sharpness of generated test images", figures)


if __name__ == "__main__":
    main()

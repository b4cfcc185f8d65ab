"""
Conditional GAN: both networks get the label as an input, so the generator draws the requested digit.

Shows: a predictor that is fed an input of the model and an inner tensor; labels as channels of an image.
Expect: a sheet with ten rows, one for each digit from 0 to 9.

    python examples/gan/conditional_gan.py              1,437 digits from scikit-learn; no download
    python examples/gan/conditional_gan.py --data mnist MNIST, from $TENSORPACK_DATASET or --mnist-dir

Source: Mirza, Osindero 2014, "Conditional generative adversarial nets".
"""

from __future__ import annotations

import dcgan
import numpy as np
from gan_digits import (
    HELD_OUT,
    SIZE,
    SampleSheet,
    fixed_noise,
    get_args,
    make_trainer,
    random_noise,
    to_network,
    to_sample,
    train_gan,
)
from gan_trainer import build_gan_losses

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope


def with_label(image, label):
    """Add ten channels to images [N, 28, 28, 1]: the channel of the label is 1, the others are 0."""
    planes = tf.reshape(label, [-1, 1, 1, 10])
    planes = tf.tile(planes, [1, SIZE, SIZE, 1])  # [N, 28, 28, 10]
    return tf.concat([image, planes], axis=3)


@auto_reuse_variable_scope
def discriminator(image, label):
    """Map images and one-hot labels [N, 10] to scores [N, 1]."""
    return FullyConnected("score", dcgan.features(with_label(image, label)), 1)


class Model(dcgan.Model):
    """The networks of DCGAN, with the label as an additional input."""

    def build_graph(self, image, label):
        z = random_noise(image)
        label = tf.one_hot(label, 10)  # [N, 10]
        with tf.variable_scope(self.g_scope):
            generated = dcgan.generator(tf.concat([z, label], axis=1))
        to_sample(generated)
        with tf.variable_scope(self.d_scope):
            real = discriminator(to_network(image), label)
            fake = discriminator(generated, label)
        return build_gan_losses(real, fake)


def main(argv=None) -> None:
    args = get_args(__doc__, "conditional_gan", max_epoch=20, argv=argv)
    trainer = make_trainer(args, Model())
    digits = np.arange(10, dtype="int32")
    noise = np.tile(fixed_noise(8), [10, 1])  # a row of the sheet has a digit, a column the same noise
    sheet = SampleSheet({"z": noise, "label": np.repeat(digits, 8)}, columns=8)
    feeds = {"z": fixed_noise(HELD_OUT), "label": np.tile(digits, HELD_OUT // 10)}
    train_gan(trainer, args, sheet, feeds)


if __name__ == "__main__":
    main()

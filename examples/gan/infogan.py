"""
InfoGAN: part of the noise is a code that can be read back from the image, so that it comes to mean something.

Shows: a third network on the discriminator's features, a loss that both players share.
Expect: a sheet with a row for each of ten codes: images of a row resemble each other; `code_accuracy` goes towards 1.

    python examples/gan/infogan.py                      1,437 digits that scikit-learn brings; no network
    python examples/gan/infogan.py --data mnist         MNIST, from $TENSORPACK_DATASET or --mnist-dir

Source: Chen et al. 2016, "InfoGAN: Interpretable representation learning".
"""

from __future__ import annotations

import dcgan
import numpy as np
from gan_digits import (
    NOISE,
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
from tensorpack_lite.tfutils.summary import add_moving_summary

CODES = 10  # what a categorical code can be
SLANTS = 2  # continuous codes in [-1, 1]


@auto_reuse_variable_scope
def discriminator(image):
    """Images to scores [N, 1], the logits of their code [N, 10], and their continuous codes [N, 2]."""
    seen = dcgan.features(image)
    read = FullyConnected("read", seen, 64, activation=tf.nn.leaky_relu)
    return (
        FullyConnected("score", seen, 1),
        FullyConnected("code", read, CODES),
        FullyConnected("slant", read, SLANTS),
    )


def code_loss(code, logits, slant, read_slant):
    """What is lost of the codes on the way through the image; its negative is a bound of the mutual information."""
    lost = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=code, logits=logits)
    lost = tf.add(tf.reduce_mean(lost), 0.5 * tf.reduce_mean(tf.square(slant - read_slant)), name="code_loss")
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, code, 1), tf.float32), name="code_accuracy")
    add_moving_summary(lost, accuracy)
    return lost


class Model(dcgan.Model):
    """DCGAN's networks; the generator's noise ends with the codes, the discriminator has a second head that reads them."""

    def build_graph(self, image, label):
        z = random_noise(image)
        drawn = tf.random_uniform([tf.shape(image)[0]], 0, CODES, dtype=tf.int32)
        code = tf.placeholder_with_default(drawn, [None], name="code")
        with tf.variable_scope(self.g_scope):
            generated = dcgan.generator(tf.concat([z, tf.one_hot(code, CODES)], 1))
        to_sample(generated)
        with tf.variable_scope(self.d_scope):
            real = discriminator(to_network(image))[0]
            fake, logits, read_slant = discriminator(generated)
        d_loss, g_loss = build_gan_losses(real, fake)
        lost = code_loss(code, logits, z[:, :SLANTS], read_slant)
        return d_loss + lost, g_loss + lost


def sheet_feeds() -> dict:
    """A row for each code; along a row the first continuous code goes from -1 to 1, and the rest of the noise stays."""
    noise = np.tile(fixed_noise(1), [CODES * 8, 1])
    noise[:, 0] = np.tile(np.linspace(-1, 1, 8), CODES)
    assert noise.shape == (CODES * 8, NOISE)
    return {"z": noise, "code": np.repeat(np.arange(CODES, dtype="int32"), 8)}


def main(argv=None) -> None:
    args = get_args(__doc__, "infogan", max_epoch=20, argv=argv)
    train_gan(make_trainer(args, Model()), args, [SampleSheet(sheet_feeds(), columns=8)])


if __name__ == "__main__":
    main()

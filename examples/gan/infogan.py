"""
InfoGAN: part of the noise is a code that a third network recovers from the image, so the code becomes meaningful.

Shows: a third network on the discriminator's features, a loss term that both networks share.
Expect: a sheet with one row per code, whose images look similar. `code_accuracy` approaches 1.

    python examples/gan/infogan.py                      1,437 digits from scikit-learn; no download
    python examples/gan/infogan.py --data mnist         MNIST, from $TENSORPACK_DATASET or --mnist-dir

Source: Chen et al. 2016, "InfoGAN: Interpretable representation learning".
"""

from __future__ import annotations

import dcgan
import numpy as np
from gan_digits import (
    HELD_OUT,
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

CODES = 10  # values of the categorical code
STYLES = 2  # continuous codes in [-1, 1]


@auto_reuse_variable_scope
def discriminator(image):
    """Map images to scores [N, 1], logits of the categorical code [N, 10], and continuous codes [N, 2]."""
    features = dcgan.features(image)  # [N, 3136]
    hidden = FullyConnected("read", features, 64, activation=tf.nn.leaky_relu)
    score = FullyConnected("score", features, 1)
    code = FullyConnected("code", hidden, CODES)
    style = FullyConnected("style", hidden, STYLES)
    return score, code, style


def code_loss(code, logits, style, predicted_style):
    """Return the error of the recovered codes, a bound of their negative mutual information with the image."""
    code_error = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=code, logits=logits)  # [N]
    style_error = tf.square(style - predicted_style)  # [N, STYLES]
    error = tf.add(tf.reduce_mean(code_error), 0.5 * tf.reduce_mean(style_error), name="code_loss")
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, code, 1), tf.float32), name="code_accuracy")
    add_moving_summary(error, accuracy)
    return error


class Model(dcgan.Model):
    """The networks of DCGAN. The generator's input includes the codes, and the discriminator also predicts them."""

    def build_graph(self, image, label):
        z = random_noise(image)
        random_code = tf.random_uniform([tf.shape(image)[0]], 0, CODES, dtype=tf.int32)
        code = tf.placeholder_with_default(random_code, [None], name="code")
        with tf.variable_scope(self.g_scope):
            generated = dcgan.generator(tf.concat([z, tf.one_hot(code, CODES)], axis=1))
        to_sample(generated)
        with tf.variable_scope(self.d_scope):
            real, _, _ = discriminator(to_network(image))
            fake, logits, predicted_style = discriminator(generated)
        d_loss, g_loss = build_gan_losses(real, fake)
        style = z[:, :STYLES]  # the first numbers of the noise are the continuous codes
        error = code_loss(code, logits, style, predicted_style)
        return d_loss + error, g_loss + error


def sheet_feeds() -> dict:
    """Return inputs for a sheet with one row per code. In a row, the first continuous code goes from -1 to 1."""
    columns = 8
    noise = np.tile(fixed_noise(1), [CODES * columns, 1])  # the same noise for all samples, except for
    noise[:, 0] = np.tile(np.linspace(-1, 1, columns), CODES)  # the first continuous code
    codes = np.arange(CODES, dtype="int32")
    return {"z": noise, "code": np.repeat(codes, columns)}  # 0, 0, ..., 1, 1, ...


def main(argv=None) -> None:
    args = get_args(__doc__, "infogan", max_epoch=20, argv=argv)
    trainer = make_trainer(args, Model())
    sheet = SampleSheet(sheet_feeds(), columns=8)
    codes = np.arange(CODES, dtype="int32")
    feeds = {"z": fixed_noise(HELD_OUT), "code": np.tile(codes, HELD_OUT // CODES)}
    train_gan(trainer, args, sheet, feeds)


if __name__ == "__main__":
    main()

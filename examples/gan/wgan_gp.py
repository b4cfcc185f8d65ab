"""
WGAN-GP: WGAN with a penalty on the critic's gradient instead of clipped weights.

Shows: gradients in a cost, LayerNorm instead of BatchNorm, a model that overrides parts of another one.
Expect: `distance` falls to half of its maximum, and `slope` stays near 1.

    python examples/gan/wgan_gp.py                      1,437 digits from scikit-learn; no download
    python examples/gan/wgan_gp.py --data mnist         MNIST, from $TENSORPACK_DATASET or --mnist-dir

Source: Gulrajani et al. 2017, "Improved training of Wasserstein GANs".
"""

from __future__ import annotations

import wgan
from dcgan import generator
from gan_digits import (
    HELD_OUT,
    SampleSheet,
    fixed_noise,
    get_args,
    get_data,
    random_noise,
    to_network,
    to_sample,
    train_gan,
)
from gan_trainer import SeparateGANTrainer

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.summary import add_moving_summary

CRITIC_UPDATES = 3  # per update of the generator
PENALTY = 10.0


@auto_reuse_variable_scope
def critic(image):
    """Map images [N, 28, 28, 1] to scores [N, 1]. With BatchNorm each score would depend on the other images."""
    with argscope(Conv2D, kernel_size=4, strides=2):
        x = tf.nn.leaky_relu(Conv2D("conv0", image, 32))
        x = tf.nn.leaky_relu(LayerNorm("norm1", Conv2D("conv1", x, 64)))
    return FullyConnected("score", tf.reshape(x, [-1, 7 * 7 * 64]), 1)


def slopes_between(real, fake):
    """Return the norm of the critic's gradient [N] at random points between real and generated images."""
    position = tf.random_uniform([tf.shape(real)[0], 1, 1, 1])
    between = real + position * (fake - real)
    (gradient,) = tf.gradients(critic(between), between)  # [N, 28, 28, 1]
    return tf.sqrt(tf.reduce_sum(tf.square(gradient), [1, 2, 3]) + 1e-12)


class Model(wgan.Model):
    """The losses of WGAN, with a penalty for slopes other than 1 in the critic's loss."""

    def build_graph(self, image, label):
        z = random_noise(image)
        image = to_network(image)
        with tf.variable_scope(self.g_scope):
            generated = generator(z)
        to_sample(generated)
        with tf.variable_scope(self.d_scope):
            real = critic(image)
            fake = critic(generated)
            slopes = slopes_between(image, generated)
        add_moving_summary(tf.reduce_mean(slopes, name="slope"))
        d_loss, g_loss = self.build_losses(real, fake)
        penalty = PENALTY * tf.reduce_mean(tf.square(slopes - 1))
        return d_loss + penalty, g_loss

    def optimizers(self):
        critic_optimizer = tf.train.AdamOptimizer(5e-4, beta1=0.5, beta2=0.9)
        generator_optimizer = tf.train.AdamOptimizer(5e-4, beta1=0.5, beta2=0.9)
        return critic_optimizer, generator_optimizer


def main(argv=None) -> None:
    args = get_args(__doc__, "wgan_gp", max_epoch=12, argv=argv, has_towers=False)
    data = QueueInput(get_data(args.data, args.mnist_dir))
    trainer = SeparateGANTrainer(data, Model(), d_period=1, g_period=CRITIC_UPDATES)
    sheet = SampleSheet({"z": fixed_noise(80)}, columns=10)
    train_gan(trainer, args, sheet, {"z": fixed_noise(HELD_OUT)})


if __name__ == "__main__":
    main()

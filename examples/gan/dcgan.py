"""
DCGAN: a generator with transposed convolutions learns to draw digits.

Shows: GANTrainer (see gan_trainer.py), transposed convolutions, a sheet of samples after each epoch, several towers.
Expect: strokes after two epochs, digits after ten. See examples/README.md for times and docs/gan.md for a sheet.

    python examples/gan/dcgan.py                        1,437 digits from scikit-learn; no download
    python examples/gan/dcgan.py --data mnist           MNIST, from $TENSORPACK_DATASET or --mnist-dir
    python examples/gan/dcgan.py --gpus 2               two towers with a batch of 64 each

Source: Radford, Metz, Chintala 2015, "Unsupervised representation learning with deep convolutional GANs".
"""

from __future__ import annotations

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
from gan_trainer import GANModelDesc, build_gan_losses

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope


def generator(z):
    """Map noise [N, Z] to images [N, 28, 28, 1] in [-1, 1]."""
    # "internal": the moving averages are updated whenever the layer runs, also if a step has several runs.
    with argscope(BatchNorm, ema_update="internal"), argscope(Conv2DTranspose, kernel_size=4, strides=2):
        x = FullyConnected("fc", z, 7 * 7 * 64)
        x = tf.reshape(x, [-1, 7, 7, 64])
        x = BNReLU("bn0", x)
        x = Conv2DTranspose("deconv1", x, 32)  # [N, 14, 14, 32]
        x = BNReLU("bn1", x)
        return Conv2DTranspose("deconv2", x, 1, activation=tf.tanh)


def features(image):
    """Map images [N, 28, 28, 1] to the features [N, 3136] of the discriminator."""
    with argscope(Conv2D, kernel_size=4, strides=2, activation=tf.nn.leaky_relu):
        x = Conv2D("conv0", image, 32)  # [N, 14, 14, 32]
        x = Conv2D("conv1", x, 64)  # [N, 7, 7, 64]
        return tf.reshape(x, [-1, 7 * 7 * 64])


@auto_reuse_variable_scope  # the second call has the variables of the first
def discriminator(image):
    """Map images [N, 28, 28, 1] to scores [N, 1]; positive means real."""
    return FullyConnected("score", features(image), 1)


class Model(GANModelDesc):
    """A generator with about 170,000 weights and a discriminator with about 40,000."""

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE], tf.float32, "image"),  # in [0, 1]
            tf.TensorSpec([None], tf.int32, "label"),  # not used here; conditional_gan.py uses it
        ]

    def build_graph(self, image, label):
        z = random_noise(image)  # [N, 32]
        with tf.variable_scope(self.g_scope):
            generated = generator(z)  # [N, 28, 28, 1]
        sample = to_sample(generated)  # the tensor that SampleSheet draws, [N, 28, 28]
        tf.summary.image("generated", tf.expand_dims(sample, 3), max_outputs=3)
        with tf.variable_scope(self.d_scope):
            real = discriminator(to_network(image))
            fake = discriminator(generated)
        return self.build_losses(real, fake)

    def build_losses(self, real, fake):
        """Return the losses of both networks for the scores [N, 1] of real and generated images; wgan.py has others."""
        return build_gan_losses(real, fake)

    def optimizers(self):
        d_optimizer = tf.train.AdamOptimizer(2e-4, beta1=0.5)
        g_optimizer = tf.train.AdamOptimizer(1e-3, beta1=0.5)
        return d_optimizer, g_optimizer


def main(argv=None) -> None:
    args = get_args(__doc__, "dcgan", max_epoch=20, argv=argv)
    trainer = make_trainer(args, Model())
    sheet = SampleSheet({"z": fixed_noise(80)}, columns=10)
    feeds = {"z": fixed_noise(HELD_OUT)}  # of the samples that are compared with held-out images
    train_gan(trainer, args, sheet, feeds)


if __name__ == "__main__":
    main()

"""
WGAN: a critic estimates the distance between generated and real images. Its weights are clipped to keep it smooth.

Shows: SeparateGANTrainer with several updates of the critic per update of the generator, a callback after each step, a
model that overrides the losses of another one.
Expect: `distance`, the critic's estimate, rises while the critic learns, and then falls below half of its maximum.

    python examples/gan/wgan.py                         1,437 digits from scikit-learn; no download
    python examples/gan/wgan.py --data mnist            MNIST, from $TENSORPACK_DATASET or --mnist-dir

Source: Arjovsky, Chintala, Bottou 2017, "Wasserstein GAN".
"""

from __future__ import annotations

import dcgan
from gan_digits import HELD_OUT, SampleSheet, fixed_noise, get_args, get_data, train_gan
from gan_trainer import SeparateGANTrainer

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

CRITIC_UPDATES = 3  # per update of the generator
MAX_WEIGHT = 0.03


class Model(dcgan.Model):
    """The networks of DCGAN, with other losses."""

    def build_losses(self, real, fake):
        """Return the losses of both networks for the scores [N, 1] of real and generated images."""
        distance = tf.subtract(tf.reduce_mean(real), tf.reduce_mean(fake), name="distance")
        add_moving_summary(distance)
        d_loss = tf.negative(distance, name="d_loss")
        g_loss = tf.negative(tf.reduce_mean(fake), name="g_loss")
        return d_loss, g_loss

    def optimizers(self):
        return tf.train.RMSPropOptimizer(5e-4), tf.train.RMSPropOptimizer(5e-4)  # of the critic and the generator


class ClipWeights(Callback):
    """Clip the critic's weights to [-limit, limit] after each step."""

    def __init__(self, model: Model, limit: float = MAX_WEIGHT) -> None:
        self.model = model
        self.limit = limit

    def _setup_graph(self) -> None:
        critic, _ = self.model.get_gan_var_list()
        clipped = [tf.assign(w, tf.clip_by_value(w, -self.limit, self.limit)).op for w in critic]
        self.clip = tf.group(*clipped, name="clip_weights")

    def _trigger_step(self) -> None:
        self.clip.run()


def main(argv=None) -> None:
    args = get_args(__doc__, "wgan", max_epoch=20, argv=argv, has_towers=False)
    model = Model()
    data = QueueInput(get_data(args.data, args.mnist_dir))
    trainer = SeparateGANTrainer(data, model, d_period=1, g_period=CRITIC_UPDATES)
    sheet = SampleSheet({"z": fixed_noise(80)}, columns=10)
    train_gan(trainer, args, sheet, {"z": fixed_noise(HELD_OUT)}, [ClipWeights(model)])


if __name__ == "__main__":
    main()

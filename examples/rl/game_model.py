"""
Network and optimizer of the examples in this folder.

Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse

from rl_games import Game

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf


def features(state: tf.Tensor) -> tf.Tensor:
    """Map states to features [N, F]: two hidden layers or, for Atari, the network of Mnih et al. 2013 and 2016."""
    with argscope([Conv2D, FullyConnected], activation=tf.nn.relu), argscope(Conv2D, padding="VALID"):
        if state.dtype != tf.uint8:
            x = FullyConnected("fc0", state, 128)
            return FullyConnected("fc1", x, 128)
        image = tf.cast(state, tf.float32) / 255
        image = tf.transpose(image, [0, 2, 3, 1])  # [N, 84, 84, 4]
        image = Conv2D("conv0", image, 16, kernel_size=8, strides=4)
        image = Conv2D("conv1", image, 32, kernel_size=4, strides=2)
        return FullyConnected("fc0", image, 256)


class GameModel(ModelDesc):
    """Base class of the models. The learning rate decreases linearly to 0, so that the last policies are similar."""

    def __init__(self, args: argparse.Namespace, game: Game) -> None:
        super().__init__()
        self.args = args
        self.game = game

    def state_spec(self, name: str) -> tf.TensorSpec:
        return tf.TensorSpec([None, *self.game.shape], self.game.dtype, name)

    def optimizer(self):
        progress = tf.cast(get_global_step_var(), tf.float32)
        progress /= self.args.steps_per_epoch * self.args.max_epoch
        rate = self.args.learning_rate * tf.maximum(1 - progress, 0.0)
        adam = tf.train.AdamOptimizer(rate, epsilon=1e-5)
        return optimizer.apply_grad_processors(adam, [gradproc.GlobalNormClip(1)])

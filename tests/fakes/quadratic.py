"""A minimal trainer."""

from __future__ import annotations

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.train.base import Trainer


class QuadraticTrainer(Trainer):
    """Minimizes (x - 3)^2 by gradient descent with learning rate 0.25. Each step halves the distance to 3."""

    def __init__(self):
        super().__init__()
        self.x = tf.get_variable("x", initializer=0.0, use_resource=True)
        self.train_op = tf.train.GradientDescentOptimizer(0.25).minimize((self.x - 3.0) ** 2, name="train_op")

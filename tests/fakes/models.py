"""Small models: one variable with a closed-form solution, and the model of the recorded golden values."""

from __future__ import annotations

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils import summary
from tensorpack_lite.train import ModelDesc


class Mean(ModelDesc):
    """
    Minimizes mean((w - x)^2) with learning rate 0.25 from w = 0. If all data is 3, each step halves the distance to 3.
    """

    def inputs(self):
        return [TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=0.0)
        cost = tf.reduce_mean((w - x) ** 2, name="cost")
        summary.add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.25)


class FinalW(Callback):
    """Keeps the weight of Mean at the end of training, as `w`."""

    def _after_train(self):
        self.w = float(self.trainer.sess.run(self.trainer.find_tensor("w")))


def threes(size=10):
    """Return data for `Mean`: batches of four threes."""
    return DataFromList([[[3.0] * 4]] * size, shuffle=False)


class Golden(ModelDesc):
    """The model of the recorded golden values: a fully connected layer, BatchNorm, and a learning rate in a variable."""

    def inputs(self):
        return [TensorSpec([None, 3], tf.float32, "x"), TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        from tensorpack_lite.models import BatchNorm, FullyConnected

        logits = BatchNorm("bn", FullyConnected("fc", x, 2))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y)
        cost = tf.reduce_mean(losses, name="cost")
        tf.identity(cost * 2, name="total")
        summary.add_moving_summary(cost)
        summary.add_param_summary((".*/W", ["rms", "histogram"]))
        tf.summary.scalar("rawcost", cost)
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9)

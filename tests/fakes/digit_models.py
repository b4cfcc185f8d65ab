"""A convnet and an LSTM that learn the embedded digits in seconds, and a function that trains them."""

from __future__ import annotations

from tensorpack_lite.callbacks import InferenceRunner, ScalarStats
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import BatchData
from tensorpack_lite.dataflow.dataset import Digits
from tensorpack_lite.models import LSTM, BNReLU, Conv2D, Dropout, FullyConnected, MaxPooling
from tensorpack_lite.train import ModelDesc, SimpleTrainer, TrainConfig, launch_train_with_config
from tensorpack_lite.utils.random_streams import fix_rng_seed

__all__ = ["ConvNet", "Recurrent", "digits", "train_digits"]


class _Digits(ModelDesc):
    rate = 1e-3

    def inputs(self):
        return [TensorSpec([None, 8, 8], tf.float32, "image"), TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        logits = self.logits(image - 0.5)
        tf.nn.softmax(logits, name="prob")
        correct = tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32)
        tf.reduce_mean(correct, name="accuracy")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(losses, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(self.rate)


class ConvNet(_Digits):
    """A convnet with a residual connection, BatchNorm and Dropout."""

    def logits(self, image):
        """Return [N, 10]."""
        x = Conv2D("conv0", tf.expand_dims(image, 3), 16, 3, activation=BNReLU)
        x = tf.nn.relu(x + Conv2D("conv1", x, 16, 3, activation=BNReLU))
        x = Conv2D("conv2", MaxPooling("pool", x, 2), 32, 3, activation=tf.nn.relu)
        return FullyConnected("linear", Dropout("drop", x, rate=0.1), 10)


class Recurrent(_Digits):
    """An LSTM over the rows of an image."""

    rate = 3e-3

    def logits(self, image):
        """Return [N, 10]."""
        _, state = LSTM("rnn", image, 64)
        return FullyConnected("linear", state.h, 10)


def digits(name):
    """Return the batches of a part of the data, "train" or "test"."""
    return BatchData(Digits(name, size=8, shuffle=name == "train"), 64, remainder=name == "test")


def train_digits(model, max_epoch, callbacks=(), **kwargs):
    """Train from fixed seeds in the default graph. Return the trainer, whose monitors have `validation_accuracy`."""
    tf.set_random_seed(1)
    fix_rng_seed(1)
    trainer = SimpleTrainer()
    runner = InferenceRunner(digits("test"), ScalarStats(["accuracy", "cost"]))
    config = TrainConfig(
        model=model,
        dataflow=digits("train"),
        callbacks=[*callbacks, runner],
        max_epoch=max_epoch,
        monitors=[],
        **kwargs,
    )
    launch_train_with_config(config, trainer)
    return trainer

"""
Two ranks that train with TerminateOnNaN: `nan_ranks.py DIRECTORY CASE`, started by the launcher.

Sample 3 of the fifth batch of rank 1 is bad: its loss is NaN (case "loss"), or only its gradient is (case "gradient"). Rank r logs
to DIRECTORY/r, and writes the weights that it has at the end to DIRECTORY/r.npz.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from tensorpack_lite import Callback, FeedInput, logger
from tensorpack_lite.callbacks import TerminateOnNaN
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.train.collective import CollectiveTrainer

BATCH, RATE = 8, 0.1


def batches(rank):
    """Twelve batches [x] of a rank, all positive."""
    return [
        [np.random.RandomState(100 * rank + i).uniform(0.5, 1, BATCH).astype("float32")] for i in range(12)
    ]


def loss(x):
    """w * mean(x), NaN if an x is negative."""
    w = tf.get_variable("w", initializer=1.0)
    return tf.reduce_mean(w * x * tf.sqrt(tf.sign(x), name="root"), name="cost")


def gradient(x):
    """The mean of sqrt(w * x), whose gradient is NaN for x = 0."""
    w = tf.get_variable("w", initializer=1.0)
    return tf.reduce_mean(tf.sqrt(w * x), name="cost")


class Keep(Callback):
    """Writes the weight at the end."""

    _chief_only = False

    def __init__(self, path):
        self.path = path

    def _after_train(self):
        np.savez(self.path, w=self.trainer.sess.run(self.trainer.find_tensor("w")))


def main(directory, case):
    trainer = CollectiveTrainer(time_limit=30)
    logger.set_logger_dir(os.path.join(directory, str(trainer.rank)), action="d")
    data = batches(trainer.rank)
    if trainer.rank == 1:
        data[4][0][3] = -1 if case == "loss" else 0
    trainer.setup_graph(
        [tf.TensorSpec([None], tf.float32, "x")],
        FeedInput(DataFromList(data, shuffle=False)),
        {"loss": loss, "gradient": gradient}[case],
        lambda: tf.train.GradientDescentOptimizer(RATE),
    )
    trainer.train_with_defaults(
        callbacks=[TerminateOnNaN(), Keep(os.path.join(directory, f"{trainer.rank}.npz"))],
        monitors=[],
        extra_callbacks=[],
        steps_per_epoch=10,
        max_epoch=1,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

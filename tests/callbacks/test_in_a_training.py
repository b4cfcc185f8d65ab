"""Callbacks in a complete training with SimpleTrainer. For the files it writes, see integration/test_golden.py."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from fakes.recording import RecordingMonitor
from fakes.trainers import launch

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.summary import MergeAllSummaries
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.tfutils.summary import add_moving_summary, add_param_summary
from tensorpack_lite.train import (
    ModelDesc,
    SyncMultiGPUTrainerReplicated,
)
from tensorpack_lite.train.simple import SimpleTrainer

SIGNATURE = [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]
BATCH = [np.ones([4, 3], "float32"), np.array([0, 1, 0, 1], "int32")]


def model(x, y):
    """A layer `fc`, and the summaries of the golden model."""
    with tf.variable_scope("fc"):
        weight = tf.get_variable("W", [3, 2], initializer=tf.ones_initializer())
        bias = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
    logits = tf.add(tf.matmul(x, weight), bias, name="logits")
    cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y), name="cost")
    tf.add(cost, 1.0, name="total")
    add_moving_summary(cost)
    add_param_summary((".*/W", ["rms", "histogram"]))
    tf.summary.scalar("rawcost", cost)
    return cost


def data(size=10):
    """Return a DataFlow of `size` equal batches."""
    return DataFromList([BATCH] * size, shuffle=False)


def optimizer():
    """The golden optimizer."""
    rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
    return tf.train.MomentumOptimizer(rate, 0.9)


def train(callbacks, monitors=None, steps=2, epochs=2):
    """Train the golden model with the default extra callbacks."""
    trainer = SimpleTrainer()
    trainer.setup_graph(SIGNATURE, FeedInput(data()), model, optimizer)
    trainer.train_with_defaults(callbacks=callbacks, monitors=monitors, steps_per_epoch=steps, max_epoch=epochs)
    return trainer


@pytest.mark.slow
def test_the_average_is_the_updated_one(log_dir):
    """The reported moving average includes the last step, and validation sees the variables after it."""
    train([ModelSaver(), InferenceRunner(data(5), ScalarStats(["cost", "total"]))])
    with open(os.path.join(log_dir, "stats.json")) as file:
        first, second = json.load(file)

    # Two classes, equally often, with equal weights: log 2, and no gradient can change it.
    for value in (first["cost"], first["rawcost"], first["validation_cost"], second["validation_cost"]):
        assert np.log(2) == pytest.approx(value, rel=1e-5)
    assert np.log(2) + 1 == pytest.approx(first["validation_total"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("period", [0, 2])
def test_summaries_alone_with_staging(period):
    """Summaries in a separate run see the staged datapoint of the next step and do not take it, so no step blocks."""

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([None], tf.float32, "x")]

        def build_graph(self, x):
            weight = tf.get_variable("w", initializer=0.0)
            cost = tf.reduce_mean(tf.square(weight - x), name="cost")
            tf.summary.scalar("first", x[0])
            return cost

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.01)

    trainer, monitor = SyncMultiGPUTrainerReplicated(2), RecordingMonitor()
    launch(
        trainer,
        model=Model(),
        dataflow=DataFromList([[np.float32([i])] for i in range(40)], shuffle=False),
        extra_callbacks=[MergeAllSummaries(period, run_alone=True)],
        monitors=[monitor],
        steps_per_epoch=3,
        max_epoch=3,
    )
    steps = [step for step, _ in trainer.monitors.get_history("first")]
    assert ([3, 6, 9] if period == 0 else [2, 3, 5, 6, 8, 9]) == steps

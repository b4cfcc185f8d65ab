"""Callbacks in a complete training with SimpleTrainer. For the files it writes, see integration/test_golden.py."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from fakes.recording import RecordingCallback, RecordingMonitor

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.summary import MergeAllSummaries
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.tfutils.summary import add_moving_summary, add_param_summary
from tensorpack_lite.train import (
    ModelDesc,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
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
    cost = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y), name="cost"
    )
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
    trainer.train_with_defaults(
        callbacks=callbacks, monitors=monitors, steps_per_epoch=steps, max_epoch=epochs
    )
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


class TestTrace:
    @pytest.mark.slow
    def test_the_order_of_moments(self, log_dir):
        """Each method is called on the user's callbacks, then on the monitors, in their order."""
        order = []
        first, second = RecordingCallback("A", log=order), RecordingCallback("B", log=order)

        class TracingMonitor(RecordingCallback, RecordingMonitor):
            def __init__(self) -> None:
                RecordingMonitor.__init__(self)
                RecordingCallback.__init__(self, "mon", log=order)

            def process_scalar(self, name, val) -> None:
                order.append((f"at {self.global_step}", f"scalar {name}"))

        train([first, ModelSaver(), second], [TracingMonitor()], steps=1, epochs=1)
        order = [
            f"{moment} {name}" for name, moment, *_ in order if moment not in ("setup_graph", "trigger_epoch")
        ]

        moments = [
            *("before_train", "before_epoch", "before_run", "after_run", "trigger_step"),
            *("after_epoch", "trigger", "after_train"),
        ]
        expected = [f"{moment} {name}" for moment in moments for name in ("A", "B", "mon")]
        place = expected.index("after_run mon")  # MergeAllSummaries stands between B and the monitors
        scalars = [entry for entry in order if entry.startswith("scalar")]
        assert {"scalar cost at 1", "scalar rawcost at 1", "scalar param-summary/fc/W-rms at 1"} == set(
            scalars
        )
        assert [*expected[:place], *scalars, *expected[place:]] == order

    @pytest.mark.slow
    def test_counters(self):
        """A user's callback sees the expected counters in each method, and a unique name scope."""
        first, second = RecordingCallback(), RecordingCallback()
        train([first, second], monitors=[])

        assert ("RecordingCallback", "RecordingCallback_1") == (first.name_scope_seen, second.name_scope_seen)
        epoch_1 = [
            ("setup_graph", 0, 0, -1), ("before_train", 0, 0, -1), ("before_epoch", 1, 0, -1),
            ("before_run", 1, 0, 0), ("after_run", 1, 1, 0), ("trigger_step", 1, 1, 0),
            ("before_run", 1, 1, 1), ("after_run", 1, 2, 1), ("trigger_step", 1, 2, 1),
            ("after_epoch", 1, 2, 1), ("trigger_epoch", 1, 2, 1), ("trigger", 1, 2, 1),
        ]  # fmt: skip
        assert epoch_1 == first.counters[: len(epoch_1)]
        assert ("before_epoch", 2, 2, 1) == first.counters[len(epoch_1)]
        assert ("after_train", 2, 4, 1) == first.counters[-1]

    @pytest.mark.slow
    def test_the_session_is_open_in_after_train(self):
        """The session is open in after_train and closed after training."""
        seen = []

        class Read(Callback):
            def _after_train(self) -> None:
                seen.append(int(self.trainer.sess.run(tf.train.get_global_step())))

        trainer = train([Read()], monitors=[])

        assert [4] == seen
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(trainer.train_op)


@pytest.mark.slow
def test_an_interrupted_epoch_leaves_no_checkpoint(log_dir):
    """StopTraining at step 2 of 3 leaves no checkpoint and no element in stats.json."""

    class Stop(Callback):
        def _trigger_step(self) -> None:
            if self.global_step == 2:
                raise StopTraining

    train([Stop(), ModelSaver()], [JSONWriter()], steps=3, epochs=1)

    assert not os.path.exists(os.path.join(log_dir, "checkpoint"))
    assert not os.path.exists(os.path.join(log_dir, "stats.json"))


@pytest.mark.slow
def test_a_second_training_in_one_process(log_dir):
    """A second training with new objects in a new graph starts at step 0 and moves the old stats.json."""
    for _ in range(2):
        with tf.Graph().as_default():
            trainer = train([ModelSaver()])
            assert 4 == trainer.global_step

    moved = [name for name in os.listdir(log_dir) if name.startswith("stats.json.")]
    assert 1 == len(moved)


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
    config = TrainConfig(
        model=Model(),
        dataflow=DataFromList([[np.float32([i])] for i in range(40)], shuffle=False),
        callbacks=[],
        extra_callbacks=[MergeAllSummaries(period, run_alone=True)],
        monitors=[monitor],
        steps_per_epoch=3,
        max_epoch=3,
    )
    launch_train_with_config(config, trainer)
    steps = [step for step, _ in trainer.monitors.get_history("first")]
    assert ([3, 6, 9] if period == 0 else [2, 3, 5, 6, 8, 9]) == steps

"""Rules of lint about what nothing reads, updates or saves, in a script with callbacks that read, average and save all variables."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.linted import Classifier, images, lint

from tensorpack_lite.callbacks.ema import EMAWeights, SwapEMAWeights
from tensorpack_lite.callbacks.graph import CheckNumerics, RunUpdateOps
from tensorpack_lite.callbacks.inference import ClassificationError, ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.steps import ProgressBar
from tensorpack_lite.callbacks.summary import MergeAllSummaries, MovingAverageSummary
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, Dropout, FullyConnected
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.summary import add_moving_summary, add_param_summary
from tensorpack_lite.tfutils.tower.context import get_current_tower_context

SHAPES = {"hidden/W": (192, 8), "hidden/b": (8,), "fc/W": (8, 10), "fc/b": (10,)}


def cross_entropy(logits, label):
    """Return the mean cross entropy."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def right(image, label):
    """A model with the usual layers and summaries."""
    hidden = Dropout(BatchNorm("bn", FullyConnected("hidden", image, 8)), rate=0.5)
    logits = FullyConnected("fc", hidden, 10)
    cost = cross_entropy(logits, label)
    wrong = tf.cast(tf.math.logical_not(tf.nn.in_top_k(logits, label, 1)), tf.float32, name="incorrect")
    add_moving_summary(cost, tf.reduce_mean(wrong, name="error"))
    add_param_summary((".*/W", ["histogram", "rms"]))
    return cost


class Model(Classifier):
    """A classifier whose learning rate has a summary, a moving average, and a summary of its logarithm."""

    def optimizer(self):
        optimizer = super().optimizer()
        with tf.variable_scope("", reuse=True):
            rate = tf.get_variable("learning_rate")
        tf.summary.scalar("rate", rate)
        tf.summary.scalar("log_rate", tf.math.log(rate))
        add_moving_summary(tf.identity(rate, name="mean_rate"))
        return optimizer


def usual_callbacks(saves=True, updates=True):
    """Return the callbacks of a script, with the default ones at the end."""
    average = EMAWeights()
    runner = InferenceRunner(images(), [ScalarStats("cost"), ClassificationError("incorrect", "val")])
    savers = [
        ModelSaver(),
        MinSaver("validation_cost"),
        PeriodicTrigger(TopKSaver("validation_cost", filename="top"), every_k_epochs=2),
    ]
    return [
        average,
        SwapEMAWeights(runner, average),
        *(savers if saves else []),
        CheckNumerics(),
        ScheduledHyperParamSetter("learning_rate", [(1, 0.1), (5, 0.01)]),
        MovingAverageSummary(),
        ProgressBar(),
        MergeAllSummaries(),
        *([RunUpdateOps()] if updates else []),
    ]


def unused_layer(image, label):
    FullyConnected("other", image, 3)
    return right(image, label)


def argmax_on_the_way(image, label):
    chosen = tf.argmax(FullyConnected("other", image, 3, use_bias=False), 1)
    return right(image, label) + tf.reduce_mean(tf.cast(chosen, tf.float32))


def averages_without_update(image, label):
    return right(BatchNorm("averages", image, training=False), label)


def mean_of_each_tower(image, label):
    mean = tf.Variable(0.0, trainable=False, name="mean")
    if get_current_tower_context().is_training:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, mean.assign(tf.reduce_mean(image)).op)
    return right(image - mean, label)


def terms_in_any_order(image, label):
    tf.set_random_seed(1)
    cost = right(image, label)
    return tf.square(tf.raw_ops.AccumulateNV2(inputs=[cost, cost * 2, cost * 3], shape=[]))


def resumes():
    """Return an initializer like that of an AutoResumeTrainConfig."""
    init = SmartInit(None)
    init.expects_checkpoints = True
    return init


GRAPH_FAULTS = {
    "G01 unused": ("G01", unused_layer, {}),
    "G01 no gradient": ("G01", argmax_on_the_way, {}),
    "G04": ("G04", right, {"reads_rate": False}),
    "G05 idle": ("G05", right, {"callbacks": lambda: usual_callbacks(updates=False)}),
    "G05 averages": ("G05", averages_without_update, {}),
    "G10": (
        "G10",
        right,
        {"init": lambda: {f"old/{name}": np.ones(shape) for name, shape in SHAPES.items()}},
    ),
    "G12": ("G12", mean_of_each_tower, {}),
    "G14": ("G14", right, {"callbacks": lambda: [MinSaver("val", filename="early"), *usual_callbacks()]}),
    "G30": ("G30", terms_in_any_order, {}),
    "G22": ("G22", right, {"callbacks": lambda: usual_callbacks(saves=False), "init": resumes}),
}


def rules_of(get_cost, callbacks=usual_callbacks, init=lambda: None, reads_rate=True):
    """Build a training up to its session. Return the ids of the remarks about it."""
    return {remark.rule for remark in lint(None, callbacks(), init(), model=Model(get_cost, reads_rate))}


@pytest.mark.matrix
@pytest.mark.parametrize(("rule", "get_cost", "settings"), GRAPH_FAULTS.values(), ids=list(GRAPH_FAULTS))
def test_a_mistake(log_dir, rule, get_cost, settings):
    """Rules about what nothing reads, updates or saves find their mistake, and no other rule has a remark."""
    assert {rule} == rules_of(get_cost, **settings)


def test_a_training_without_mistakes(log_dir):
    """A usual script has no remark."""
    assert set() == rules_of(right)

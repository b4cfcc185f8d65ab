"""Each rule of lint finds its mistake in a script with the callbacks of real scripts, which read, average and save all variables."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.linted import Classifier, images, validation

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
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.runner import MultiProcessRunner
from tensorpack_lite.diagnostics.lint.lint import lint_training
from tensorpack_lite.diagnostics.lint.rules import RULE_IDS
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BatchNorm, Dropout, FullyConnected, regularize_cost
from tensorpack_lite.tfutils.precision import precision_scope
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.summary import add_moving_summary, add_param_summary
from tensorpack_lite.tfutils.tower.context import get_current_tower_context
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.exact.what_is_exact import begin_exact_resume
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils.notes import read_notes

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


def usual_callbacks(runner=None, saves=True, updates=True):
    """Return the callbacks of a script, with the default ones at the end."""
    average = EMAWeights()
    runner = runner or InferenceRunner(
        images(), [ScalarStats("cost"), ClassificationError("incorrect", "val")]
    )
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


def no_image(image, label):
    tf.ones([4], name="incorrect")
    return cross_entropy(FullyConnected("fc", tf.ones([4, 8]), 10), label)


def softmax_twice(image, label):
    return right(image, label) + cross_entropy(tf.nn.softmax(FullyConnected("again", image, 10)), label)


def averages_without_update(image, label):
    return right(BatchNorm("averages", image, training=False), label)


def plain_dropout(image, label):
    return right(tf.nn.dropout(image, rate=0.5), label)


def wraps_around(image, label):
    return right(tf.cast(tf.cast(image * 255, tf.uint8) + 50, tf.float32), label)


def regularizes_nothing(image, label):
    return right(image, label) + regularize_cost("dense.*/W", tf.nn.l2_loss)


def sum_of_losses(image, label):
    logits = FullyConnected("fc", image, 10)
    tf.ones([4], name="incorrect")
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def mean_of_each_tower(image, label):
    mean = tf.Variable(0.0, trainable=False, name="mean")
    if get_current_tower_context().is_training:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, mean.assign(tf.reduce_mean(image)).op)
    return right(image - mean, label)


@precision_scope("mixed_float16")
def own_product(image, label):
    weights = tf.get_variable("own", [192, 8])
    return right(tf.matmul(tf.reshape(image, [-1, 192]), weights), label)


@precision_scope("mixed_float16")
def softmax_in_16_bits(image, label):
    return right(tf.nn.softmax(tf.cast(image, tf.float16)), label)


class Misnamed(Callback):
    """A callback with a method of Keras."""

    def on_epoch_end(self):
        pass


class IdleRunner(MultiProcessRunner):
    """A runner whose processes are not started."""

    def reset_state(self):
        pass


def with_runner(data, infs="cost"):
    """Return the usual callbacks with validation on other data."""
    return usual_callbacks(InferenceRunner(data, ScalarStats(infs)))


def resumes():
    """Return an initializer like that of an AutoResumeTrainConfig."""
    init = SmartInit(None)
    init.expects_checkpoints = True
    return init


GRAPH_FAULTS = {
    "G01 unused": ("G01", unused_layer, {}),
    "G01 no gradient": ("G01", argmax_on_the_way, {}),
    "G02": ("G02", no_image, {}),
    "G03": ("G03", softmax_twice, {}),
    "G04": ("G04", right, {"reads_rate": False}),
    "G05 idle": ("G05", right, {"callbacks": lambda: usual_callbacks(updates=False)}),
    "G05 averages": ("G05", averages_without_update, {}),
    "G06": ("G06", plain_dropout, {}),
    "G08": ("G08", wraps_around, {}),
    "G09": ("G09", regularizes_nothing, {}),
    "G10": (
        "G10",
        right,
        {"init": lambda: {f"old/{name}": np.ones(shape) for name, shape in SHAPES.items()}},
    ),
    "G11": ("G11", sum_of_losses, {}),
    "G12": ("G12", mean_of_each_tower, {}),
    "G13": ("G13", plain_dropout, {"exact": True, "ignore": ["G06"]}),
    "G14": ("G14", right, {"callbacks": lambda: [MinSaver("val", filename="early"), *usual_callbacks()]}),
    "G15": ("G15", right, {"steps": 40}),
    "G16": ("G16", own_product, {}),
    "G17": ("G17", softmax_in_16_bits, {}),
    "G18": ("G18", right, {"callbacks": lambda: with_runner(BatchData(images(38).ds, 4))}),
    "G19": (
        "G19",
        right,
        {"callbacks": lambda: with_runner(IdleRunner(images(), 2, 2))},
    ),
    "G20": ("G20", right, {"callbacks": lambda: with_runner(BatchData(images(38).ds, 4, remainder=True))}),
    "G21": ("G21", right, {"callbacks": lambda: [Misnamed(), *usual_callbacks()]}),
    "G22": ("G22", right, {"callbacks": lambda: usual_callbacks(saves=False), "init": resumes}),
}


def rules_of(
    get_cost,
    callbacks=usual_callbacks,
    init=lambda: None,
    steps=10,
    exact=False,
    ignore=(),
    reads_rate=True,
):
    """Build a training up to its session. Return the ids of the remarks about it."""
    model, trainer = Model(get_cost, reads_rate), SimpleTrainer()
    if exact:
        begin_exact_resume()
    trainer.setup_graph(
        model.get_input_signature(), FeedInput(images()), model.build_graph, model.get_optimizer
    )
    trainer.setup_callbacks(callbacks(), [])
    return {remark.rule for remark in lint_training(trainer, SmartInit(init()), "warn", ignore, steps)}


@pytest.mark.matrix
@pytest.mark.parametrize(("rule", "get_cost", "settings"), GRAPH_FAULTS.values(), ids=list(GRAPH_FAULTS))
def test_a_mistake(log_dir, rule, get_cost, settings):
    """Each rule finds its mistake, and no other rule has a remark."""
    assert {rule} == rules_of(get_cost, **settings)


def test_a_training_without_mistakes(log_dir):
    """A usual script has no remark."""
    assert set() == rules_of(right)


def sorted_labels():
    blank = np.ones((8, 8, 3), "float32")
    return BatchData(DataFromList([[blank, k // 1000] for k in range(10000)], shuffle=False), 500)


def with_copies():
    noise = np.random.RandomState(0).rand(1000, 8, 8, 3).astype("float32")
    return BatchData(DataFromList([[noise[k // 2], k % 10] for k in range(2000)], shuffle=False), 100)


def linear(image, label):
    return cross_entropy(FullyConnected("fc", image, 10), label)


DATA_FAULTS = {
    "D01": ("D01", sorted_labels, right, {}),
    "D02": ("D02", lambda: images(scale=np.inf), linear, {}),
    "D03": ("D03", lambda: images(scale=255), right, {}),
    "D04": ("D04", with_copies, right, {}),
    "T01": (
        "T01",
        images,
        lambda image, label: cross_entropy(1e5 * FullyConnected("fc", image, 10), label),
        {},
    ),
    "T02": (
        "T02",
        images,
        lambda image, label: cross_entropy(FullyConnected("fc", image * 1e-6, 10, use_bias=False), label),
        {"lint": "deep"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "data", "get_cost", "settings"), DATA_FAULTS.values(), ids=list(DATA_FAULTS)
)
def test_a_mistake_in_data(log_dir, rule, data, get_cost, settings):
    """Each rule about data and about the first steps finds its mistake."""
    average = EMAWeights()
    swapped = SwapEMAWeights(validation(), average)
    config = TrainConfig(
        model=Classifier(get_cost),
        data=FeedInput(data()),
        callbacks=[average, swapped, ModelSaver(), MinSaver("validation_cost", strict=False)],
        steps_per_epoch=8,
        max_epoch=1,
        **settings,
    )
    with tf.Graph().as_default():
        launch_train_with_config(config, SimpleTrainer())
    assert rule in {note["rule"] for note in read_notes(log_dir) if note["kind"] == "lint"}


def test_all_rules_are_here():
    """Each rule has a mistake on this page."""
    assert set(RULE_IDS) == {fault[0] for fault in [*GRAPH_FAULTS.values(), *DATA_FAULTS.values()]}

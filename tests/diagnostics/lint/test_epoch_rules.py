"""Rules of lint about the sign of a cross entropy, and about the numbers of the first epoch."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.linted import Classifier, lint

from tensorpack_lite.callbacks.inference import ClassificationError, ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.param.setter import HyperParamSetterWithFunc
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.lint.epoch_rules import FirstEpoch
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.models import FullyConnected, l2_regularizer, regularize_cost
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer


def logits_of(image, name="fc"):
    """Return logits [N, 10]."""
    return FullyConnected(name, image, 10, kernel_initializer=tf.zeros_initializer())


def losses_of(image, label):
    """Return the cross entropies of the samples, [N]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits_of(image), labels=label)


def right(image, label):
    return tf.reduce_mean(losses_of(image, label))


def log_of(image, label):
    """Return one-hot labels and logarithms of probabilities, [N, 10] each."""
    return tf.one_hot(label, 10), tf.math.log(tf.nn.softmax(logits_of(image)) + 1e-8)


def binary(image, label):
    """Return logits and labels of a binary classification, [N] each."""
    return tf.squeeze(FullyConnected("fc", image, 1), 1), tf.cast(label > 4, tf.float32)


# G29
def without_minus(image, label):
    truth, logarithm = log_of(image, label)
    return tf.reduce_mean(tf.reduce_sum(truth * logarithm, 1))


def without_minus_log_softmax(image, label):
    cost = tf.reduce_mean(tf.nn.log_softmax(logits_of(image)) * tf.one_hot(label, 10))
    return cost + 1e-4 * tf.nn.l2_loss(tf.trainable_variables()[0])


def with_minus(image, label):
    return -tf.reduce_mean(losses_of(image, label))


def with_a_negative_factor(image, label):
    return tf.reduce_mean(-1.0 * losses_of(image, label))


def binary_without_minus(image, label):
    logits, truth = binary(image, label)
    p = tf.clip_by_value(tf.sigmoid(logits), 1e-6, 1 - 1e-6)
    return tf.reduce_mean(truth * tf.math.log(p) + (1 - truth) * tf.math.log(1 - p))


def sigmoid_with_minus(image, label):
    logits, truth = binary(image, label)
    return tf.negative(tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=truth, logits=logits)))


def binary_of_numbers_without_minus(image, label):
    truth, logits = tf.reduce_mean(image, [1, 2, 3]), FullyConnected("fc", image, 1)[:, 0]
    p = tf.sigmoid(logits)
    return tf.reduce_mean(truth * tf.math.log(p + 1e-7) + (1 - truth) * tf.math.log(1 - p + 1e-7))


def _gathered(image, label):
    p = tf.nn.softmax(logits_of(image)) + 1e-8
    return tf.gather_nd(tf.math.log(p), tf.stack([tf.range(tf.shape(label)[0]), label], 1))


def gathered_without_minus(image, label):
    return tf.reduce_mean(_gathered(image, label))


def gathered(image, label):
    return -tf.reduce_mean(_gathered(image, label))


def policy_gradient_of_gathered(image, label):
    return tf.reduce_mean(_gathered(image, label) * (tf.reduce_mean(image, [1, 2, 3]) - 0.5))


def two_policy_gradients(image, label):
    p, advantage = tf.sigmoid(FullyConnected("fc", image, 1)[:, 0]), tf.reduce_mean(image, [1, 2, 3]) - 0.5
    return tf.reduce_mean(advantage * tf.math.log(p) + (0.5 - advantage) * tf.math.log(1 - p))


def own_cross_entropy(image, label):
    truth, logarithm = log_of(image, label)
    return -tf.reduce_mean(tf.reduce_sum(truth * logarithm, 1))


def own_binary_cross_entropy(image, label):
    logits, truth = binary(image, label)
    p = tf.clip_by_value(tf.sigmoid(logits), 1e-6, 1 - 1e-6)
    return tf.reduce_mean(-truth * tf.math.log(p) - (1 - truth) * tf.math.log(1 - p))


def adversary(image, label):
    logits = logits_of(image, "adversary")
    return right(image, label) - tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    )


def policy_gradient(image, label):
    truth, logarithm = log_of(image, label)
    advantage = tf.reduce_mean(image, [1, 2, 3]) - 0.5
    return tf.reduce_mean(tf.reduce_sum(truth * logarithm, 1) * advantage)


def policy_gradient_of_cross_entropies(image, label):
    return tf.reduce_mean(losses_of(image, label) * (tf.reduce_mean(image, [1, 2, 3]) - 0.5))


def entropy(image, label):
    p = tf.nn.softmax(logits_of(image))
    return tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p), 1))


def weighted_mean(image, label):
    return tf.losses.sparse_softmax_cross_entropy(label, logits_of(image), weights=tf.cast(label > 2, tf.float32))


@pytest.mark.parametrize(
    "get_cost",
    [without_minus, without_minus_log_softmax, with_minus, with_a_negative_factor, binary_without_minus, sigmoid_with_minus,
     binary_of_numbers_without_minus, gathered_without_minus],
    ids=lambda value: value.__name__,
)  # fmt: skip
def test_wrong_signs(get_cost):
    """A cross entropy without its minus sign, or with one too many, has a remark before the first step."""
    (remark,) = lint(get_cost)
    assert "G29" == remark.rule
    assert "falls when predictions get worse" in remark.text
    assert remark.place


@pytest.mark.parametrize(
    "get_cost",
    [right, own_cross_entropy, own_binary_cross_entropy, adversary, policy_gradient, policy_gradient_of_cross_entropies,
     entropy, weighted_mean, gathered, policy_gradient_of_gathered, two_policy_gradients],
    ids=lambda value: value.__name__,
)  # fmt: skip
def test_right_signs(get_cost):
    """Cross entropies with the right sign, adversaries, policy gradients and entropies have no remark."""
    assert [] == lint(get_cost)


# The numbers of the first epoch
def prototypes(count=200, shift=0, labels=10):
    """Return a separable data set of images whose labels are moved by `shift`."""
    random = np.random.RandomState(0)
    centers = random.rand(10, 8, 8, 3).astype("float32")
    rows = [
        [centers[k % 10] + 0.1 * random.rand(8, 8, 3).astype("float32"), (k + shift) % labels] for k in range(count)
    ]
    return BatchData(DataFromList(rows, shuffle=True), 10)


def train(get_cost=right, rate=0.1, callbacks=(), steps=120, epochs=2, trainer=None, make=FeedInput, **kwargs):
    """Train a Classifier."""

    class Model(Classifier):
        def optimizer(self):
            if callable(rate):
                return tf.train.GradientDescentOptimizer(rate())
            variable = tf.get_variable("learning_rate", initializer=float(rate), trainable=False)
            return tf.train.GradientDescentOptimizer(variable)

    config = TrainConfig(
        model=Model(get_cost),
        data=make(prototypes()),
        callbacks=[*callbacks],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps,
        max_epoch=epochs,
        **kwargs,
    )
    with tf.Graph().as_default():
        launch_train_with_config(config, trainer or SimpleTrainer())


def found(log_lines):
    """Return the remarks in the log, without their title."""
    return [remark for line in log_lines if line.startswith("Lint") for remark in line.split("\n")[1:]]


def right_and_counted(image, label):
    """A cost that counts its runs. Its gradient does not need it."""
    cost = right(image, label)
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
    with tf.control_dependencies([count.assign_add(1.0)]):
        return tf.identity(cost)


@pytest.mark.parametrize(("get_cost", "fetched"), [(right, 40), (right_and_counted, 0)])
def test_costs_whose_runs_change_something(get_cost, fetched):
    """The cost is fetched in 40 steps, but not if its operation has effects that the steps do not have."""
    seen = []

    def look(callback):
        epoch = callback.trainer.find_callbacks(FirstEpoch)[0]
        values = callback.trainer.sess.run([v for v in tf.global_variables() if v.op.name == "count"])
        seen.append((len(epoch.first + epoch.last), values))

    train(get_cost, callbacks=[CallbackFactory(trigger=look)], epochs=1)
    assert [(fetched, [0.0] if fetched == 0 else [])] == seen


def sigmoid_of_signs(image, label):
    logits, truth = binary(image, label)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=2 * truth - 1, logits=logits))


def sigmoid_of_numbers(image, label):
    logits, _ = binary(image, label)
    return tf.losses.sigmoid_cross_entropy(tf.cast(label, tf.float32), logits)


def softmax_of_signs(image, label):
    truth = 2 * tf.one_hot(label, 10) - 1
    cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=truth, logits=logits_of(image)))
    return cost + regularize_cost("fc/W", l2_regularizer(1e-4))


@pytest.mark.slow
@pytest.mark.parametrize("get_cost", [sigmoid_of_signs, sigmoid_of_numbers, softmax_of_signs], ids=lambda f: f.__name__)
def test_negative_costs(log_lines, get_cost):
    """A cross entropy that gets negative because of its labels has one remark, at the first such step."""
    train(get_cost, steps=20, epochs=1)
    names = [remark.split()[0] for remark in found(log_lines)]
    assert ["T03"] == [name for name in names if name != "D02"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"rate": -0.05}, " at the beginning."),
        ({"rate": 1e-7}, "that of equal probabilities is 2.3."),
        ({"rate": 1e-7, "epochs": 1}, "that of equal probabilities is 2.3."),
        ({"rate": 1e-7, "get_cost": lambda image, label: tf.losses.sparse_softmax_cross_entropy(label, logits_of(image))},
         "that of equal probabilities is 2.3."),
        ({"callbacks": [HyperParamSetterWithFunc("learning_rate", lambda epoch, rate: 0.1 * (epoch < 1))]},
         "the learning rate is 0 after the first epoch"),
        ({"rate": lambda: tf.train.polynomial_decay(0.1, get_global_step_var(), 60, 0.0)}, "the learning rate is 0"),
        ({"rate": 0, "callbacks": [CallbackFactory(trigger=lambda self: None)]}, "the learning rate is 0 after the first epoch"),
    ],
    ids=["ascent", "small rate", "one epoch", "tf.losses", "schedule", "decay", "rate of 0"],
)  # fmt: skip
def test_first_epochs_without_success(log_lines, kwargs, words):
    """A first epoch that ends with a larger cost, a cost like that of chance, or a rate of 0 has a remark."""
    train(**kwargs)
    remarks = found(log_lines)
    assert {"T04"} == {remark.split()[0] for remark in remarks if "PolynomialDecay" not in remark or "T04" in remark}
    assert words in remarks[-1]


def in_steps(func):
    """Return a schedule of the learning rate in steps, by a function of the script."""
    return HyperParamSetterWithFunc("learning_rate", func, step_based=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("func", "epochs", "count"),
    [
        (lambda step, rate: 0.1 * 0.9**step, 2, 1),
        (lambda step, rate: 0.9 * rate, 2, 1),
        (lambda step, rate: 0.1 * 0.99 ** (step / 10), 2, 0),
        (lambda step, rate: 0.1 * 0.9**step, 1, 0),
        (lambda step, rate: 0.1 * (1 + 1e-5 - step % 120 / 120), 2, 0),
    ],
    ids=["function", "factor", "slow", "one epoch", "restarts"],
)
def test_rates_that_fall_away(log_lines, func, epochs, count):
    """A rate of which nothing is left after the first epoch has a remark, unless training ends or it rises again."""
    train(callbacks=[in_steps(func)], epochs=epochs)
    remarks = [remark for remark in found(log_lines) if "the learning rate has fallen from 0." in remark]
    assert count == len(remarks)


def far_from_chance(image, label):
    """A cost that begins above that of chance."""
    start = tf.constant_initializer([1.9] + 9 * [0.0])
    logits = FullyConnected("fc", 1e-3 * image, 10, kernel_initializer=tf.zeros_initializer(), bias_initializer=start)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "count"), [(0.1, 0), (1e-5, 1)], ids=["slow", "stuck"])
def test_costs_above_that_of_chance(log_lines, rate, count):
    """A cost that is still above that of chance, but clearly falls, has no remark."""
    train(far_from_chance, rate=rate)
    assert count == len(found(log_lines))


def with_statistics(image, label):
    """A model with statistics."""
    logits = logits_of(image)
    right = tf.nn.in_top_k(logits, label, 1)
    tf.cast(tf.logical_not(right), tf.float32, name="incorrect_vector")
    tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "name"),
    [(ClassificationError, "validation_error"), (lambda: ScalarStats("accuracy"), "validation_accuracy")],
)
def test_validation_as_bad_as_chance(log_lines, make, name):
    """Validation with wrong labels has a remark if training has learnt something; with right labels it has none."""
    train(with_statistics, callbacks=[InferenceRunner(prototypes(100), make())])
    assert [] == found(log_lines)
    train(with_statistics, callbacks=[InferenceRunner(prototypes(100, shift=1), make())])
    (remark,) = found(log_lines)
    assert f"T04 {name}: {name} is " in remark
    assert "as if one of 10 classes were guessed" in remark


@pytest.mark.slow
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"epochs": 1},
        {"rate": 1e-7, "steps": 90},
        {"rate": 1e-7, "lint": "off"},
        {"rate": 1e-7, "lint_ignore": ["T04"]},
        {"rate": 1e-7, "get_cost": lambda image, label: 2 * right(image, label)},
        {"callbacks": [HyperParamSetterWithFunc("learning_rate", lambda epoch, rate: 0.1 if epoch else 0.01)]},
        {"trainer": SyncMultiGPUTrainerReplicated([0, 1]), "make": QueueInput},
    ],
    ids=["two epochs", "one epoch", "few steps", "off", "ignored", "a multiple", "warm-up", "towers"],
)
def test_first_epochs_without_remark(log_lines, kwargs):
    """A first epoch in which something is learnt, a short one, and ignored rules have no remark."""
    train(**kwargs)
    assert [] == found(log_lines)


def large_first_weights(image, label):
    logits = FullyConnected("fc", image, 10, kernel_initializer=tf.random_normal_initializer(stddev=20.0, seed=1))
    return tf.losses.sparse_softmax_cross_entropy(label, logits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("get_cost", "rate", "expected"),
    [
        (lambda image, label: right(image, label) + regularize_cost("fc/W", l2_regularizer(50.0)), 0.01, ["T04"]),
        (lambda image, label: right(image, label) + regularize_cost("fc/W", l2_regularizer(1e-4)), 0.1, []),
        (large_first_weights, 0.01, []),
        (right, lambda: tf.train.piecewise_constant(get_global_step_var(), [0], [300.0, 0.01]), ["T04"]),
    ],
    ids=["strong", "weak", "slow", "exploded"],
)
def test_cross_entropies_beside_other_terms(log_lines, get_cost, rate, expected):
    """T04 looks at the cross entropy in a cost, not at its regularization, and compares it with the first step."""
    train(get_cost, rate=rate, lint_ignore=["G23"])
    assert expected == [remark.split()[0] for remark in found(log_lines)]


def smoothed(factor, offset):
    """Return a model whose labels are scaled, [N, 10]."""

    def get_cost(image, label):
        truth = tf.reshape(image, [-1, 192]) * factor + offset
        logits = FullyConnected("fc", image, 192)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=truth, logits=logits))

    return get_cost


def weighted(scale):
    """Return a model with a weighted cross entropy of images."""

    def get_cost(image, label):
        truth, logits = tf.reshape(image, [-1, 192]) * scale, FullyConnected("fc", image, 192)
        return tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(truth, logits, pos_weight=3.0))

    return get_cost


@pytest.mark.parametrize(
    ("get_cost", "expected"),
    [(smoothed(0.8, 0.1), []), (smoothed(3.0, -1.0), ["D02"]), (weighted(0.5), []), (weighted(255.0), ["D02"]),
     (smoothed(1 / 2, 0.0), [])],
    ids=["smoothed", "wrong sign", "weighted", "mask up to 255", "halved"],
)  # fmt: skip
def test_labels_that_are_computed(log_lines, get_cost, expected):
    """The labels of a sigmoid cross entropy are examined after arithmetic with numbers, and with weights of positives."""
    train(get_cost, steps=2, epochs=1, rate=1e-5)
    assert expected == [remark.split()[0] for remark in found(log_lines) if remark.split()[0] == "D02"]

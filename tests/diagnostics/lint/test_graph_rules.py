"""Rules of lint about the graph: for each, models with the mistake, and models that are right."""

from __future__ import annotations

import pytest
from fakes.linted import Classifier, lint, marked_line, updates, validation

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.models import (
    BatchNorm,
    Conv2D,
    Dropout,
    FullyConnected,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tensorpack_lite.tfutils.gradproc import GlobalNormClip
from tensorpack_lite.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tensorpack_lite.tfutils.tower.context import get_current_tower_context
from tensorpack_lite.tfutils.varreplace import freeze_variables
from tensorpack_lite.train.exact.what_is_exact import begin_exact_resume
from tensorpack_lite.train.multi_gpu import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)


def cross_entropy(logits, label):
    """Return the mean cross entropy."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def is_training() -> bool:
    """Return whether the current tower is trained."""
    return get_current_tower_context().is_training


def usual(image, label):
    """A model with all usual layers."""
    x = BatchNorm("bn", Conv2D("conv", image, 8, 3))
    x = Dropout(tf.nn.relu(x), rate=0.5)
    cost = cross_entropy(FullyConnected("fc", x, 10), label)
    return cost + regularize_cost("fc/W", l2_regularizer(1e-4))


# G01
def unused_layer(image, label):
    FullyConnected("other", image, 3)  # here
    return usual(image, label)


def argmax_on_the_way(image, label):
    scores = FullyConnected("other", image, 3, use_bias=False)  # here
    chosen = tf.argmax(scores, 1)  # block
    return usual(image, label) + tf.reduce_mean(tf.cast(chosen, tf.float32))


def unused_but_frozen(image, label):
    with freeze_variables(stop_gradient=True):
        frozen = FullyConnected("other", image, 3)
    return usual(image, label) + tf.reduce_mean(frozen)


def stopped_on_purpose(image, label):
    return usual(image, label) + tf.reduce_mean(tf.stop_gradient(FullyConnected("other", image, 3)))


def only_regularized(image, label):
    FullyConnected("other", image, 3, use_bias=False)
    return usual(image, label) + regularize_cost("other/W", l2_regularizer(1e-4))


# G02
def no_input(image, label):
    logits = FullyConnected("fc", tf.ones([4, 8]), 10)
    return cross_entropy(logits, tf.constant([0, 1, 2, 3]))


def no_image(image, label):
    logits = FullyConnected("fc", tf.ones([4, 8]), 10)  # here
    return cross_entropy(logits, label)


def no_label(image, label):
    return tf.reduce_mean(tf.square(FullyConnected("fc", image, 10)))


# G03
def softmax_twice(image, label):
    probabilities = tf.nn.softmax(FullyConnected("fc", image, 10))  # here
    return cross_entropy(probabilities, label)


def sigmoid_twice(image, label):
    scores = tf.sigmoid(FullyConnected("fc", image, 1))  # here
    truth = tf.cast(tf.expand_dims(label, 1) > 4, tf.float32)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=scores, labels=truth))


def weighted_sigmoid_twice(image, label):
    scores = tf.sigmoid(FullyConnected("fc", image, 1))  # here
    truth = tf.cast(tf.expand_dims(label, 1) > 4, tf.float32)
    return tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(truth, scores, pos_weight=2.0))


def soft_targets(image, label):
    logits = FullyConnected("fc", image, 10)
    teacher = tf.nn.softmax(FullyConnected("teacher", image, 10))
    truth = tf.stop_gradient(teacher)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=truth, logits=logits))


# G05, G06
def moving_averages(image, label):
    x = BatchNorm("bn", image, training=False)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def plain_dropout(image, label):
    x = tf.nn.dropout(image, rate=0.5)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def reversed_dropout(image, label):
    x = image if is_training() else tf.nn.dropout(image, rate=0.5)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def batch_in_inference(image, label):
    x = BatchNorm("bn", image, training=True)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def noise_in_inference(image, label):
    """A flip and additive noise are not dropout."""
    flip = tf.random.uniform([]) >= 0.5
    x = tf.cond(flip, lambda: image, lambda: image[:, ::-1]) + tf.random.normal(tf.shape(image))
    return cross_entropy(FullyConnected("fc", x, 10), label)


# G09
def regularized_by_a_wrong_name(image, label):
    return usual(image, label) + regularize_cost("dense.*/W", tf.nn.l2_loss)  # here


def regularized_without_regularizers(image, label):
    return usual(image, label) + regularize_cost_from_collection()  # here


@pytest.mark.parametrize(
    ("rule", "get_cost", "names", "words"),
    [
        ("G01", unused_layer, ["other/W, other/b"], "no training step reads it"),
        ("G01", argmax_on_the_way, ["other/W"], "ArgMax 'ArgMax'"),
        ("G02", no_input, ["cost"], "the cost does not depend on any input"),
        ("G02", no_image, ["fc/output"], "the logits of sparse_softmax_cross_entropy_with_logits"),
        ("G03", softmax_twice, ["Softmax"], "a softmax is given to sparse_softmax_cross_entropy_with_logits"),
        ("G03", sigmoid_twice, ["Sigmoid"], "a sigmoid is given to sigmoid_cross_entropy_with_logits"),
        ("G03", weighted_sigmoid_twice, ["Sigmoid"], "a sigmoid is given to"),
        ("G05", moving_averages, ["bn/mean/EMA, bn/variance/EMA"], "neither updated nor restored"),
        ("G06", plain_dropout, None, "dropout is active in inference."),
        ("G06", reversed_dropout, None, "dropout is active in inference, and not in training."),
        ("G06", batch_in_inference, ["bn/mean/EMA, bn/variance/EMA"], "normalizes by the batch"),
        ("G09", regularized_by_a_wrong_name, ["empty_regularize_cost"], "always 0"),
        ("G09", regularized_without_regularizers, ["empty_regularize_cost"], "always 0"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_mistakes(rule, get_cost, names, words):
    """A remark names the rule, the operation or variable, and the line of the model that created it."""
    remarks = lint(get_cost, [validation(), updates()])
    assert {rule} == {remark.rule for remark in remarks}
    assert len(names or [""]) == len(remarks)
    for remark, name in zip(remarks, names or [remarks[0].name]):
        assert name == remark.name
        assert words in remark.text
        if get_cost is not no_input:
            assert marked_line(get_cost) == remark.place.rpartition("/")[2]


def internal_updates(image, label):
    x = BatchNorm("bn", image, ema_update="internal")
    return cross_entropy(FullyConnected("fc", x, 10), label)


def waits_for_updates(image, label):
    cost = usual(image, label)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) if is_training() else []):
        return tf.identity(cost)


RESTORED = {"bn/mean/EMA": [0.5] * 3, "bn/variance/EMA": [0.1] * 3}


@pytest.mark.parametrize(
    "get_cost",
    [
        usual,
        unused_but_frozen,
        stopped_on_purpose,
        only_regularized,
        no_label,
        soft_targets,
        noise_in_inference,
    ],
)
def test_models_without_mistakes(get_cost):
    """Models with frozen layers, unused labels, soft targets and noise have no remark."""
    assert [] == lint(get_cost, [validation(), updates()])


@pytest.mark.parametrize(
    ("get_cost", "has_runner", "kwargs"),
    [
        (internal_updates, True, {}),
        (waits_for_updates, True, {}),
        (moving_averages, True, {"init": RESTORED}),
        (plain_dropout, False, {}),
        (softmax_twice, False, {"ignore": ["G03"]}),
    ],
    ids=["internal updates", "updates in the cost", "averages of a pretrained model", "no runner", "ignored"],
)
def test_trainings_without_mistakes(get_cost, has_runner, kwargs):
    """Updates without a callback, frozen averages that are restored, dropout that no runner evaluates, and ignored rules are fine."""
    assert [] == lint(get_cost, [validation()] if has_runner else [], **kwargs)


def test_updates_that_nothing_runs():
    """Without RunUpdateOps, the updates of BatchNorm do not run."""
    (remark,) = lint(usual)
    assert ("G05", "nothing runs 2 of the 2 operations in UPDATE_OPS.") == (remark.rule, remark.text)
    assert marked_line(usual, "8, 3))") == remark.place.rpartition("/")[2]


@pytest.mark.parametrize(
    "make",
    [SyncMultiGPUTrainerReplicated, SyncMultiGPUTrainerParameterServer, AsyncMultiGPUTrainer],
)
def test_several_towers(make):
    """Models on two towers have no remark, and a mistake in them has one, not two."""
    for get_cost, expected in ((usual, []), (softmax_twice, ["tower0/Softmax, tower1/Softmax"])):
        with tf.Graph().as_default():
            remarks = lint(get_cost, [validation(), updates()], trainer=make([0, 1]), make=QueueInput)
        assert expected == [remark.name for remark in remarks]


def test_optimizers_around_others():
    """Accumulated and clipped gradients update all variables."""
    wrap = lambda opt: AccumGradOptimizer(apply_grad_processors(opt, [GlobalNormClip(1.0)]), 4)  # noqa: E731
    assert [] == lint(usual, [validation(), updates()], wrap=wrap)


def test_the_place_of_the_block():
    """The remark about a variable without gradient also shows where the operation is that has none."""
    (remark,) = lint(argmax_on_the_way, [updates()])
    assert marked_line(argmax_on_the_way, "# block") in remark.text


# G08, G11, G12
def subtracts_in_uint8(image, label):
    pixels = tf.cast(image * 255, tf.uint8)
    x = tf.cast(pixels - tf.constant(128, tf.uint8), tf.float32)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def brighter_in_uint8(image, label):
    pixels = tf.cast(image * 255, tf.uint8)
    x = tf.cast(pixels + 50, tf.float32)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def right_in_uint8(image, label):
    pixels = tf.cast(image * 255, tf.uint8)
    negative = 255 - pixels
    masked = negative * tf.cast(pixels > 3, tf.uint8)
    return cross_entropy(FullyConnected("fc", tf.cast(masked, tf.float32) - 128, 10), label)


def border_of_a_mask(image, label):
    mask = tf.cast(image > 0.5, tf.uint8)
    border = mask - mask * tf.cast(image > 0.7, tf.uint8)
    return cross_entropy(FullyConnected("fc", tf.cast(border, tf.float32), 10), label)


def labels_from_one(image, label):
    from_one = tf.cast(label, tf.uint8) + tf.constant(1, tf.uint8)
    from_zero = from_one - tf.constant(1, tf.uint8)
    return cross_entropy(FullyConnected("fc", image, 10), tf.cast(from_zero, tf.int32))


def partly_float64(image, label):
    weights = tf.get_variable("w", [192, 8], tf.float64, tf.random_normal_initializer())
    x = tf.cast(tf.matmul(tf.reshape(tf.cast(image, tf.float64), [-1, 192]), weights), tf.float32)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


def float64_only(image, label):
    return cross_entropy(FullyConnected("fc", tf.cast(image, tf.float64), 10), label)


def sum_of_losses(image, label):
    logits = FullyConnected("fc", image, 10)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    return tf.add(tf.reduce_sum(losses), regularize_cost("fc/W", tf.nn.l2_loss))


def sum_divided_by_its_size(image, label):
    return sum_of_losses(image, label) / tf.cast(tf.shape(image)[0], tf.float32)


def mean_of_each_tower(image, label):
    mean = tf.Variable(0.0, trainable=False, name="mean")  # here
    return centered(image, label, mean)


def shared_mean(image, label):
    return centered(image, label, tf.get_variable("mean", initializer=0.0, trainable=False))


def constant_of_each_tower(image, label):
    mean = tf.Variable(0.5, trainable=False, name="mean")
    return cross_entropy(FullyConnected("fc", image - mean, 10), label)


def centered(image, label, mean):
    """A model that subtracts a mean, which training updates."""
    if is_training():
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, mean.assign(tf.reduce_mean(image)).op)
    return cross_entropy(FullyConnected("fc", image - mean, 10), label)


def trained_in_each_tower(image, label):
    offset = tf.Variable(tf.zeros([10]), name="offset")
    return cross_entropy(FullyConnected("fc", image, 10) + offset, label)


@pytest.mark.parametrize(
    ("rule", "get_cost", "words"),
    [
        ("G08", subtracts_in_uint8, "Sub computes in uint8, and wraps around."),
        ("G08", brighter_in_uint8, "computes in uint8, and wraps around."),
        ("G08", partly_float64, "it computes in float64, but the model has variables of float32."),
        ("G12", mean_of_each_tower, "training updates mean, but tower 'InferenceTower' reads this variable"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_mistakes_in_values(rule, get_cost, words):
    """Remarks about dtypes and variables of towers have one remark each, with the line that creates the operation."""
    (remark,) = lint(get_cost, [validation(), updates()])
    assert rule == remark.rule
    assert words in remark.text
    assert marked_line(get_cost) == remark.place.rpartition("/")[2]


@pytest.mark.parametrize(
    "get_cost",
    [
        right_in_uint8,
        border_of_a_mask,
        labels_from_one,
        float64_only,
        sum_divided_by_its_size,
        shared_mean,
        constant_of_each_tower,
    ],
)
def test_values_without_mistakes(get_cost):
    """Inverted and masked uint8 images, masks and labels of uint8, a model of float64, a sum divided by the batch, a shared variable and a constant are right."""
    assert [] == lint(get_cost, [validation(), updates()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (tf.train.GradientDescentOptimizer, ["G11"]),
        (lambda rate: tf.train.MomentumOptimizer(rate, 0.9), ["G11"]),
        (lambda rate: tf.train.GradientDescentOptimizer(0.2), ["G11"]),
        (lambda rate: tf.train.GradientDescentOptimizer(1e-3), []),
        (tf.train.AdamOptimizer, []),
    ],
    ids=["variable", "momentum", "constant", "small", "Adam"],
)
def test_sum_over_the_batch(make, expected):
    """A sum of cross entropies has a remark with SGD of rate 0.1, and none with a small rate or with Adam."""

    class Model(Classifier):
        def optimizer(self):
            return make(tf.get_variable("learning_rate", initializer=0.1, trainable=False))

    remarks = lint(None, model=Model(sum_of_losses), ignore=["G04"])
    assert expected == [remark.rule for remark in remarks]
    assert all("a sum over the batch" in remark.text for remark in remarks)


def test_trainable_raw_variables():
    """Trainable variables of tf.Variable in another tower are an error already, so G12 is not about them."""
    with pytest.raises(RuntimeError, match="tf.get_variable"):
        lint(trained_in_each_tower, [validation()])


@pytest.mark.parametrize("is_exact", [False, True])
def test_random_operations_and_exact_resume(is_exact):
    """With exact resume, TensorFlow's random operations in a step have a remark; without it, they have none."""
    if is_exact:
        begin_exact_resume()
    remarks = lint(plain_dropout)
    assert ["G13"] * is_exact == [remark.rule for remark in remarks]
    for remark in remarks:
        assert "dropout/" in remark.name
        assert marked_line(plain_dropout) == remark.place.rpartition("/")[2]

"""Rules of lint about what a cost is computed from, and about the names of statistics."""

from __future__ import annotations

import pytest
from fakes.linted import Classifier, images, lint, marked_line, validation

from tensorpack_lite.callbacks.inference import ClassificationError
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.compat import TF_VERSION, TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.lint.lint import lint_training
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.models import (
    FullyConnected,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tensorpack_lite.tfutils.gradproc import GlobalNormClip
from tensorpack_lite.tfutils.optimizer import accumulate_gradients, apply_grad_processors, clip_by_global_norm
from tensorpack_lite.tfutils.precision import with_precision
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.tower.context import TowerContext, get_current_tower_context
from tensorpack_lite.tfutils.tower.func import TowerFunc
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.train.tower import TowerTrainer


def scores(image, units=1, **kwargs):
    """Return predictions [N, units]."""
    return FullyConnected("fc", image, units, **kwargs)


def right(image, label):
    """A model without mistakes."""
    logits = scores(image, 10)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def floats(label):
    """Return the labels as numbers."""
    return tf.cast(label, tf.float32)


# G25
def column_minus_vector(image, label):
    return tf.reduce_mean(tf.square(scores(image) - floats(label)))  # here


def vector_minus_column(image, label):
    prediction = tf.squeeze(scores(image), 1)
    return tf.reduce_mean(tf.math.squared_difference(tf.reshape(floats(label), [-1, 1]), prediction))  # here


def absolute_of_a_fixed_batch(image, label):
    prediction, truth = tf.reshape(scores(image), [4, 1]), tf.reshape(floats(label), [4])
    return tf.reduce_mean(tf.abs(truth - prediction))  # here


def weights_of_samples(image, label):
    losses = tf.square(scores(image) - tf.expand_dims(floats(label), 1))
    return tf.reduce_mean(losses * floats(label))  # here


def two_columns(image, label):
    return tf.reduce_mean(tf.square(scores(image) - tf.expand_dims(floats(label), 1)))


def two_vectors(image, label):
    return tf.reduce_mean(tf.abs(scores(image)[:, 0] - floats(label)))


def all_pairs(image, label):
    prediction = scores(image)[:, 0]
    margins = tf.expand_dims(prediction, 1) - prediction
    order = tf.sign(tf.expand_dims(floats(label), 1) - floats(label))
    return tf.reduce_mean(tf.nn.relu(1 - order * margins))


def weights_of_classes(image, label):
    weights = tf.constant([0.5] * 10)
    return tf.reduce_mean(tf.square(scores(image) * weights - tf.one_hot(label, 10)))


def column_minus_row(image, label):
    return tf.reduce_mean(tf.square(scores(image) - tf.expand_dims(floats(label), 0)))  # here


def positions(image, label):
    """Distances of predicted centers from the positions of a row, whose number follows from the data."""
    row = tf.expand_dims(floats(tf.range(tf.shape(label)[0])), 0)
    return right(image, label) + tf.reduce_mean(tf.square(FullyConnected("center", image, 1) - row))


# G09
def forgotten_of_get_variable(image, label):
    kwargs = {"regularizer": lambda w: 0.1 * tf.nn.l2_loss(w)}  # here
    return right(image, label) + tf.reduce_sum(tf.get_variable("w", [3], **kwargs) * image[0, 0, 0])


def sum_of_the_collection(image, label):
    cost = forgotten_of_get_variable(image, label)
    return cost + tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))


def regularization_of_tf_losses(image, label):
    return forgotten_of_get_variable(image, label) + tf.losses.get_regularization_loss()


def regularization_of_this_library(image, label):
    return forgotten_of_get_variable(image, label) + regularize_cost_from_collection()


def total_of_tf_losses(image, label):
    tf.losses.add_loss(forgotten_of_get_variable(image, label))
    return tf.losses.get_total_loss()


def forgotten_cost(image, label):
    cost = right(image, label)
    add_moving_summary(regularize_cost("fc/W", l2_regularizer(1e-4), name="wd_cost"))  # here
    return cost


def forgotten_norm(image, label):
    cost = right(image, label)
    norms = [tf.nn.l2_loss(variable) for variable in tf.trainable_variables()]
    tf.multiply(1e-4, tf.add_n(norms))  # here
    return cost


def forgotten_absolute_values(image, label):
    cost = right(image, label)
    regularize_cost(".*/W", l1_regularizer(1e-5))  # here
    return cost


def forgotten_name(image, label):
    cost = right(image, label)
    regularize_cost(".*/W", tf.nn.l2_loss)  # here
    return cost


def forgotten_collection(image, label):
    logits = FullyConnected("fc", image, 10, kernel_regularizer=l2_regularizer(0.1))  # here
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def regularized(image, label):
    cost = right(image, label)
    decay = tf.multiply(1e-4, tf.nn.l2_loss(tf.trainable_variables()[0]), name="wd_cost")
    add_moving_summary(decay)
    return cost + decay + regularize_cost("fc/W", l1_regularizer(1e-5))


def norm_as_statistic(image, label):
    cost = right(image, label)
    tf.summary.scalar("norm", tf.sqrt(2 * tf.nn.l2_loss(tf.trainable_variables()[0])))
    return cost


def number_in_the_collection(image, label):
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, 0.5)
    return right(image, label)


# G26
def with_statistic(make):
    """Return a model with a statistic that a function makes of predictions and labels."""

    def build(image, label):
        logits = scores(image, 10)
        make(logits, tf.argmax(logits, 1, output_type=tf.int32), label)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))

    build.__name__ = make.__name__
    return build


def mean(condition, name):
    """Return the mean of a condition."""
    return tf.reduce_mean(floats(condition), name=name)


@with_statistic
def error_of_equal(logits, predicted, label):
    mean(tf.equal(predicted, label), "train_error")


@with_statistic
def wrong_of_in_top_k(logits, predicted, label):
    tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32, name="wrong-top1")


@with_statistic
def accuracy_of_not_equal(logits, predicted, label):
    mean(tf.not_equal(predicted, label), "accuracy")


@with_statistic
def error_in_percent(logits, predicted, label):
    tf.multiply(100.0, mean(tf.equal(predicted, label), "fraction"), name="error")


@with_statistic
def accuracy_from_right(logits, predicted, label):
    tf.subtract(1.0, mean(tf.equal(predicted, label), "fraction"), name="val_acc")


@with_statistic
def error_of_rounded(logits, predicted, label):
    mean(tf.equal(tf.round(logits[:, 0]), floats(label)), "binary_err")


@with_statistic
def summary_of_right(logits, predicted, label):
    tf.summary.scalar("error_rate", mean(tf.equal(predicted, label), "fraction"))


@with_statistic
def usual_statistics(logits, predicted, label):
    correct = tf.equal(predicted, label, name="correct")
    accuracy = mean(correct, "accuracy")
    tf.summary.scalar("error_rate", tf.subtract(1.0, accuracy, name="error"))
    mean(tf.not_equal(predicted, label), "error_rate")
    tf.cast(tf.logical_not(tf.nn.in_top_k(logits, label, 1)), tf.float32, name="incorrect_vector")
    mean(tf.equal(label, 3), "error_class")
    tf.reduce_mean(tf.abs(logits[:, 0] - floats(label)), name="absolute_error")


@pytest.mark.parametrize(
    ("rule", "get_cost", "words"),
    [
        ("G25", column_minus_vector, "[N, 1] meets 'Cast' [N], which gives [N, N]"),
        ("G25", vector_minus_column, "each prediction meets all labels"),
        ("G25", absolute_of_a_fixed_batch, "[4] meets"),
        ("G25", weights_of_samples, "which gives [N, N]"),
        ("G25", column_minus_row, "[1, N], which gives [N, N]"),
        ("G09", forgotten_of_get_variable, "the cost does not have this regularization"),
        ("G26", summary_of_right, "it is an error, but it counts right predictions"),
        ("G09", forgotten_cost, "the cost does not have this regularization"),
        ("G09", forgotten_norm, "the cost does not have this regularization"),
        ("G09", forgotten_absolute_values, "the cost does not have this regularization"),
        ("G09", forgotten_name, "the cost does not have this regularization"),
        ("G09", forgotten_collection, "the cost does not have this regularization"),
        ("G26", error_of_equal, "it is an error, but it counts right predictions"),
        ("G26", wrong_of_in_top_k, "it counts right predictions"),
        ("G26", accuracy_of_not_equal, "it is an accuracy, but it counts wrong predictions"),
        ("G26", error_in_percent, "it counts right predictions"),
        ("G26", accuracy_from_right, "it counts wrong predictions"),
        ("G26", error_of_rounded, "it counts right predictions"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_mistakes(rule, get_cost, words):
    """A mistake in a cost or a statistic has one remark, with the line that made it."""
    (remark,) = lint(get_cost, [validation()])
    assert rule == remark.rule
    assert words in remark.text
    if rule != "G26":
        assert marked_line(get_cost) == remark.place.rpartition("/")[2]


@pytest.mark.parametrize(
    "get_cost",
    [two_columns, two_vectors, all_pairs, weights_of_classes, regularized, norm_as_statistic, number_in_the_collection,
     usual_statistics, positions, sum_of_the_collection, regularization_of_tf_losses, regularization_of_this_library,
     total_of_tf_losses],
    ids=lambda value: value.__name__,
)  # fmt: skip
def test_models_without_mistakes(get_cost):
    """Equal shapes, pairs on purpose, weights of classes, used regularization, norms and right statistics have no remark."""
    assert [] == lint(get_cost, [validation()])


@pytest.mark.slow
def test_several_towers():
    """On two towers, a mistake has one remark, and a right model none."""
    for get_cost, expected in ((column_minus_vector, ["G25"]), (forgotten_cost, ["G09"]), (regularized, [])):
        with tf.Graph().as_default():
            remarks = lint(get_cost, trainer=SyncMultiGPUTrainerReplicated([0, 1]), make=QueueInput)
        assert expected == [remark.rule for remark in remarks]


@pytest.mark.parametrize(("build", "expected"), [(regularized, []), (forgotten_cost, ["G09"])])
def test_costs_that_the_trainer_does_not_know(build, expected):
    """In a trainer of several costs, such as that of a GAN, regularization counts as used if a value of the data depends on it."""

    class TwoCosts(TowerTrainer):
        def __init__(self, model, data):
            super().__init__()
            self.tower_func = TowerFunc(lambda *inputs: costs.append(build(*inputs)), model.get_input_signature())
            source = FeedInput(data)
            self.register_callback(source.setup(model.get_input_signature()))
            costs = []
            with TowerContext("", is_training=True):
                self.tower_func(*source.get_input_tensors())
            optimizer = tf.train.AdamOptimizer(0.1)
            self.train_op = optimizer.apply_gradients(optimizer.compute_gradients(costs[0]))

    trainer = TwoCosts(Classifier(None), images())
    trainer.setup_callbacks([], [])
    assert expected == [remark.rule for remark in lint_training(trainer, SmartInit(None), "warn")]


def test_vector_of_right_predictions():
    """A ClassificationError of right predictions has a remark about the name of the tensor."""
    with tf.Graph().as_default():
        runner = InferenceRunner(images(), ClassificationError("wrong-top1"))
        (remark,) = lint(wrong_of_in_top_k, [runner])
    assert "wrong-top1" == remark.name


@with_statistic
def wrong_vector(logits, predicted, label):
    tf.cast(tf.not_equal(predicted, label), tf.float32, name="wrong")


@pytest.mark.parametrize(
    ("name", "expected"), [("validation_accuracy", ["G26"]), ("validation_error", []), ("val_wrong", [])]
)
def test_names_of_inferencers(name, expected):
    """A ClassificationError of wrong predictions that is reported as an accuracy has a remark."""
    runner = InferenceRunner(images(), ClassificationError("wrong", name))
    assert expected == [remark.rule for remark in lint(wrong_vector, [runner])]


def in_cond(layer, x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x), lambda: x)


def in_nested_cond(layer, x):
    return in_cond(lambda x: in_cond(layer, x), x)


def in_while(layer, x):
    return tf.while_loop(lambda i, _: i < 1, lambda i, x: (i + 1, layer(x)), [0, x])[1]


@pytest.mark.slow
@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("build", [in_cond, in_while, in_nested_cond], ids=lambda build: build.__name__)
def test_regularizers_in_branches(build, is_added):
    """The loss of a layer inside a condition or loop has a remark, unless the cost has it."""
    if TF_VERSION < (2, 0) and build is in_while:
        pytest.skip("TensorFlow 1.15 computes the cost inside the loop")

    def model(image, label):
        layer = lambda x: FullyConnected("inner", x, 2, kernel_regularizer=l2_regularizer(0.1))  # noqa: E731
        cost = right(image, label) + 0.1 * tf.reduce_sum(build(layer, image[:, 0, :2, 0]))
        return cost + regularize_cost_from_collection() if is_added else cost

    remarks = lint(model)
    assert ([] if is_added else ["G09"]) == [remark.rule for remark in remarks]
    assert all(remark.name.startswith("inner/") for remark in remarks)


# G02
class TwoInputs(Classifier):
    """A classifier with a third input."""

    def __init__(self, get_cost, name="mask", dtype=tf.float32, shape=(None,)) -> None:
        super().__init__(get_cost)
        self.spec = TensorSpec(list(shape), dtype, name)

    def inputs(self):
        return [*super().inputs(), self.spec]

    def build_graph(self, image, label, other):
        return tf.identity(self.get_cost(image, label, other), name="cost")


def ignored(image, label, other):
    return right(image, label)


def dangling(image, label, other):
    tf.reduce_sum(tf.cast(other, tf.float32) * 2)
    return right(image, label)


def only_its_shape(image, label, other):
    return right(image, label) + 0.0 * tf.reduce_sum(tf.zeros_like(other)) / tf.cast(tf.shape(other)[0], tf.float32)


def in_the_cost(image, label, other):
    return right(image, label) * (1 + tf.reduce_mean(tf.cast(other, tf.float32)))


def in_a_statistic(image, label, other):
    add_moving_summary(tf.reduce_mean(tf.cast(other, tf.float32), name="mean_mask"))
    return right(image, label)


def in_inference(image, label, other):
    return right(image, label) if get_current_tower_context().is_training else in_the_cost(image, label, other)


def mask_without_use(image, label, other):
    hidden = FullyConnected("hidden", image, 8)
    tf.multiply(hidden, tf.sequence_mask(other, 8, dtype=tf.float32))
    return right(hidden, label)


def mask_in_use(image, label, other):
    hidden = FullyConnected("hidden", image, 8)
    return right(hidden * tf.sequence_mask(other, 8, dtype=tf.float32), label)


def own_predictions(image, label):
    logits = scores(image, 10)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tf.argmax(logits, axis=1))
    )


def both_labels(image, label):
    return own_predictions(image, label) + tf.reduce_mean(floats(label))


def predictions_of_a_teacher(image, label):
    labels = tf.argmax(FullyConnected("teacher", image, 10), axis=1)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=scores(image, 10), labels=labels))


@pytest.mark.parametrize(
    ("get_cost", "expected"), [(own_predictions, ["G02"]), (both_labels, []), (predictions_of_a_teacher, [])]
)
def test_own_predictions_as_labels(get_cost, expected):
    """Labels that are the argmax of the logits themselves have a remark if the model has labels and uses them nowhere."""
    remarks = lint(get_cost, ignore=["G01"])
    assert expected == [remark.rule for remark in remarks]


@pytest.mark.parametrize(
    ("get_cost", "kwargs", "expected"),
    [
        (mask_without_use, {"dtype": tf.int32}, ["G02"]),
        (mask_in_use, {"dtype": tf.int32}, []),
        (ignored, {}, ["G02"]),
        (dangling, {}, ["G02"]),
        (ignored, {"dtype": tf.int32, "shape": (None, 7), "name": "tokens"}, ["G02"]),
        (ignored, {"shape": (None, 8, 8, 3), "name": "second"}, ["G02"]),
        (only_its_shape, {}, ["G02"]),
        (in_the_cost, {}, []),
        (in_a_statistic, {}, []),
        (in_inference, {}, []),
        (ignored, {"dtype": tf.int32}, []),
        (ignored, {"dtype": tf.string}, []),
        (ignored, {"name": "unused_mask"}, []),
    ],
)
@pytest.mark.parametrize("make", [FeedInput, QueueInput], ids=["Feed", "Queue"])
def test_inputs_without_use(get_cost, kwargs, expected, make):
    """An input of numbers that no step and no statistic depends on has a remark; labels and names with "unused" have none."""
    runner = [validation()] if get_cost is in_inference else []
    model = TwoInputs(get_cost, **kwargs)
    remarks = lint(None, runner, model=model, make=make)
    assert expected == [remark.rule for remark in remarks]
    assert all(model.spec.name == remark.name for remark in remarks)


# G27
def discarded(opt):
    clip_by_global_norm(opt, 1.0)
    return opt


def another_name(opt):
    clipped = apply_grad_processors(opt, [GlobalNormClip(1.0)])  # noqa: F841
    return opt


def inner_of_two(opt):
    accumulated = accumulate_gradients(opt, 2)
    clip_by_global_norm(accumulated, 1.0)
    return accumulated


def wrapped_twice(opt):
    return clip_by_global_norm(accumulate_gradients(opt, 2), 1.0)


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (discarded, ["G27"]),
        (another_name, ["G27"]),
        (inner_of_two, ["G27"]),
        (wrapped_twice, []),
        (lambda opt: opt, []),
    ],
    ids=["discarded", "another name", "inner of two", "used", "none"],
)
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_optimizers_that_are_wrapped(wrap, expected, precision):
    """A wrapper that optimizer() does not return has a remark. That of mixed precision, which the library adds, has none."""
    trainer, model = SimpleTrainer(), Classifier(right, wrap=wrap)
    trainer.model = model
    source = FeedInput(images())
    trainer.setup_graph(
        model.get_input_signature(), source, *with_precision(precision, model.build_graph, model.get_optimizer)
    )
    trainer.setup_callbacks([], [])
    remarks = lint_training(trainer, SmartInit(None), "warn")
    assert expected == [remark.rule for remark in remarks]
    assert all("GradientDescent" in remark.text for remark in remarks)

"""Lint in a training: its modes, notes, and the rules about data."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from fakes.linted import Classifier, images, marked_line, validation
from fakes.models import Mean, threes
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.steps import ProgressBar
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.diagnostics.lint import lint as module
from tensorpack_lite.diagnostics.lint import rules
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.defaults import DEFAULT_EXTENSIONS
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils.notes import read_notes


def right(image, label):
    """A model without mistakes."""
    logits = FullyConnected("fc", image, 10)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def softmax_twice(image, label):
    """A model with a mistake."""
    logits = tf.nn.softmax(FullyConnected("fc", image, 10))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def overlapping_crops(image, label):
    """A model whose gradient threads add in any order."""
    boxes = tf.tile([[0.1, 0.1, 0.9, 0.9]], [8, 1])
    crops = tf.image.crop_and_resize(
        FullyConnected("hidden", image, 12)[:, None, :, None], boxes, tf.zeros([8], tf.int32), [2, 5]
    )
    return right(image, label) + tf.reduce_mean(tf.square(crops))


class CountSteps(Callback):
    """Counts the steps of a training."""

    count = 0

    def _trigger_step(self):
        self.count += 1


def train(get_cost=right, data=None, callbacks=(), steps=3, **kwargs):
    """Train a Classifier for an epoch. Return the number of steps, and the error or None."""
    steps_done, error = CountSteps(), None
    source = FeedInput(images()) if data is None else data
    config = TrainConfig(
        model=Classifier(get_cost),
        data=source,
        callbacks=[*callbacks, steps_done],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps,
        max_epoch=1,
        **kwargs,
    )
    with tf.Graph().as_default():
        try:
            launch_train_with_config(config, SimpleTrainer())
        except RuntimeError as caught:
            error = caught
    return steps_done.count, error


@pytest.mark.parametrize(("threads", "seed", "is_told"), [(1, 7, False), (2, 7, True), (2, None, False)])
def test_threads(threads, seed, is_told):
    """A gradient that threads add in any order has a remark only if operations have several threads, and the graph has a seed."""

    def seeded(*inputs):
        tf.set_random_seed(seed)
        return overlapping_crops(*inputs)

    _, error = train(seeded, lint="error", intra_op_threads=threads)
    assert is_told == (error is not None)
    assert error is None or "G30" in str(error)


def remarks(log_lines):
    """Return the lines of the log about lint."""
    return [line for line in log_lines if line.startswith("Lint")]


class TestModes:
    def test_warn(self, log_dir, log_lines):
        """By default, a remark is one warning and one note, and training continues."""
        assert (3, None) == train(softmax_twice)
        (line,) = remarks(log_lines)
        title, remark = line.split("\n")
        assert "Lint: 1 remark" == title
        (note,) = read_notes(log_dir)
        assert ("lint", "G03", "Softmax") == (note["kind"], note["rule"], note["name"])
        assert remark.strip() == note["text"]
        assert note["place"] in note["text"]

    def test_error(self, log_dir):
        """With lint="error", training ends before its first step, and writes no checkpoint."""
        count, error = train(softmax_twice, callbacks=[ModelSaver()], lint="error")
        assert 0 == count
        assert "Lint: 1 remark\n  G03 Softmax" in str(error)
        assert "lint_ignore=[...]" in str(error)
        assert [] == [name for name in os.listdir(log_dir) if name.startswith(("model", "checkpoint", "graph"))]
        assert (3, None) == train(right, lint="error")  # the directory is not locked

    @pytest.mark.parametrize(
        ("get_cost", "settings"),
        [
            (softmax_twice, {"lint": "off"}),
            (softmax_twice, {"lint": "error", "lint_ignore": ["G03"]}),
            (right, {"data": FeedInput(images(scale=np.inf)), "lint_ignore": ["D02"]}),
            (right, {"callbacks": [validation()], "lint": "error"}),
        ],
        ids=["off", "ignored", "ignored data", "no mistake"],
    )
    def test_no_remark(self, log_dir, log_lines, get_cost, settings):
        """With lint="off", without the rule, or without a mistake, there is no line and no note."""
        assert (3, None) == train(get_cost, **settings)
        assert [] == remarks(log_lines)
        assert [] == read_notes(log_dir)

    def test_unknown_settings(self):
        """An unknown mode or id is a ValueError, in a TrainConfig and in a list of extensions."""
        with pytest.raises(
            ValueError, match=r"TrainConfig: lint is unknown \(expected 'warn', 'error', 'deep' or 'off'"
        ):
            TrainConfig(dataflow=threes(), model=Mean(), lint="yes")
        with pytest.raises(ValueError, match="TrainConfig: an id in lint_ignore is unknown"):
            TrainConfig(dataflow=threes(), model=Mean(), lint_ignore=["G99"])
        with pytest.raises(ValueError, match="lint is unknown"):
            DEFAULT_EXTENSIONS(lint="sometimes")

    def test_trainer_of_a_script(self, log_lines):
        """Trainers without towers have no remark."""
        trainer = CountingTrainer()
        trainer.extensions = DEFAULT_EXTENSIONS(lint="error")
        run(trainer)
        assert [] == remarks(log_lines)

    def test_a_rule_that_fails(self, monkeypatch, log_lines):
        """An error in a rule is a warning, and the other rules are applied."""

        def broken(training):
            raise KeyError("a bug")
            yield

        monkeypatch.setattr(module, "GRAPH_RULES", [broken, *rules.GRAPH_RULES])
        assert (3, None) == train(softmax_twice)
        assert ["Lint: broken failed: KeyError: 'a bug'", "Lint: 1 remark"] == [
            line.split("\n")[0] for line in remarks(log_lines)
        ]

    def test_ids(self):
        """`RULE_IDS` has the ids of all rules, which are in their docstrings."""
        ids = {rule.__doc__.split(":")[0].strip() for rule in rules.GRAPH_RULES}
        assert {one for one in rules.RULE_IDS if one.startswith("G")} == ids


INPUTS = [FeedInput, QueueInput, lambda data: StagingInput(QueueInput(data)), TFDatasetInput]


class TestData:
    @pytest.mark.parametrize("make", INPUTS, ids=["Feed", "Queue", "Staging", "TFDataset"])
    def test_not_finite(self, make, log_lines):
        """NaN in the first datapoint has a remark, with all inputs that read a DataFlow."""
        data = images()
        data.ds.lst[:] = [[image * np.float32("nan"), label] for image, label in data.ds.lst]
        assert (3, None) == train(data=make(data))
        (line,) = remarks(log_lines)
        assert "D02 image: 768 of 768 values of a datapoint are NaN or infinite." in line

    @pytest.mark.parametrize("make", INPUTS[:2], ids=["Feed", "Queue"])
    def test_not_finite_is_an_error(self, make):
        """With lint="error", NaN in the first datapoint ends training before its first step."""
        count, error = train(data=make(images(scale=np.inf)), lint="error")
        assert 0 == count
        assert "Lint: 1 remark\n  D02 image" in str(error)

    def test_labels_out_of_range(self, log_lines):
        """A label in the second datapoint that is not below the number of logits has one warning."""

        def ignores_large_labels(image, label):
            logits = FullyConnected("fc", image, 10)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
            return tf.reduce_mean(losses)

        data = images(label=lambda k: 10 if k == 5 else 1, shuffle=False)
        with pytest.raises(tf.errors.InvalidArgumentError):  # only on the CPU
            train(ignores_large_labels, FeedInput(data))
        (line,) = remarks(log_lines)
        assert "D02 label: labels are in [1, 10], but the last layer has 10 classes, from 0 to 9." in line

    @pytest.mark.parametrize("make", INPUTS[:2], ids=["Feed", "Queue"])
    @pytest.mark.parametrize("scale", [1, 255])
    def test_image_as_label(self, log_lines, make, scale):
        """If an image is the label of a sigmoid cross entropy, its range is examined, and not that of the numbers of classes."""

        def autoencoder(image, label):
            flat = tf.reshape(image, [-1, 192])
            logits = FullyConnected("fc", flat, 192)
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=flat, logits=logits))

        assert (3, None) == train(autoencoder, make(images(label=lambda k: k, scale=scale)))
        found = [line for line in remarks(log_lines) if "D02" in line]
        assert (scale > 1) == bool(found)
        assert all("D02 image: labels are in [" in line for line in found)

    def test_labels_in_runs(self, log_lines):
        """Sorted labels have a remark when four windows of 500 have passed."""
        blank = np.ones((8, 8, 3), "float32")
        data = DataFromList([[blank, k // 1000] for k in range(10000)], shuffle=False)
        assert (3, None) == train(data=FeedInput(BatchData(data, 500)), steps=3)
        assert [] == remarks(log_lines)
        assert (6, None) == train(data=FeedInput(BatchData(data, 500)), steps=6, lint="error")
        (line,) = remarks(log_lines)
        assert "D01 label: labels come in runs: 500 in a row have about 1.0 classes, all of them 2.0." in line

    def test_labels_of_a_simulator(self, log_lines):
        """Data without a length has no remark about runs, because its labels may change with the model."""
        blank = np.ones((8, 8, 3), "float32")
        data = DataFromGenerator(lambda: ([blank, k // 1000] for k in range(10000)))
        assert (6, None) == train(data=FeedInput(BatchData(data, 500)), steps=6)
        assert [] == remarks(log_lines)

    def test_ranges(self, log_lines):
        """Images in [0, 1] in training and in [0, 255] in validation have a remark at the first evaluation."""
        runner = InferenceRunner(images(scale=255), ScalarStats("cost"))
        assert (3, None) == train(callbacks=[runner], lint="error")
        (line,) = remarks(log_lines)
        words = r"D03 image: the largest absolute value of images is [01][.\d]* in training and 25\d in validation"
        assert re.search(words, line)

    @pytest.mark.slow
    def test_the_same_samples_in_validation(self, log_lines):
        """Validation on images of the training data has a remark; with other images, or on purpose, it has none."""

        def evaluate(*data, **kwargs):
            runners = [InferenceRunner(flow, ScalarStats("cost"), f"tower{k}") for k, flow in enumerate(data)]
            train(data=FeedInput(large(0)), callbacks=runners, steps=6, **kwargs)

        def large(first):
            noise = np.random.RandomState(0).rand(1200, 8, 8, 3).astype("float32")
            return BatchData(DataFromList([[one, 1] for one in noise[first : first + 600]], shuffle=True), 100)

        evaluate(large(600))
        evaluate(large(500), large(600))  # two runners: one of them may be meant for the training data
        evaluate(large(500), lint_ignore=["D04"])
        assert [] == remarks(log_lines)
        evaluate(large(500))
        (line,) = remarks(log_lines)
        assert "D04 image: " in line
        assert "samples of validation are also among 600 samples of training." in line

    def test_copies_within_a_pass(self, log_lines):
        """Images that come twice in a row, as from two workers with the same random numbers, have a remark."""
        noise = np.random.RandomState(0).rand(1000, 8, 8, 3).astype("float32")
        for copies in (1, 2):
            rows = [[one, k % 10] for k, one in enumerate(noise) for _ in range(copies)]
            data = DataFromList(rows * (2 // copies), shuffle=False)
            assert [] == remarks(log_lines)
            train(data=FeedInput(BatchData(data, 100)), steps=6)
        (line,) = remarks(log_lines)
        assert "D04 image: 250 of the first 500 samples of the pass are copies of earlier ones." in line

    def test_data_is_not_changed(self):
        """Training gets the same datapoints in the same order with lint and without it."""

        class Keep(Callback):
            def _before_run(self, ctx):
                return [self.trainer.find_tensor("label"), self.trainer.find_tensor("image")]

            def _after_run(self, ctx, run_values):
                self.seen = [*getattr(self, "seen", []), run_values.results]

        seen = []
        for mode in ("off", "warn"):
            keep = Keep()
            train(data=FeedInput(images(shuffle=False)), callbacks=[keep], steps=12, lint=mode)
            seen.append(keep.seen)
        assert 12 == len(seen[0]) == len(seen[1])
        for first, second in zip(*seen):
            np.testing.assert_array_equal(first[0], second[0])
            np.testing.assert_array_equal(first[1], second[1])


class TestFirstCost:
    """T01, with the default callbacks, of which the progress bar evaluates the cost."""

    def costs(self, get_cost, scale=1.0, **kwargs):
        """Train for two steps. Return whether training has ended well."""
        settings = {"callbacks": [ProgressBar()], "steps": 2, **kwargs}
        return (2, None) == train(get_cost, FeedInput(images(scale=scale)), **settings)

    def test_pixels_that_are_not_scaled(self, log_lines):
        """Pixels up to 255 have a remark with the first cross entropy, and the line that computes it."""

        def large_weights(image, label):
            logits = FullyConnected("fc", image, 10, kernel_initializer=tf.random_normal_initializer(seed=0))
            return tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)  # here
            )

        assert self.costs(large_weights, scale=255)
        (line,) = remarks(log_lines)
        assert "T01 SparseSoftmaxCrossEntropyWithLogits" in line
        assert marked_line(large_weights) in line
        first = float(re.search(r"the first cross entropy is ([\d.e+]+),", line).group(1))
        assert first > 100
        assert "that of 10 equal probabilities is 2.3, " in line

    @pytest.mark.slow
    def test_usual_costs(self, log_lines):
        """A usual first cost has no remark: neither with tf.losses, nor with a large weight decay or sum of losses."""

        def of_tf_losses(image, label):
            return tf.losses.sparse_softmax_cross_entropy(label, FullyConnected("fc", image, 10))

        def decayed(image, label):
            weight = tf.get_variable("large", [100], initializer=tf.ones_initializer())
            return tf.add(right(image, label), tf.reduce_sum(tf.square(weight)))

        for get_cost in (right, of_tf_losses, decayed, lambda image, label: 100 * right(image, label)):
            assert self.costs(get_cost)
        assert [] == remarks(log_lines)

    @pytest.mark.slow
    def test_settings(self, log_lines):
        """There is no remark without the rule, without a bar, with restored variables, or with lint off."""

        def large(image, label):
            return right(1e5 * image, label)

        assert self.costs(large, lint_ignore=["T01"])
        assert self.costs(large, lint="off")
        assert self.costs(large, callbacks=[])
        assert self.costs(large, session_init={"fc/W": np.ones([192, 10], "float32")})
        assert [] == remarks(log_lines)
        assert self.costs(large)
        assert 1 == len(remarks(log_lines))

    def test_the_bar_without_lint(self):
        """The function gets the first cost, once. A bar of other tensors does not call it."""
        costs, bar, other = [], ProgressBar(), ProgressBar([])
        bar.hang_detector_cost(costs.append)
        other.hang_detector_cost(costs.append)
        run(CountingTrainer(), [bar, other])
        assert [] == costs  # this trainer has no cost
        bar = ProgressBar()
        bar.hang_detector_cost(costs.append)
        train(callbacks=[bar], steps=3, lint="off")
        assert 1 == len(costs)
        assert 0 < costs[0] < 10

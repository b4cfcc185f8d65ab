"""CollectPredictions: training runs that write predictions without a line in the script, and others that do not."""

from __future__ import annotations

import json
import os
import random
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.reports import page_of

from tensorpack_lite.callbacks.inference import Inferencer, ScalarStats
from tensorpack_lite.callbacks.inference_runner import DataParallelInferenceRunner, InferenceRunner
from tensorpack_lite.callbacks.report import ReportWriter
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.sharded_inference import ShardedInferenceRunner
from tensorpack_lite.callbacks.worst_samples import WorstSamples
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.predictions.collect import as_classes, evaluate
from tensorpack_lite.diagnostics.predictions.extension import Predictions, _AddToRunner
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.report.samples import CONFUSION, FIRST_BATCH, PREDICTIONS, WORST, sample_path
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.defaults import DEFAULT_CALLBACKS
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.npz import read_npz
from tensorpack_lite.utils.random_streams import fix_rng_seed

SAMPLES = np.random.RandomState(7).randn(50, 4, 4).astype("float32") * 3
LABELS = np.random.RandomState(8).randint(0, 5, 50)


class Model(ModelDesc):
    """The logits are the first five pixels times a weight, which training does not change."""

    def __init__(self, dropout=0.0, rate=0.0):
        self.dropout, self.rate = dropout, rate

    def inputs(self):
        return [tf.TensorSpec([None, None, None], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        weight = tf.get_variable("weight", initializer=1.0)
        pixels = tf.reshape(x, [tf.shape(x)[0], -1])[:, :5]
        if self.training and self.dropout:
            pixels = tf.nn.dropout(pixels, rate=self.dropout)
        logits = tf.identity(pixels * weight, name="logits")
        logits.set_shape([None, 5])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y)
        return tf.reduce_mean(tf.identity(losses, name="losses"), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(self.rate)


def batches(samples=SAMPLES, labels=LABELS, size=16):
    """Return the validation data, whose last batch is smaller."""
    return BatchData(DataFromList(list(zip(samples, labels)), shuffle=False), size, remainder=True)


def train(runner, model=None, epochs=2, make=TrainConfig, extensions=None, callbacks=(), **settings):
    """Train one step in each epoch, and validate."""
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        config = make(
            model=model or Model(),
            dataflow=batches(),
            callbacks=[*([runner] if runner else []), *callbacks],
            steps_per_epoch=1,
            max_epoch=epochs,
            **settings,
        )
        trainer = SimpleTrainer()
        if extensions is not None:
            trainer.extensions = extensions(trainer.extensions)
        launch_train_with_config(config, trainer)
    return runner


def without_predictions(extensions):
    """Return the extensions without the one that collects predictions."""
    return [extension for extension in extensions if not isinstance(extension, Predictions)]


def written(directory):
    """Return the names of the files of samples."""
    folder = os.path.join(directory, "samples")
    return {name[: -len(".npz")] for name in os.listdir(folder)} - {FIRST_BATCH} if os.path.isdir(folder) else set()


def expected_values(samples=SAMPLES, labels=LABELS):
    """Return predictions, probabilities and losses by their definitions."""
    logits = samples.reshape(len(samples), -1)[:, :5].astype("float64")
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    losses = -np.log(probabilities[np.arange(len(labels)), labels])
    return logits.argmax(axis=1), probabilities.max(axis=1), losses


RUNNERS = {
    "feed": lambda: InferenceRunner(batches(), ScalarStats("cost")),
    "queue": lambda: InferenceRunner(QueueInput(batches()), []),
    "tf.data": lambda: InferenceRunner(TFDatasetInput(batches()), ScalarStats("cost")),
    "towers": lambda: DataParallelInferenceRunner(batches(), ScalarStats("cost"), [0, 1]),
    "sharded, alone": lambda: ShardedInferenceRunner(batches(), ScalarStats("cost")),
}


class TestWritten:
    @pytest.mark.parametrize("runner", RUNNERS)
    def test_numbers(self, log_dir, runner):
        """The worst samples and the confusion matrix over all samples are those that NumPy computes, also with a smaller last batch."""
        train(RUNNERS[runner]())
        predictions, probabilities, losses = expected_values()
        worst = read_npz(sample_path(log_dir, WORST))
        order = np.argsort(-losses)[:16]
        assert LABELS[order].tolist() == worst["label"].tolist()
        assert predictions[order].tolist() == worst["prediction"].tolist()
        np.testing.assert_allclose(losses[order], worst["loss"], rtol=1e-5)
        np.testing.assert_allclose(probabilities[order], worst["probability"], rtol=1e-5)
        np.testing.assert_array_equal(SAMPLES[order].astype("float16"), worst["image"][..., 0])
        matrix = np.zeros([5, 5], int)
        np.add.at(matrix, (LABELS, predictions), 1)
        assert matrix.tolist() == read_npz(sample_path(log_dir, CONFUSION))["matrix"].tolist()
        assert 2 == worst["global_step"]

    def test_random_samples(self, log_dir):
        """16 different samples are chosen, from all batches, with their own labels and predictions."""
        train(InferenceRunner(batches(), []))
        shown = read_npz(sample_path(log_dir, PREDICTIONS))
        images = SAMPLES.astype("float16")
        numbers = [int(np.flatnonzero((images == image[..., 0]).all(axis=(1, 2)))[0]) for image in shown["image"]]
        assert 16 == len(set(numbers))
        assert {0, 1, 2} <= {number // 16 for number in numbers}
        assert LABELS[numbers].tolist() == shown["label"].tolist()
        assert expected_values()[0][numbers].tolist() == shown["prediction"].tolist()

    def test_page(self, log_dir):
        """The report has the predictions, the worst samples and the confusion matrix."""
        train(InferenceRunner(batches(), ScalarStats("cost")))
        page = page_of(log_dir)
        predictions, probabilities, losses = expected_values()
        worst = losses.argmax()
        caption = f"label {LABELS[worst]}, prediction {predictions[worst]} ({probabilities[worst]:.0%}), loss "
        assert caption in page.text
        assert "Predictions for random validation samples, at step 2" in page.text
        assert "The validation samples with the largest loss, at step 2" in page.text
        assert f"At step 2, {np.mean(LABELS == predictions):.1%} of 50 validation samples are right." in page.text
        assert 48 == len(page.all("img"))  # with those of the first batch

    def test_few_samples(self, log_dir):
        """Fewer than 16 samples are all kept."""
        train(InferenceRunner(batches(SAMPLES[:3], LABELS[:3]), []))
        assert sorted(LABELS[:3]) == sorted(read_npz(sample_path(log_dir, PREDICTIONS))["label"].tolist())

    def test_large_images(self, log_dir):
        """Large images are scaled down to at most 160 pixels."""
        train(InferenceRunner(batches(np.random.RandomState(1).rand(3, 400, 200).astype("float32"), LABELS[:3]), []))
        images = read_npz(sample_path(log_dir, PREDICTIONS))["image"]
        assert ((3, 133, 66, 1), np.float16) == (images.shape, images.dtype)

    def test_unknown_labels(self, log_dir):
        """Samples whose label is not a class are skipped."""

        class OneHot(Model):
            def build_graph(self, x, y):
                weight = tf.get_variable("weight", initializer=1.0)
                logits = tf.reshape(x, [tf.shape(x)[0], 16])[:, :5] * weight
                return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=tf.one_hot(y, 5)))

        labels = np.where(np.arange(50) % 5 == 0, -1, LABELS)
        train(InferenceRunner(batches(labels=labels), []), OneHot())
        assert 40 == read_npz(sample_path(log_dir, CONFUSION))["matrix"].sum()

    def test_a_later_round(self, log_dir):
        """Each round replaces the files of the round before, with the same random samples."""
        steps, labels = [], []

        class Look(Inferencer):
            def _get_fetches(self):
                return ["cost"]

            def _on_fetches(self, results):
                pass

            def _before_inference(self):
                if PREDICTIONS in written(log_dir):
                    shown = read_npz(sample_path(log_dir, PREDICTIONS))
                    steps.append(int(shown["global_step"]))
                    labels.append(shown["label"].tolist())

        train(InferenceRunner(batches(), Look()), epochs=3)
        assert [1, 2] == steps
        assert labels[0] == labels[1]


class TestNotWritten:
    @pytest.mark.parametrize("extensions", [None, without_predictions])
    def test_switched_off(self, log_dir, extensions):
        """Without the extension, or without a ReportWriter, nothing is written or fetched."""
        extra = [cb for cb in DEFAULT_CALLBACKS() if extensions or not isinstance(cb, ReportWriter)]
        runner = train(InferenceRunner(batches(), ScalarStats("cost")), extensions=extensions, extra_callbacks=extra)
        assert set() == written(log_dir)
        assert 2 == len(runner.fetched)  # the cost and the number of samples

    def test_no_directory(self):
        """Without a logger directory, nothing is fetched."""
        assert 2 == len(train(InferenceRunner(batches(), ScalarStats("cost"))).fetched)

    def test_no_validation(self, log_dir):
        """Without an InferenceRunner, nothing is written."""
        train(None)
        assert set() == written(log_dir)

    def test_other_model(self, log_dir, log_lines):
        """A model that does not classify gets nothing, and no message."""

        class Regression(Model):
            def build_graph(self, x, y):
                weight = tf.get_variable("weight", initializer=1.0)
                return tf.reduce_mean(tf.square(x[:, 0, 0] * weight - tf.cast(y, tf.float32)), name="cost")

        runner = train(InferenceRunner(batches(), ScalarStats("cost")), Regression())
        assert set() == written(log_dir)
        assert 2 == len(runner.fetched)
        assert not any("redictions" in line for line in log_lines)

    def test_sizes_that_differ(self, log_dir):
        """Images of different sizes are not shown, and validation continues."""
        samples = [np.ones([4 + k, 4], "float32") for k in range(2)]
        train(InferenceRunner(batches(samples, LABELS[:2], size=1), ScalarStats("cost")))
        assert set() == written(log_dir)

    def test_several_ranks(self):
        """A runner that shards its data over several ranks sends no images to the chief."""
        runner = ShardedInferenceRunner(batches(), [])
        for size, number in ((2, 0), (1, 1)):
            callback = _AddToRunner()
            callback.trainer = SimpleNamespace(
                find_callbacks=lambda kind: [runner, ReportWriter()], ranks=SimpleNamespace(size=size)
            )
            callback._setup_graph()
            assert number == len(runner._guests)

    def test_disk_error(self, log_dir, log_lines):
        """A disk error is logged, and training continues."""
        with open(os.path.join(log_dir, "samples"), "w"):
            pass
        train(InferenceRunner(batches(), []), epochs=1)
        assert 1 == sum("Cannot write predictions for the report" in line for line in log_lines)


def test_worst_samples_of_the_user(log_dir):
    """The file of a `WorstSamples` of the user stays; the other files are written, too."""
    train(InferenceRunner(batches(), WorstSamples("losses", ["y"], num_samples=3)))
    assert {"y", "losses", "global_step"} == set(read_npz(sample_path(log_dir, WORST)))
    assert {WORST, PREDICTIONS, CONFUSION} == written(log_dir)


class TestNothingElseChanges:
    def results(self, directory, extensions):
        """Train with dropout in a new directory. Return scalars, weights and the states of NumPy's and Python's generators."""
        logger.set_logger_dir(str(directory), action="d")
        fix_rng_seed(5)
        np.random.seed(1)
        random.seed(1)
        runner = InferenceRunner(batches(), ScalarStats("cost"))
        train(runner, Model(0.5, 0.5), 3, extensions=extensions, callbacks=[ModelSaver()])
        with open(os.path.join(str(directory), "stats.json"), encoding="utf-8") as file:
            rows = [{name: row[name] for name in row if "cost" in name} for row in json.load(file)]
        weights = load_checkpoint_vars(os.path.join(str(directory), "model-3"))
        with open(os.path.join(str(directory), "manifest.json"), encoding="utf-8") as file:
            manifest = json.loads(file.read().replace(str(directory), "here"))
        return (
            rows,
            weights,
            np.random.get_state()[1].tolist(),
            random.getstate(),
            manifest["graph"],
            manifest["callbacks"],
        )

    def test_equal(self, tmp_path, log_dir):
        """Scalars, variables, random states and manifest are equal with and without predictions."""
        ours = self.results(tmp_path / "with", None)
        theirs = self.results(tmp_path / "without", without_predictions)
        assert {PREDICTIONS, WORST, CONFUSION} == written(str(tmp_path / "with"))
        assert theirs == ours

    def test_resume(self, tmp_path, log_dir):
        """A training that resumes, also from a checkpoint without predictions, ends with the same files as one in one piece."""
        found = []
        for name, first in (("whole", None), ("resumed", list), ("from before", without_predictions)):
            logger.set_logger_dir(str(tmp_path / name), action="d")
            for epochs in (3,) if first is None else (1, 3):
                extensions = first if epochs == 1 else None
                settings = {
                    "extensions": extensions,
                    "callbacks": [ModelSaver()],
                    "make": AutoResumeTrainConfig,
                    "exact": "require",
                }
                train(InferenceRunner(batches(), ScalarStats("cost")), Model(rate=0.5), epochs, **settings)
            arrays = {
                part: read_npz(sample_path(str(tmp_path / name), part)) for part in (PREDICTIONS, WORST, CONFUSION)
            }
            found.append({part: {key: array.tolist() for key, array in arrays[part].items()} for part in arrays})
        assert 3 == found[0][WORST]["global_step"]
        assert found[0] == found[1] == found[2]


class TestEvaluate:
    def test_softmax(self):
        """Large logits do not overflow; a NaN counts as the largest loss."""
        logits = as_classes(np.array([[1000, 0], [0, 0], [np.nan, 0]], "float32"))
        prediction, probability, loss = evaluate(logits, np.array([1, 0, 1]), False)
        assert [0, 0] == prediction[:2].tolist()
        np.testing.assert_allclose([1, 0.5, np.nan], probability)
        np.testing.assert_allclose([1000, np.log(2), np.nan], loss)

    @pytest.mark.parametrize("shape", [[3], [3, 1]])
    def test_binary(self, shape):
        """One logit for each sample means two classes."""
        logits = np.array([-2, 0.5, 3], "float32").reshape(shape)
        prediction, probability, loss = evaluate(as_classes(logits), np.array([0, 1, 0]), False)
        positive = 1 / (1 + np.exp([2, -0.5, -3]))
        assert [0, 1, 1] == prediction.tolist()
        np.testing.assert_allclose([1 - positive[0], positive[1], positive[2]], probability)
        np.testing.assert_allclose(-np.log([1 - positive[0], positive[1], 1 - positive[2]]), loss)

    def test_sigmoid(self):
        """With a sigmoid for each class, the loss is the sum over the classes."""
        logits = np.array([[1.0, -1.0, 0.5]])
        prediction, probability, loss = evaluate(logits, np.array([2]), True)
        each = 1 / (1 + np.exp(-logits[0]))
        assert [0] == prediction.tolist()
        np.testing.assert_allclose(each[:1], probability)
        np.testing.assert_allclose(-np.log((1 - each[0]) * (1 - each[1]) * each[2]), loss[0])

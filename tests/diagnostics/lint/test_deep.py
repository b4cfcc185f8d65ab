"""Rule T02 of lint: what it finds, and that the training is as if it had not run."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.linted import Classifier, images, marked_line

from tensorpack_lite.callbacks.steps import ProgressBar
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.diagnostics.lint.step_rules import NUM_STEPS
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.tensor import TensorInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BatchNorm, FullyConnected
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer


def cross_entropy(logits, label):
    """Return the mean cross entropy."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)  # here
    )


def right(image, label):
    hidden = tf.nn.relu(FullyConnected("hidden", image, 32))
    return cross_entropy(FullyConnected("fc", hidden, 10), label)


def with_batch_norm(image, label):
    return cross_entropy(FullyConnected("fc", BatchNorm("bn", image), 10), label)


def mixes_samples(image, label):
    pixels = tf.reshape(tf.transpose(tf.reshape(image, [-1, 192])), tf.shape(tf.reshape(image, [-1, 192])))
    return cross_entropy(FullyConnected("fc", tf.reshape(pixels, [-1, 192]), 10), label)


def ignores_pixels(image, label):
    constant = tf.reshape(image, [-1, 192]) * 1e-6
    return cross_entropy(FullyConnected("fc", constant, 10, use_bias=False), label)


def dead(image, label):
    logits = FullyConnected("fc", image, 10)
    unused = tf.nn.relu(tf.get_variable("offset", initializer=tf.fill([10], -1.0)))  # dead
    return cross_entropy(logits + unused, label)


class Keep(Callback):
    """Keeps the labels of each step, and the variables after the last one."""

    def _setup_graph(self):
        self.labels = []

    def _before_run(self, ctx):
        return [self.trainer.towers.training()[0]["label"]]

    def _after_run(self, ctx, run_values):
        self.labels.append(run_values.results[0].tolist())

    def _after_train(self):
        everything = [*tf.global_variables(), *tf.local_variables()]
        variables = [one for one in everything if "queue_size" not in one.name]  # depends on time
        self.values = dict(zip([one.name for one in variables], self.trainer.sess.run(variables)))


class Scaled(Classifier):
    """A classifier with a third input, a scalar."""

    def inputs(self):
        return [*super().inputs(), TensorSpec([], tf.float32, "scale")]

    def build_graph(self, image, label, scale):
        return super().build_graph(image * scale, label)


def train(get_cost, mode="deep", make=FeedInput, trainer=SimpleTrainer, base=Classifier, **kwargs):
    """Train for 12 steps of momentum. Return the `Keep`."""

    class Model(base):
        def optimizer(self):
            return tf.train.MomentumOptimizer(0.1, 0.9)

    keep = Keep()
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        config = TrainConfig(
            model=Model(get_cost),
            data=make(images(shuffle=False)),
            callbacks=[keep],
            extra_callbacks=[ProgressBar()],
            monitors=[],
            steps_per_epoch=6,
            max_epoch=2,
            lint=mode,
            **kwargs,
        )
        launch_train_with_config(config, trainer())
    return keep


def remarks(log_lines):
    """Return the remarks in the log, without their indentation."""
    lines = [line for text in log_lines for line in text.split("\n")]
    return [line.strip() for line in lines if line.strip().startswith("T02")]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(FeedInput, id="Feed", marks=pytest.mark.slow),
        pytest.param(QueueInput, id="Queue", marks=pytest.mark.slow),
        pytest.param(lambda data: StagingInput(QueueInput(data)), id="Staging"),
    ],
)
def test_the_training_does_not_change(make, log_lines):
    """With 'deep', all steps get the same datapoints, and all variables end with the same values as without it."""
    plain, deep = (train(right, mode, make) for mode in ("warn", "deep"))
    assert 12 == len(plain.labels)
    assert plain.labels == deep.labels
    assert plain.values.keys() == deep.values.keys()
    for name, value in plain.values.items():
        np.testing.assert_array_equal(value, deep.values[name], err_msg=name)
    assert 1 == sum(line.startswith(f"Lint: {NUM_STEPS} steps on one batch") for line in log_lines)
    assert [] == remarks(log_lines)


@pytest.mark.slow
def test_several_towers(log_lines):
    """All towers get the batch, and the copies of the variables stay equal."""
    plain, deep = (
        train(right, mode, QueueInput, lambda: SyncMultiGPUTrainerReplicated([0, 1], mode="cpu"))
        for mode in ("warn", "deep")
    )
    for name, value in plain.values.items():
        np.testing.assert_allclose(value, deep.values[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert [] == remarks(log_lines)


@pytest.mark.slow
@pytest.mark.parametrize("has_scalar", [False, True])
def test_mixed_samples(log_lines, has_scalar):
    """A wrong reshape that mixes samples has a remark with the line of the loss, also beside an input that is a scalar."""
    if not has_scalar:
        train(with_batch_norm)
        assert [] == remarks(log_lines)
        train(mixes_samples)
    else:
        scaled = lambda data: FeedInput(MapData(data, lambda dp: [*dp, np.float32(1)]))  # noqa: E731
        train(mixes_samples, make=scaled, base=Scaled)
    (line,) = remarks(log_lines)
    assert "the losses of the other samples change when the first one is replaced." in line
    assert marked_line(cross_entropy) in line


@pytest.mark.slow
def test_a_batch_that_cannot_be_learnt(log_lines):
    """A model that hardly sees its input has a remark with the cross entropy before and after."""
    train(ignores_pixels)
    (line,) = remarks(log_lines)
    assert f"the cross entropy is 2.3 before and 2.3 after {NUM_STEPS} steps." in line


@pytest.mark.slow
def test_a_variable_that_does_not_change(log_lines):
    """A variable behind a dead activation has a remark with the line that created it."""
    train(dead)
    (line,) = remarks(log_lines)
    assert line.startswith("T02 offset (")
    assert marked_line(dead, "# dead") in line


@pytest.mark.slow
def test_settings(log_lines):
    """The rule can be ignored. Without a batch that Python has read, one line in the log explains it."""
    train(ignores_pixels, lint_ignore=["T02"])
    assert [] == remarks(log_lines)
    tensors = TensorInput(lambda: [tf.zeros([4, 8, 8, 3]), tf.zeros([4], tf.int32)], 10)
    train(right, make=lambda data: tensors)
    assert 1 == sum(line.startswith("Lint: 'deep' is not possible") for line in log_lines)

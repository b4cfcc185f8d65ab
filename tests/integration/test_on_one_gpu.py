"""
Tests that need one GPU: precision, XLA, recomputation and memory that runs out. `tox -e gpu` runs them.

Not yet run on a GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
from fakes.digit_models import ConvNet, Recurrent, train_digits
from fakes.logical_gpus import need_gpus

from tensorpack_lite.callbacks import GPUMemoryTracker
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import FakeData
from tensorpack_lite.input_source import TensorInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BNReLU, Conv2D, Dropout, FullyConnected
from tensorpack_lite.tfutils.recompute import recompute_grad
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.train import ModelDesc, SimpleTrainer, TrainConfig, launch_train_with_config

pytestmark = pytest.mark.gpu


class Initial(Callback):
    """Callback that keeps the values of all variables before and after training."""

    def _before_train(self):
        self.before = self._values()

    def _after_train(self):
        self.after = self._values()

    def _values(self):
        return self.trainer.sess.run({var.op.name: var for var in tf.global_variables()})


class Deep(ModelDesc):
    """A deep residual network, whose blocks are recomputed or not."""

    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute

    def inputs(self):
        return [TensorSpec([32, 64, 64, 16], tf.float32, "image")]

    def build_graph(self, image):
        build = recompute_grad(block) if self.recompute else block
        for k in range(12):
            with tf.variable_scope(f"block{k}"):
                image = build(image)
        return tf.reduce_mean(tf.cast(image, tf.float32) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.01)


def block(x):
    y = Conv2D("conv0", x, 16, 3, activation=BNReLU)
    return x + Dropout(Conv2D("conv1", y, 16, 3, activation=BNReLU), rate=0.1)


class Hungry(ModelDesc):
    """A model that needs more memory than any GPU has."""

    def inputs(self):
        return [TensorSpec([1, 3], tf.float32, "x")]

    def build_graph(self, x):
        large = tf.fill(tf.cast(tf.reduce_sum(x) * 0 + [1 << 20, 1 << 19], tf.int32), 1.0, name="large")
        return tf.reduce_mean(FullyConnected("fc", x, 2)) * tf.reduce_mean(large)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.parametrize("model", [ConvNet, Recurrent])
@pytest.mark.parametrize("arguments", [{"precision": "mixed_float16"}, {"precision": "mixed_bfloat16"}, {"xla": True}])
def test_accuracy(model, arguments):
    """Mixed precision and XLA reach the accuracy of float32 within 1 % after a few epochs."""
    need_gpus(1)
    means, initial = [], {}
    for current in ({}, arguments):
        kept = Initial()
        with tf.Graph().as_default():
            trainer = train_digits(model(), 20, [kept], session_init=DictRestore(initial), **current)
        initial = kept.before
        history = [value for _, value in trainer.monitors.get_history("validation_accuracy")]
        means.append(np.mean(history[-5:]))
    assert abs(means[1] - means[0]) < 0.01


def test_recomputation_needs_less_memory():
    """A deep network with recomputed blocks has less than two thirds of the peak memory, by the allocator of the GPU."""
    need_gpus(1)
    peaks = []
    for recompute in (True, False):  # the peak of a process never decreases
        with tf.Graph().as_default():
            trainer, model = SimpleTrainer(), Deep(recompute)
            source = TensorInput(lambda: [tf.random_uniform([32, 64, 64, 16])])
            trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
            trainer.train_with_defaults(
                callbacks=[GPUMemoryTracker([0])],
                extra_callbacks=[],
                monitors=[],
                steps_per_epoch=3,
                max_epoch=1,
            )
        peaks.append(trainer.monitors.get_latest("PeakMemory(MB)/gpu:0"))
    assert peaks[0] < peaks[1] * 2 / 3


def test_out_of_memory():
    """A step that needs too much memory raises TensorFlow's error with one sentence that names the GPU."""
    need_gpus(1)
    config = TrainConfig(
        model=Hungry(), dataflow=FakeData([[1, 3]], random=False), steps_per_epoch=1, max_epoch=1, monitors=[]
    )
    with pytest.raises(tf.errors.ResourceExhaustedError, match="ran out of memory on GPU 0 in 'large"):
        launch_train_with_config(config, SimpleTrainer())

"""Tests of tfutils/xla.py: XLA really compiles, and computes the same."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest
from fakes.trainers import launch

from tensorpack_lite.compat import TensorSpec, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import FakeData
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import Conv2D, FullyConnected
from tensorpack_lite.tfutils import xla
from tensorpack_lite.tfutils.xla import with_xla
from tensorpack_lite.train import ModelDesc


class Traced(Callback):
    """Callback that keeps the types of the operations that TensorFlow runs in a step."""

    def _before_run(self, _):
        options = tf.RunOptions(output_partition_graphs=True)
        return tf.train.SessionRunArgs([], options=options)

    def _after_run(self, _, values):
        graphs = values.run_metadata.partition_graphs
        self.types = {node.op for graph in graphs for node in graph.node}


class Small(ModelDesc):
    """A model with a convolution, its bias and activation, and a matrix product."""

    def inputs(self):
        return [TensorSpec([4, 8, 8], tf.float32, "image")]

    def build_graph(self, image):
        x = Conv2D("conv", tf.expand_dims(image, 3), 4, 3, activation=tf.nn.relu)
        return tf.reduce_mean(tf.square(FullyConnected("fc", x, 3)), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.slow
def test_it_compiles():
    """With xla=True, the step runs clusters of XLA instead of convolutions and matrix products, and reports its cost."""
    traced = [Traced(), Traced()]
    for is_on, callback in zip((False, True), traced):
        data = FakeData([[4, 8, 8]], 2, random=False)
        trainer = launch(model=Small(), dataflow=data, callbacks=[callback], steps_per_epoch=2, xla=is_on, monitors=[])
        assert trainer.monitors.get_latest("cost") > 0
    plain, compiled = ({one for one in callback.types if re.search("Conv2D|MatMul", one)} for callback in traced)
    assert plain
    assert not compiled
    assert not {one for one in traced[0].types if "Xla" in one}
    assert {"_XlaCompile", "_XlaRun"} <= traced[1].types


def test_values(sess):
    """Values and gradients are the same up to rounding."""
    x = tf.constant(np.random.RandomState(0).rand(3, 4), tf.float32)

    def build(x):
        return tf.reduce_sum(tf.tanh(tf.matmul(x, x, transpose_b=True)) ** 2)

    plain, compiled = build(x), with_xla(build)(x)
    for left, right in zip(*sess.run([[y, tf.gradients(y, x)] for y in (plain, compiled)])):
        np.testing.assert_allclose(left, right, rtol=1e-5)


def test_without_xla(monkeypatch):
    """A TensorFlow without XLA raises RuntimeError before the model is built."""
    monkeypatch.setattr(xla, "tensorflow", types.SimpleNamespace(xla=None, __version__="9.9", test=None))
    with pytest.raises(RuntimeError, match=r"with_xla: TensorFlow 9\.9 was built without XLA"):
        with_xla(lambda: None)


def test_a_build_without_xla(monkeypatch):
    """So does one that has the functions, but says that they do not work."""
    if not hasattr(tensorflow.test, "is_built_with_xla"):
        pytest.skip("TensorFlow 1.15 cannot tell")
    monkeypatch.setattr(tensorflow.test, "is_built_with_xla", lambda: False)
    with pytest.raises(RuntimeError, match="was built without XLA"):
        with_xla(lambda: None)

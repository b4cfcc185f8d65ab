"""Tests of tfutils/xla.py: XLA really compiles, and computes the same."""

from __future__ import annotations

import types

import numpy as np
import pytest
from fakes.digit_models import ConvNet, train_digits

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils import xla
from tensorpack_lite.tfutils.xla import with_xla


class Traced(Callback):
    """Callback that keeps the types of the operations that TensorFlow runs in a step, and the last weights."""

    def _before_run(self, _):
        self.metadata = tf.RunMetadata()
        options = tf.RunOptions(output_partition_graphs=True)
        return tf.train.SessionRunArgs([], options=options)

    def _after_run(self, _, values):
        graphs = values.run_metadata.partition_graphs
        self.types = {node.op for graph in graphs for node in graph.node}

    def _after_train(self):
        self.values = self.trainer.sess.run({var.op.name: var for var in tf.trainable_variables()})


@pytest.mark.slow
def test_it_compiles():
    """With xla=True, the step runs clusters of XLA instead of convolutions and matrix products, and reports its cost."""
    traced = [Traced(), Traced()]
    for is_on, callback in zip((False, True), traced):
        with tf.Graph().as_default():
            trainer = train_digits(ConvNet(), 1, [callback], xla=is_on, steps_per_epoch=3)
        assert trainer.monitors.get_latest("cost") > 0
    heavy = {"Conv2D", "Conv2DBackpropFilter", "MatMul", "_FusedConv2D", "_FusedMatMul"}
    assert heavy & traced[0].types
    assert not {one for one in traced[0].types if "Xla" in one}
    assert {"_XlaCompile", "_XlaRun"} <= traced[1].types
    assert not heavy & traced[1].types


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

"""Tests of models/fc.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.models.fc import batch_flatten

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)


class TestBatchFlatten:
    def test_memory_order(self, sess):
        """Values are in row-major order, as in NumPy."""
        np.testing.assert_array_equal(DATA.reshape(2, 12), sess.run(batch_flatten(tf.constant(DATA))))

    def test_static_shape(self):
        """The number of columns is known statically if all sizes but the first are. A vector becomes one column."""
        assert [None, 12] == batch_flatten(tf.placeholder(tf.float32, [None, 3, 2, 2])).shape.as_list()
        assert [2, 1] == batch_flatten(tf.constant([1.0, 2.0])).shape.as_list()

    def test_unknown_sizes(self, sess):
        """Unknown sizes are computed when the graph runs."""
        x = tf.placeholder(tf.float32, [None, None, 2, 2])
        np.testing.assert_array_equal(DATA.reshape(2, 12), sess.run(batch_flatten(x), {x: DATA}))


class TestFullyConnected:
    def test_names_of_operations(self):
        """Operations have the names that TensorFlow's layer uses."""
        out = FullyConnected("fc", tf.constant(DATA), 3)
        assert "fc/BiasAdd" == out.op.inputs[0].op.name
        assert "fc/MatMul" == out.op.inputs[0].op.inputs[0].op.name

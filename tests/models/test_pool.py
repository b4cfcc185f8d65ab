"""Tests of models/pool.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import AvgPooling, FixedUnPooling, MaxPooling


@pytest.mark.parametrize("layer", [MaxPooling, AvgPooling])
def test_strides_default_to_the_size_of_the_pool(layer):
    """`strides` defaults to pool_size, and padding to 'valid'."""
    x = tf.placeholder(tf.float32, [None, 8, 8, 4])
    assert [None, 2, 4, 4] == layer("p", x, (3, 2)).shape.as_list()


class TestFixedUnPooling:
    def test_default_matrix(self, sess):
        """By default, each value is at the upper left of its zeros. The constant is named `unpool_mat`."""
        out = sess.run(FixedUnPooling("u", tf.constant([[[[1.0], [2.0]]]]), (2, 3)))
        np.testing.assert_array_equal([[1, 0, 0, 2, 0, 0], [0] * 6], out[0, :, :, 0])
        assert "Const" == sess.graph.get_operation_by_name("u/unpool_mat").type

    def test_unknown_sizes(self, sess):
        """Unknown sizes are computed when the graph runs."""
        x = tf.placeholder(tf.float32, [None, None, 3, 2])
        out = FixedUnPooling("u", x, 2, unpool_mat=np.ones([2, 2]))
        assert [None, None, 6, 2] == out.shape.as_list()
        value = np.random.RandomState(0).rand(2, 2, 3, 2)
        np.testing.assert_allclose(value.repeat(2, 1).repeat(2, 2), sess.run(out, {x: value}), rtol=1e-6)

    def test_a_tensor_as_matrix(self, sess):
        """The matrix can be a tensor, e.g. a trained one."""
        matrix = tf.constant([[1.0, 2.0]])
        out = sess.run(FixedUnPooling("u", tf.constant([[[[3.0]]]]), (1, 2), unpool_mat=matrix))
        np.testing.assert_array_equal([[3, 6]], out[0, :, :, 0])

"""Tests of models/shapes.py and shape_utils.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import ConcatWith
from tensorpack_lite.models.shape_utils import StaticDynamicAxis, StaticDynamicShape


class TestConcatWith:
    @pytest.mark.parametrize("form", [list, tuple])
    def test_the_first_part_is_x(self, form, sess):
        """x comes first, then the other tensors in order."""
        x, a, b = (tf.constant([[value]]) for value in (1, 2, 3))
        np.testing.assert_array_equal([[1, 2, 3]], sess.run(ConcatWith(x, form([a, b]), 1)))
        np.testing.assert_array_equal([[1], [2]], sess.run(ConcatWith(x, a, 0)))
        np.testing.assert_array_equal([[1], [2]], sess.run(ConcatWith("name", x, a, dim=0)))


class TestStaticDynamicShape:
    def test_known_sizes_make_no_operation(self):
        """Known sizes are integers and create no operations."""
        shape = StaticDynamicShape(tf.placeholder(tf.float32, [2, 3]))
        shape.apply(1, lambda size: size * 2)
        assert [2, 6] == shape.get_static() == shape.get_dynamic()
        assert 6 == shape.get_static(1) == shape.get_dynamic(1)
        assert 1 == len(tf.get_default_graph().get_operations())

    def test_unknown_sizes_are_tensors(self, sess):
        """Changes of unknown sizes are applied in order when the graph runs."""
        x = tf.placeholder(tf.float32, [None, 3])
        shape = StaticDynamicShape(x)
        shape.apply(0, lambda size: size * 2)
        shape.apply(0, lambda size: size + 1)
        assert [None, 3] == shape.get_static()
        assert 9 == sess.run(shape.get_dynamic(0), {x: np.zeros([4, 3])})
        assert [9, 3] == list(sess.run(tf.stack(shape.get_dynamic()), {x: np.zeros([4, 3])}))


class TestStaticDynamicAxis:
    def test_a_known_size(self):
        """A function of a known size is computed at once."""
        axis = StaticDynamicAxis(7, 7).apply(lambda size: size * 2)
        assert (14, 14, True) == (axis.static, axis.dynamic, axis.is_static())

    def test_an_unknown_size(self, sess):
        """A function of an unknown size is computed when the graph runs."""
        axis = StaticDynamicAxis(None, tf.constant(7)).apply(lambda size: size * 2)
        assert (None, 14, False) == (axis.static, sess.run(axis.dynamic), axis.is_static())

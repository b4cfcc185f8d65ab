"""Tests of models/nonlin.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BNReLU, Maxout, PReLU
from tensorpack_lite.tfutils.tower.context import TowerContext


class TestMaxout:
    def test_without_a_name(self, sess):
        """Without a name, the output is `output` in the current scope."""
        with tf.variable_scope("here"):
            out = Maxout(tf.constant([[1.0, 5.0, 4.0, 3.0]]), 2)
        assert "here/output" == out.op.name
        np.testing.assert_array_equal([[5, 4]], sess.run(out))

    def test_unknown_sizes(self):
        """Unknown sizes stay unknown."""
        assert [None, None, 7, 2] == Maxout(tf.placeholder(tf.float32, [None, None, 7, 6]), 3).shape.as_list()

    def test_channels(self):
        """The number of channels must be a multiple of num_unit."""
        with pytest.raises(
            ValueError, match="Maxout: num_unit is invalid .expected a divisor of the 4 channels, got 3"
        ):
            Maxout(tf.zeros([1, 4]), 3)


class TestPReLU:
    def test_init(self, sess):
        """alpha starts at `init`, by default 0.001."""
        outs = [PReLU("a", tf.constant([-2.0, 2.0])), PReLU("b", tf.constant([-2.0, 2.0]), init=0.5)]
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose([[-0.002, 2], [-1, 2]], sess.run(outs), rtol=1e-4)

    def test_output_and_variable(self):
        """The output is named `x/output` and has the variable alpha."""
        out = PReLU("x", tf.zeros([2, 2]), name="ignored")
        assert ("x/output", "x/alpha") == (out.op.name, out.variables.alpha.op.name)


class TestBNReLU:
    @pytest.mark.parametrize(("args", "scope"), [((), ""), (("named",), "named/")])
    def test_with_and_without_a_name(self, args, scope):
        """The operation is always named `Relu`, for scripts that fetch it."""
        with TowerContext("", is_training=True):
            out = BNReLU(*args, tf.zeros([2, 3]), name="ignored")
        assert f"{scope}Relu" == out.op.name
        assert [f"{scope}bn/gamma", f"{scope}bn/beta"] == [v.op.name for v in tf.trainable_variables()]

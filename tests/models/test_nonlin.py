"""Tests of models/nonlin.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BNReLU, Maxout, PReLU
from tensorpack_lite.tfutils.tower.context import TowerContext


class TestMaxout:
    def test_without_a_name(self, sess):
        """Without a name, the output is `output` in the current scope. Unknown sizes stay unknown."""
        with tf.variable_scope("here"):
            out = Maxout(tf.constant([[1.0, 5.0, 4.0, 3.0]]), 2)
        assert "here/output" == out.op.name
        np.testing.assert_array_equal([[5, 4]], sess.run(out))
        assert [None, None, 7, 2] == Maxout(tf.placeholder(tf.float32, [None, None, 7, 6]), 3).shape.as_list()


class TestPReLU:
    def test_init(self, sess):
        """alpha starts at `init`, by default 0.001."""
        x = tf.constant([-2.0, 2.0])
        outs = [PReLU("a", x, name="ignored"), PReLU("b", x, init=0.5)]
        assert ("a/output", "a/alpha") == (outs[0].op.name, outs[0].variables.alpha.op.name)
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose([[-0.002, 2], [-1, 2]], sess.run(outs), rtol=1e-4)


class TestBNReLU:
    @pytest.mark.parametrize(("args", "scope"), [((), ""), (("named",), "named/")])
    def test_with_and_without_a_name(self, args, scope):
        """The operation is always named `Relu`, for scripts that fetch it."""
        with TowerContext("", is_training=True):
            out = BNReLU(*args, tf.zeros([2, 3]), name="ignored")
        assert f"{scope}Relu" == out.op.name
        assert [f"{scope}bn/gamma", f"{scope}bn/beta"] == [v.op.name for v in tf.trainable_variables()]

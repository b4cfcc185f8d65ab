"""Tests of small functions of tensors, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.symbolic_functions import print_stat, psnr, rms

X = np.array([[1.0, -2.0], [3.0, 4.0]], dtype="float32")


class TestRms:
    def test_number(self, sess):
        """The result is sqrt(mean(x^2))."""
        np.testing.assert_allclose(np.sqrt(np.mean(X**2)), sess.run(rms(tf.constant(X))), rtol=1e-6)

    def test_names(self):
        """The default name is that of the tensor, at the root of the graph; a given name is in the current scope."""
        with tf.name_scope("a"):
            x = tf.constant(X, name="x")
        with tf.name_scope("b"):
            assert ("a/x/rms", "b/r") == (rms(x).op.name, rms(x, name="r").op.name)


class TestPsnr:
    @pytest.mark.parametrize(("maxp", "peak"), [(255, 255.0), (1.0, 1.0), (None, 1.0)])
    def test_number(self, sess, maxp, peak):
        """The result is 10 log10(peak^2 / mse), with a default peak of 1."""
        expected = 10 * np.log10(peak**2 / np.mean((X - 1) ** 2))
        got = psnr(tf.constant(X), tf.constant(np.ones_like(X)), maxp)
        np.testing.assert_allclose(expected, sess.run(got), rtol=1e-6)
        assert "psnr" == got.op.name


class TestPrintStat:
    def test_prints_and_passes_on(self, sess, capfd):
        """The values do not change, and the statistics are printed to stderr."""
        x = tf.constant(X, name="x")
        printed = print_stat(x, message="hello")
        np.testing.assert_array_equal(X, sess.run(printed))
        text = capfd.readouterr().err
        assert "hello shape: [2 2] mean: 1.5 rms: 2.738" in text
        assert "print_x" == printed.op.name

    def test_integers_have_no_rms(self, sess, capfd):
        """For integers no rms is printed, and the default message is the name."""
        sess.run(print_stat(tf.constant([1, 3], name="n")))
        text = capfd.readouterr().err
        assert "n shape: [2] mean: 2 values: [1 3]" in text

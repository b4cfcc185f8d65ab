"""Tests of tfutils/loss_scale.py: growth, reduction and effect of the scale, in exact numbers."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.accumulation import AccumGradOptimizer
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer


def build(sess, cost, rate=1.0, **kwargs):
    """Return an optimizer of `cost(w)` with w = 1, the variable w, and the train operation."""
    w = tf.get_variable("w", initializer=1.0, use_resource=True)
    opt = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(rate), **kwargs)
    step = opt.apply_gradients(opt.compute_gradients(cost(w), [w]))
    sess.run(tf.global_variables_initializer())
    return opt, w, step


def test_same_update(sess):
    """A scale that is a power of two does not change the updates."""
    _, w, step = build(sess, lambda w: w * w, 0.25)
    sess.run(step)
    assert 0.5 == sess.run(w)


def test_small_gradients_survive(sess):
    """A gradient of 2^-26, which is zero in half precision, is applied."""
    tiny = np.float32(2.0**-13)

    def half(w):
        return tf.cast(tf.cast(w, tf.float16) * tf.cast(tiny, tf.float16) * tf.cast(tiny, tf.float16), tf.float32)

    one = tf.constant(1.0)
    assert [0.0] == sess.run(tf.gradients(half(one), [one]))
    _, w, step = build(sess, half, 2.0**20)
    sess.run(step)
    assert 1 - 2.0**-6 == sess.run(w)


def test_growth(sess):
    """After growth_steps finite steps the scale doubles, and the count starts again."""
    opt, _, step = build(sess, lambda w: 0.0 * w, initial_scale=4, growth_steps=2)
    scales = []
    for _ in range(5):
        sess.run(step)
        scales.append(sess.run(opt.scale))
    assert [4, 8, 8, 16, 16] == scales


def test_overflow(sess):
    """A step with a gradient that is not finite only changes the scale, which is never less than 1."""
    x = tf.placeholder(tf.float32, [])
    opt, w, step = build(sess, lambda w: w * x, initial_scale=4, growth_steps=2, factor=2)
    sess.run(step, {x: 0.5})
    scales = []
    for _ in range(3):
        sess.run(step, {x: np.inf})
        scales.append(sess.run(opt.scale))
    assert ([2, 1, 1], 0.5) == (scales, sess.run(w))
    sess.run(step, {x: 0.5})  # one finite step, because the count started again
    assert (1, 0.0) == (sess.run(opt.scale), sess.run(w))


def test_sparse(sess):
    """The gradients of a lookup stay sparse."""
    table = tf.get_variable("table", initializer=[1.0, 1.0], use_resource=True)
    opt = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0))
    pairs = opt.compute_gradients(tf.reduce_sum(tf.gather(table, [1])), [table])
    assert isinstance(pairs[0][0], tf.IndexedSlices)
    step = opt.apply_gradients(pairs)
    sess.run(tf.global_variables_initializer())
    sess.run(step)
    assert [1.0, 0.0] == sess.run(table).tolist()


def test_names(fresh_graph):
    """The wrapped optimizer's variables have the names that they have without loss scale."""
    names = []
    for wrap in (lambda opt: opt, DynamicLossScaleOptimizer):
        with tf.Graph().as_default():
            x = tf.get_variable("x", initializer=1.0, use_resource=True)
            wrap(tf.train.AdamOptimizer(0.1)).minimize(tf.square(x))
            names.append({var.op.name for var in tf.global_variables()})
    assert {"loss_scale/scale", "loss_scale/good_steps"} == names[1] - names[0]
    assert set() == names[0] - names[1]


@pytest.mark.parametrize(
    "wrap", [DynamicLossScaleOptimizer, lambda opt: AccumGradOptimizer(opt, 1)], ids=["scale", "accumulate"]
)
def test_without_a_graph_of_its_own(wrap):
    """In the default graph, which no `as_default` has entered, the slots of the wrapped optimizer are created in that graph."""
    results = []

    def train():  # in another thread, because a test runs in its own graph
        w = tf.get_variable("w", initializer=1.0, use_resource=True)
        step = wrap(tf.train.MomentumOptimizer(0.25, 0.9)).minimize(w * 2)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(step)
            results.append((sess.run(w), [one.op.name for one in tf.global_variables()]))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    ((value, names),) = results
    assert 0.5 == value
    assert "w/Momentum" in names

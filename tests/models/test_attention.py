"""Tests of models/attention.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib.keras import import_keras
from tensorpack_lite.models import MultiHeadAttention
from tensorpack_lite.tfutils.precision import precision_scope
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.xla import with_xla

RNG = np.random.RandomState(0)
QUERY, MEMORY, KEYS = (RNG.standard_normal(shape).astype("float32") for shape in ([2, 5, 6], [2, 7, 4], [2, 7, 3]))


def attend(x, **kwargs):
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        return MultiHeadAttention("attention", x, 2, **kwargs)


def run(sess, tensors, feeds=None):
    """Run tensors with random variables, which are the same in each call."""
    rng = np.random.RandomState(1)
    for var in sorted(tf.trainable_variables(), key=lambda var: var.op.name):
        var.load(rng.standard_normal(var.shape.as_list()), sess)
    return sess.run(tensors, feeds)


@pytest.mark.slow
@pytest.mark.skipif(TF_VERSION < (2, 10), reason="the layer of this Keras has not all arguments, or does not exist")
@pytest.mark.parametrize("is_cross", [False, True], ids=["self", "cross"])
def test_it_equals_keras(sess, is_cross):
    """Outputs and gradients are those of Keras's layer with the same weights and masks."""
    if TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")  # towers refuse layers of Keras 3
    x = tf.constant(QUERY)
    value, key = map(tf.constant, (MEMORY, KEYS)) if is_cross else (x, x)
    mask = np.random.RandomState(2).uniform(size=[2, 5, 7 if is_cross else 5]) < 0.6
    mask[:, :, 0] = True
    other = import_keras().layers.MultiHeadAttention(2, 3, value_dim=5, output_shape=8)
    expected = other(x, value, key, attention_mask=mask, use_causal_mask=not is_cross)
    mine = {"value": value, "key": key} if is_cross else {"use_causal_mask": True}
    y = attend(x, key_dim=3, value_dim=5, units=8, attention_mask=mask, **mine)
    variables = y.variables.all()
    sess.run(tf.global_variables_initializer())
    for var, original in zip(variables, other.weights):
        var.load(np.reshape(sess.run(tf.convert_to_tensor(original)), var.shape.as_list()), sess)
    sources = [x, value, key] if is_cross else [x]
    costs = [tf.reduce_sum(tensor * tf.cos(tensor)) for tensor in (expected, y)]
    left, right = sess.run([[cost, *tf.gradients(cost, sources)] for cost in costs])
    for one, two in zip(left, right):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_unknown_sizes(sess):
    """Sizes of the batch and of both sequences may be unknown, and differ between runs, even 0 keys."""
    x, memory = (tf.placeholder(tf.float32, [None, None, size]) for size in (6, 4))
    valid = tf.placeholder(tf.bool, [None, None])
    y = attend(x, value=memory, key_mask=valid, units=3)
    assert y.shape.as_list() == [None, None, 3]
    everything = np.ones([2, 7], bool)
    expected = run(sess, y, {x: QUERY, memory: MEMORY, valid: everything})
    static = attend(tf.constant(QUERY), value=tf.constant(MEMORY), units=3)
    assert static.shape.as_list() == [2, 5, 3]
    np.testing.assert_allclose(expected, run(sess, static), rtol=1e-5, atol=1e-6)
    part = run(sess, y, {x: QUERY[1:, 3:], memory: MEMORY[1:], valid: everything[1:]})
    np.testing.assert_allclose(expected[1:, 3:], part, rtol=1e-5, atol=1e-6)
    none = run(sess, y, {x: QUERY, memory: MEMORY[:, :0], valid: everything[:, :0]})
    np.testing.assert_array_equal(np.zeros([2, 5, 3]), none)


def test_a_past(sess):
    """With `causal` and a value that starts with earlier positions, the outputs are those of one call for all positions."""
    whole = tf.constant(QUERY)
    outputs = [attend(whole, causal=True)]
    outputs += [attend(whole[:, start:], value=whole, causal=True) for start in (2, 4)]
    whole, *parts = run(sess, outputs)
    for part in parts:
        np.testing.assert_allclose(whole[:, -part.shape[1] :], part, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_cross", [False, True], ids=["self", "cross"])
def test_nan_in_the_padding(sess, is_cross):
    """NaN in the padding changes no output and no gradient of a variable; a datapoint that is all padding has outputs 0."""
    valid = np.arange(5) < np.array([3, 0])[:, None]
    x = tf.placeholder(tf.float32, QUERY.shape)
    y = attend(tf.constant(QUERY), value=x, key_mask=valid) if is_cross else attend(x, key_mask=valid, causal=True)
    weights = np.random.RandomState(3).standard_normal(y.shape.as_list()) * (1 if is_cross else valid[:, :, None])
    gradients = tf.gradients(tf.reduce_sum(y * tf.constant(weights, tf.float32)), tf.trainable_variables())
    expected, actual = (
        run(sess, [y, *gradients], {x: np.where(valid[:, :, None], QUERY, padding).astype("float32")})
        for padding in (7.0, np.nan)
    )
    for left, right in zip(expected, actual):
        np.testing.assert_array_equal(left, right)
    assert np.abs(actual[0][0]).min() > 0
    np.testing.assert_array_equal(np.zeros([5, 6]), actual[0][1])


def test_dropout(sess):
    """In training, dropout sets weights to 0 and scales the others up; in inference it changes nothing."""
    identity = tf.constant(np.eye(1000)[None], tf.float32)
    options = {"value": identity, "value_dim": 1000, "units": 1000, "use_bias": False, "key_dim": 1}
    x, y = tf.zeros([1, 20, 2]), []
    for is_training in (True, False):
        with tf.variable_scope("", reuse=not is_training), TowerContext("", is_training=is_training):
            y.append(MultiHeadAttention("x", x, 1, dropout=0.25, **options))
    for var in tf.trainable_variables():
        value = np.eye(1000) if var.shape.as_list() == [1000, 1000] else np.zeros(var.shape.as_list())
        var.load(value, sess)
    dropped, kept = sess.run(y)
    np.testing.assert_allclose(kept, 0.001, rtol=1e-5)
    is_zero = dropped == 0
    np.testing.assert_allclose(dropped[~is_zero], 0.001 / 0.75, rtol=1e-5)
    assert 0.22 < is_zero.mean() < 0.28


@pytest.mark.parametrize("precision", ["mixed_float16", *["mixed_bfloat16"] * (TF_VERSION >= (2, 0))])
def test_the_softmax_is_in_float32(sess, precision):
    """In mixed precision, the softmax gets float32, and masked positions have no effect."""
    x = tf.constant(np.concatenate([QUERY, 100 * QUERY], 1))
    with precision_scope(precision):
        y = attend(x, attention_mask=np.arange(10)[None, None] < 5)
    (softmax,) = [op for op in tf.get_default_graph().get_operations() if op.type == "Softmax"]
    assert (tf.float32, tf.float32) == (softmax.inputs[0].dtype, y.dtype)
    expected = attend(tf.constant(QUERY))
    left, right = run(sess, [expected, y[:, :5]])
    np.testing.assert_allclose(left, right, rtol=0.1, atol=0.05 * np.abs(left).max())


@pytest.mark.slow
def test_xla(sess):
    """Compiled by XLA, outputs and gradients are the same."""
    x, valid = tf.constant(QUERY), np.arange(5) < np.array([3, 0])[:, None]

    def build(x):
        return attend(x, key_mask=valid, causal=True)

    costs = [tf.reduce_sum(tf.sin(layer(x))) for layer in (build, with_xla(build))]
    gradients = [tf.gradients(cost, [x, *tf.trainable_variables()]) for cost in costs]
    for left, right in zip(*run(sess, gradients)):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)

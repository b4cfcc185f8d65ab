"""Lint's rules about mixed precision: G16 and G17."""

from __future__ import annotations

import pytest
from fakes.linted import lint, marked_line, updates

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import LSTM, BNReLU, Conv2D, Conv2DTranspose, FullyConnected, GlobalAvgPooling
from tensorpack_lite.tfutils.precision import precision_scope


def cross_entropy(logits, label):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    return tf.reduce_mean(losses)


def layers(image, label):
    x = Conv2D("conv0", image, 4, 3, activation=BNReLU)
    x = tf.nn.relu(x + Conv2DTranspose("up", x, 4, 3))
    rows = tf.reshape(tf.cast(x, tf.float32), [-1, 8, 32])
    _, state = LSTM("rnn", rows, 8)
    x = tf.concat([GlobalAvgPooling("gap", Conv2D("conv1", x, 8, 3)), state.h], 1)
    return cross_entropy(FullyConnected("fc", x, 10), label)


def own_product(image, label):
    x = FullyConnected("fc0", image, 16)
    weights = tf.get_variable("own", [16, 10])
    logits = tf.matmul(x, weights)  # here
    return cross_entropy(logits, label)


def own_product_on_purpose(image, label):
    with precision_scope("float32"):
        return own_product(image, label)


def own_product_in_16_bits(image, label):
    x = tf.cast(FullyConnected("fc0", image, 16), tf.float16)
    weights = tf.get_variable("own", [16, 10], tf.float16)
    return cross_entropy(tf.cast(tf.matmul(x, weights), tf.float32), label)


def image_as_logits(image, label):
    x = Conv2D("conv", image, 10, 8, padding="valid")
    logits = tf.squeeze(x, [1, 2])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    return tf.reduce_mean(losses)  # here


def image_as_logits_cast(image, label):
    x = tf.cast(Conv2D("conv", image, 10, 8, padding="valid"), tf.float32)
    return cross_entropy(tf.squeeze(x, [1, 2]), label)


def attention(image, label):
    x = Conv2D("conv", image, 4, 3)
    x *= tf.nn.softmax(x)  # here
    return cross_entropy(FullyConnected("fc", x, 10), label)


@pytest.mark.parametrize(
    ("get_cost", "rule", "name"),
    [(own_product, "G16", "MatMul"), (image_as_logits, "G17", "Mean"), (attention, "G17", "Softmax")],
)
def test_a_mistake(get_cost, rule, name):
    """The remark names the operation and its line; without mixed precision there is none."""
    with tf.Graph().as_default():
        assert [] == lint(get_cost)
    (remark,) = lint(precision_scope("mixed_float16")(get_cost))
    assert (rule, name) == (remark.rule, remark.name)
    assert marked_line(get_cost) in remark.place


@pytest.mark.parametrize("get_cost", [layers, own_product_on_purpose, own_product_in_16_bits, image_as_logits_cast])
def test_silent(get_cost):
    """There is no remark on layers, on casts, or on a part that is float32 on purpose."""
    assert [] == lint(precision_scope("mixed_float16")(get_cost), [updates()])

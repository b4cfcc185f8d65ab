"""Properties of every layer: tapes see its variables, it can be recomputed, and `tf.get_variable` may be replaced."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.layers import LAYERS, build_layer, inputs_of

from tensorpack_lite import models
from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.tfutils.recompute import recompute_grad
from tensorpack_lite.tfutils.tower.context import TowerContext

RECURRENT = ("GRU", "LSTM")
every_layer = pytest.mark.parametrize("layer", sorted(LAYERS))
# the gradients of LSTM take as long as those of all other layers together; GRU is another recurrent layer
every_layer_but_lstm_is_slow = pytest.mark.parametrize(
    "layer", [pytest.param(layer, marks=[pytest.mark.slow] * (layer == "LSTM")) for layer in sorted(LAYERS)]
)


def cost_of(output: tf.Tensor) -> tf.Tensor:
    """Return a cost whose gradients differ between the values of an output."""
    weights = np.random.RandomState(1).standard_normal(output.shape.as_list())
    return tf.reduce_sum(output * tf.constant(weights, output.dtype))


def assert_same(sess, expected, actual):
    sess.run(tf.global_variables_initializer())
    for left, right in zip(*sess.run([expected, actual])):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def test_all_layers_are_listed():
    """The list of layers for these tests is complete."""
    registered = {name for name in models.__all__ if hasattr(getattr(models, name), "symbolic_function")}
    assert registered - {"Deconv2D"} == set(LAYERS)


@pytest.mark.law
@every_layer_but_lstm_is_slow
def test_a_tape_sees_the_variables(sess, layer):
    """`tf.GradientTape` computes the same gradients as `tf.gradients`, in towers that create variables and that reuse them."""
    x = inputs_of(layer)
    for reuse in (False, True):
        with tf.variable_scope(tf.get_variable_scope(), reuse=reuse), TowerContext("", is_training=True):
            with tensorflow.GradientTape() as tape:
                tape.watch(x)
                cost = cost_of(build_layer(layer, x))
        sources = [x, *tf.trainable_variables()]
        actual = tape.gradient(cost, sources)
        assert None not in actual
        assert_same(sess, tf.gradients(cost, sources), actual)


@pytest.mark.law
@every_layer
def test_a_custom_gradient_sees_the_variables(layer):
    """`tf.custom_gradient` passes the trainable variables that a layer reads to the function of the gradient."""
    seen = []

    @tf.custom_gradient
    def build(x):
        def gradient(of_output, variables=None):
            seen.extend(var.name for var in variables or ())
            return tf.zeros_like(x), [tf.zeros_like(var) for var in variables or ()]

        return build_layer(layer, x), gradient

    x = inputs_of(layer)
    with TowerContext("", is_training=True):
        tf.gradients(build(x), [x, *tf.trainable_variables()])
    assert sorted(var.name for var in tf.trainable_variables()) == sorted(seen)


@pytest.mark.law
@every_layer_but_lstm_is_slow
def test_recomputed(sess, layer):
    """A recomputed layer has the gradients of the same layer without recomputation, for its input and its variables."""
    x, kept = inputs_of(layer), []

    def block(x):
        kept.append(build_layer(layer, x))
        return kept[0]

    with TowerContext("", is_training=True):
        output = recompute_grad(block)(x)
    sources = [x, *tf.trainable_variables()]
    expected = tf.gradients(cost_of(kept[0]), sources)
    actual = tf.gradients(cost_of(output), sources)
    assert_same(sess, [kept[0], *expected], [output, *actual])


@pytest.mark.slow
@every_layer_but_lstm_is_slow
def test_recomputed_by_tensorflow(sess, layer):
    """`tf.recompute_grad` computes the same gradients as well, except for the random numbers of Dropout."""
    if layer == "Dropout":
        pytest.skip("the second mask is another one")
    x = inputs_of(layer)

    def block(x):
        with tf.variable_scope("block", reuse=tf.AUTO_REUSE):
            return build_layer(layer, x)

    with TowerContext("", is_training=True):
        expected = cost_of(block(x))
        actual = cost_of(tensorflow.recompute_grad(block)(x))
        sources = [x, *tf.trainable_variables()]
        gradients = [tf.gradients(cost, sources) for cost in (expected, actual)]
    assert_same(sess, *gradients)


@pytest.fixture
def control_flow_v1():
    """The control flow of TensorFlow 1, as under `tensorpack-lite run`."""
    tf.disable_control_flow_v2()
    yield
    tf.enable_control_flow_v2()


@pytest.mark.skipif(TF_VERSION < (2, 0), reason="all gradients of TensorFlow 1.15's tapes are None there")
@pytest.mark.parametrize("layer", RECURRENT)
def test_a_tape_around_a_loop_of_tensorflow_1(control_flow_v1, layer):
    """A tape does not see inside a loop of TensorFlow 1, so its gradients would be 0 or None: the layer names another way."""
    x = inputs_of(layer)

    def block(x):
        with tf.variable_scope("block", reuse=tf.AUTO_REUSE):
            return build_layer(layer, x)

    advice = r"'block/\w+': a gradient tape is recording.*tensorpack_lite\.recompute_grad\. Otherwise use tf\.gradients"
    with TowerContext("", is_training=True), argscope([models.LSTM, models.GRU], unroll=False):
        with tensorflow.GradientTape(), pytest.raises(RuntimeError, match=advice):
            block(x)
        cost = cost_of(tensorflow.recompute_grad(block)(x))
        with pytest.raises(RuntimeError, match=advice):
            tf.gradients(cost, tf.trainable_variables())


@pytest.mark.law
@pytest.mark.parametrize("module", [tensorflow, tf], ids=["tensorflow", "compat.v1"])
@every_layer
def test_a_replaced_get_variable(sess, monkeypatch, layer, module):
    """
    Scripts replace `tf.get_variable` by a function with the parameters `name`, `shape` and `**kwargs`, e.g. to quantize.

    The name `tf` in them means `tensorflow` or `tensorflow.compat.v1`, which are two modules on TensorFlow 1.15, too.
    """
    get_variable = tf.get_variable
    seen = []

    def quantized(name, shape=None, **kwargs):
        variable = get_variable(name, shape, **kwargs)
        seen.append(variable.name)
        return tf.identity(variable) if kwargs.get("trainable", True) else variable

    # TensorFlow 2 does not have tf.get_variable
    monkeypatch.setattr(module, "get_variable", quantized, raising=False)
    with TowerContext("", is_training=True):
        output = build_layer(layer, inputs_of(layer))
    assert [var.name for var in tf.global_variables()] == seen
    sess.run(tf.global_variables_initializer())
    assert sess.run(output).shape == tuple(output.shape.as_list())

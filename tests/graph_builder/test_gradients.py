"""Tests of graph_builder/gradients.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder import gradients
from tensorpack_lite.graph_builder.gradients import GradientOptions, make_get_grads
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TrainTowerContext


def cost(x):
    w = tf.get_variable("w", initializer=2.0)
    b = tf.get_variable("b", initializer=1.0)
    return tf.reduce_sum(w * x + b)


def make(cost_fn=cost, **options):
    return make_get_grads(
        lambda: [tf.constant([1.0, 2.0])],
        cost_fn,
        lambda: tf.train.GradientDescentOptimizer(0.1),
        GradientOptions(**options),
    )


def test_closed_form(sess):
    """Gradients equal the closed form: d/dw sum(wx + b) = sum(x), and d/db is the number of items."""
    with TrainTowerContext(""):
        grads = make()()
    sess.run(tf.global_variables_initializer())
    assert ["w", "b"] == [var.op.name for _, var in grads]
    assert [3.0, 2.0] == sess.run([grad for grad, _ in grads])


@pytest.mark.parametrize(
    ("has_norm", "num_gpu", "chosen", "expected"),
    [
        (False, 0, None, True),
        (True, 0, None, False),
        (False, 1, None, False),
        (False, 0, False, False),
        (True, 0, True, True),
    ],
)
def test_gated_gradients(monkeypatch, has_norm, num_gpu, chosen, expected):
    """Without a setting, the gradients of an operation wait for each other on a CPU, unless there is batch normalization."""

    def product(x):
        hidden = tf.reshape(x, [1, 1, 1, 2])
        if has_norm:
            hidden = tf.nn.fused_batch_norm(hidden, tf.ones([2]), tf.zeros([2]))[0]
        return tf.reduce_sum(tf.matmul(hidden[0, 0], tf.get_variable("w", [2, 3])))

    monkeypatch.setattr(gradients, "get_num_gpu", lambda: num_gpu)
    with TrainTowerContext(""):
        make(product, gate_gradients=chosen)()
    assert expected == any("/tuple/" in op.name for op in tf.get_default_graph().get_operations())


def test_own_variables_only():
    """A tower with copies trains its copies, a tower that shares variables trains all of them."""
    get_grads = make()
    with TrainTowerContext("tower0", index=0, total=3):
        get_grads()
    with TrainTowerContext("tower1", vs_name="tower1", index=1, total=3):
        own = get_grads()
    with tf.variable_scope(tf.get_variable_scope(), reuse=True), TrainTowerContext("tower2", index=2, total=3):
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            shared = get_grads()
    assert ["tower1/w", "tower1/b"] == [var.op.name for _, var in own]
    assert ["w", "b"] == [var.op.name for _, var in shared]


def test_inference_tower():
    """An inference tower has no gradients."""
    with PredictTowerContext(""):
        assert make()() is None


def test_no_gradient_is_left_out():
    """Variables that the cost does not depend on are omitted."""

    def partly(x):
        tf.get_variable("unused", initializer=0.0)
        return cost(x)

    with TrainTowerContext(""):
        assert ["w", "b"] == [var.op.name for _, var in make(partly)()]


def test_outside_a_tower():
    """Outside of a tower, the function raises a RuntimeError."""
    with pytest.raises(RuntimeError, match="called outside of a tower"):
        make()()


class TestXLA:
    def test_same_gradients_or_a_clear_error(self, sess):
        """XLA gives the same gradients; a TensorFlow without xla.compile raises a RuntimeError."""
        xla = getattr(getattr(tensorflow, "xla", tf.xla), "experimental", None)
        if not hasattr(xla, "compile"):
            with TrainTowerContext(""), pytest.raises(RuntimeError, match="has no tf.xla.experimental.compile"):
                make(xla_compile=True)()
            return
        with TrainTowerContext(""):
            grads = make(xla_compile=True)()
        assert ["w", "b"] == [var.op.name for _, var in grads]
        sess.run(tf.global_variables_initializer())
        assert [3.0, 2.0] == sess.run([grad for grad, _ in grads])

    def test_without_xla(self, monkeypatch):
        """The error names the attribute to change."""
        no_xla = SimpleNamespace(xla=SimpleNamespace(experimental=None), __version__="9.9")
        monkeypatch.setattr(gradients, "tensorflow", no_xla)
        with TrainTowerContext(""), pytest.raises(
            RuntimeError, match="TensorFlow 9.9 has no tf.xla.experimental.compile. Set XLA_COMPILE = False"
        ):
            make(xla_compile=True)()

    def test_a_variable_without_gradient(self, monkeypatch):
        """Under XLA, a variable without gradient raises a ValueError."""
        fake = SimpleNamespace(experimental=SimpleNamespace(compile=lambda function: function()))
        monkeypatch.setattr(gradients, "tensorflow", SimpleNamespace(xla=fake))
        with TrainTowerContext(""):
            tf.get_variable("idle", initializer=1.0)
            with pytest.raises(ValueError, match="expected 3 gradients, got 2"):
                make(xla_compile=True)()

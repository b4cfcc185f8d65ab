"""Tests of models/regularize.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import (
    Dropout,
    FullyConnected,
    LinearWrap,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tensorpack_lite.tfutils.tower.context import TowerContext, TrainTowerContext


def weights(*names):
    for k, name in enumerate(names):
        tf.get_variable(name, initializer=[float(k + 1), 1.0])


def evaluate(sess, tensor):
    sess.run(tf.global_variables_initializer())
    return sess.run(tensor)


class TestRegularizeCost:
    def test_the_sum_over_matching_variables(self, sess, log_lines):
        """The expression is searched anywhere in the names of trainable variables."""
        with TowerContext("", is_training=True):
            weights("conv0/W", "conv1/W", "conv0/b")
            tf.get_variable("frozen/W", [2], trainable=False)
            cost = regularize_cost("v[0-9]/W", l2_regularizer(2.0), name="weight_decay")
        assert "weight_decay" == cost.op.name
        assert (1 + 1) + (4 + 1) == evaluate(sess, cost)
        assert ["regularize_cost: found 2 variables to regularize: conv0/W, conv1/W"] == log_lines

    def test_names_are_logged_once_per_graph(self, log_lines):
        """The matching variables are logged once per graph."""
        for repeats in (2, 1):
            with tf.Graph().as_default(), TowerContext("", is_training=True):
                weights("W")
                for _ in range(repeats):
                    regularize_cost("W", l2_regularizer(1.0))
        assert 2 == len(log_lines)

    def test_inference(self, sess):
        """In inference, the cost is a constant 0, and the function is not called."""
        with TowerContext("", is_training=False):
            weights("W")
            cost = regularize_cost(".*", None, name="wd")
        assert ("empty_wd", "Const", 0) == (cost.op.name, cost.op.type, sess.run(cost))

    def test_no_match(self, sess, log_lines):
        """If no variable matches, the cost is a constant 0, with a warning."""
        with TowerContext("", is_training=True):
            weights("W")
            cost = regularize_cost("x", l2_regularizer(1.0))
        assert ("empty_regularize_cost", 0) == (cost.op.name, sess.run(cost))
        assert ["regularize_cost: no trainable variable matches 'x', so the cost is 0."] == log_lines

    def test_the_sum_is_float32(self, sess):
        """The cost of float16 and float32 variables is float32."""
        with TowerContext("", is_training=True):
            weights("a/W")
            tf.get_variable("b/W", initializer=tf.constant([1.0, 1.0], tf.float16))
            cost = regularize_cost("W", l2_regularizer(2.0))
        assert tf.float32 == cost.dtype
        assert 4 == evaluate(sess, cost)

    @pytest.mark.parametrize(
        ("make", "cost", "gradient"),
        [(l1_regularizer, 3 * 7, [3, -3]), (l2_regularizer, 3 * 0.5 * 25, [9, -12])],
    )
    def test_cost_and_gradient(self, sess, make, cost, gradient):
        """l1 is scale * sum of absolute values, l2 scale / 2 * sum of squares, both in float32; each variable has its gradient."""
        assert tf.float32 == make(0.1)(tf.constant([1.0], tf.float16)).dtype
        with TowerContext("", is_training=True):
            variable = tf.get_variable("b/W", initializer=[3.0, -4.0])
            total = regularize_cost("W", make(3.0))
        found = evaluate(sess, [total, tf.gradients(total, variable)[0]])
        assert (cost, gradient) == (found[0], found[1].tolist())

    def test_one_weight_for_all(self):
        """The graph has a single multiplication for all variables."""
        with TowerContext("", is_training=True):
            weights("a/W", "b/W", "c/W")
            regularize_cost("W", l2_regularizer(3.0))
        types = [op.type for op in tf.get_default_graph().get_operations()]
        assert (1, 3) == (types.count("Mul"), types.count("L2Loss"))

    @pytest.mark.parametrize(
        ("func", "got"),
        [(lambda v: 1.0, "float"), (lambda v: tf.constant(1), "int32"), (lambda v: None, "NoneType")],
    )
    def test_the_cost_is_a_floating_point_tensor(self, func, got):
        """A function that does not return a floating-point tensor raises a TypeError."""
        with TowerContext("", is_training=True):
            weights("W")
            with pytest.raises(
                TypeError,
                match=f"the cost of 'W' has the wrong type .expected a floating-point tensor, got {got}",
            ):
                regularize_cost("W", func)


class TestFromCollection:
    def build(self, name="fc"):
        FullyConnected(name, tf.ones([1, 2]), 3, kernel_initializer=tf.ones_initializer(),
                       kernel_regularizer=l2_regularizer(1.0))  # fmt: skip

    def test_the_sum(self, sess, log_lines):
        """The cost is the sum of what layers collected, with its gradient, also on TensorFlow 2."""
        with TowerContext("", is_training=True):
            self.build("a")
            self.build("b")
            cost = regularize_cost_from_collection(name="wd")
        gradient = tf.gradients(cost, tf.trainable_variables()[0])[0]
        value, ones = evaluate(sess, [cost, gradient])
        assert ("wd", 6) == (cost.op.name, value)
        np.testing.assert_array_equal(np.ones([2, 3]), ones)
        assert "regularize_cost_from_collection: found 2 losses in REGULARIZATION_LOSSES." == log_lines[-1]

    @pytest.mark.parametrize("is_shared", [False, True])
    def test_towers(self, sess, is_shared):
        """A tower with copies of the variables only counts its own costs; one that shares them those of the first tower."""
        costs = []
        for index in range(2):
            vs_name = "" if is_shared else f"tower{index}" * index
            with tf.variable_scope(tf.get_variable_scope(), reuse=is_shared and index > 0):
                with TrainTowerContext(f"tower{index}", vs_name=vs_name, index=index, total=2):
                    self.build()
                    costs.append([regularize_cost_from_collection(), regularize_cost("W", l2_regularizer(2.0), "wd")])
        assert [[3, 6]] * 2 == evaluate(sess, costs)
        assert ["tower0/wd", "tower1/wd"] == [pair[1].op.name for pair in costs]

    @pytest.mark.parametrize("is_training", [True, False])
    def test_nothing(self, is_training, sess):
        """In inference, or if the collection is empty, the cost is a constant 0."""
        with TowerContext("", is_training=is_training):
            if not is_training:
                self.build()
            cost = regularize_cost_from_collection("wd")
        assert ("empty_wd", 0) == (cost.op.name, sess.run(cost))


class TestDropout:
    ONES = np.ones([100, 100], np.float32)

    def drop(self, sess, *args, **kwargs):
        """Apply Dropout in training, check the scale of the kept values, and return the dropped fraction."""
        with TowerContext("", is_training=True):
            out = sess.run(Dropout(tf.constant(self.ONES), *args, **kwargs))
        dropped = np.mean(out == 0)
        np.testing.assert_allclose(1 / (1 - dropped), out.max(), rtol=0.1)
        return round(float(dropped), 1)

    def test_the_positional_value_is_kept(self, sess):
        """The positional argument is the probability to keep a value, `rate` the one to drop it."""
        assert 0.2 == self.drop(sess, 0.8)
        assert 0.2 == self.drop(sess, keep_prob=0.8)
        assert 0.8 == self.drop(sess, rate=0.8)
        assert 0.5 == self.drop(sess)

    def test_a_positional_value_warns_unless_it_is_a_half(self, monkeypatch):
        """A positional argument logs a warning, unless it is the unambiguous 0.5."""
        warnings = []
        monkeypatch.setattr("tensorpack_lite.models.regularize.log_once", lambda text, func: warnings.append(text))
        with TowerContext("", is_training=True):
            Dropout(tf.constant(self.ONES), 0.5)
            assert [] == warnings
            Dropout("drop", tf.constant(self.ONES), 0.9)
        assert ["Dropout 'drop': the positional argument is the probability to keep a value. Pass rate=..., that "
                "to drop it."] == warnings  # fmt: skip

    def test_the_rate_may_be_a_tensor(self, sess):
        """The rate can be a tensor of any floating dtype."""
        assert 0.3 == self.drop(sess, rate=tf.constant(0.3, tf.float64))
        assert 0.3 == self.drop(sess, tf.constant(0.7))

    def test_inference_is_the_identity(self):
        """In inference, Dropout returns x itself."""
        x = tf.constant(self.ONES)
        with TowerContext("", is_training=False):
            assert x is Dropout(x, rate=0.3)
            assert x is not Dropout(x, rate=0.3, training=True)
        with TowerContext("", is_training=True):
            assert x is Dropout(x, rate=0.3, is_training=False)
            assert x is Dropout(x, rate=0.3, training=False)

    def test_with_a_name_and_in_a_chain(self):
        """The name is a scope, and optional in a chain."""
        with TowerContext("", is_training=True):
            x = LinearWrap(tf.constant(self.ONES)).Dropout("drop0", rate=0.1).Dropout(rate=0.1)()
        assert not x.op.name.startswith("drop0/")
        assert any(op.name.startswith("drop0/") for op in tf.get_default_graph().get_operations())

    def test_noise_shape_seed_and_name(self, sess):
        """noise_shape, seed and name have an effect."""
        x = tf.constant(self.ONES)
        with TowerContext("", is_training=True):
            rows = Dropout(x, rate=0.5, noise_shape=[100, 1], seed=3, name="mask")
            again = Dropout(x, rate=0.5, noise_shape=[100, 1], seed=3)
        assert rows.op.name.startswith("mask/")
        first, second = sess.run([rows, again])
        assert (first == first[:, :1]).all()
        np.testing.assert_array_equal(first, second)

    def test_no_tower(self):
        """Outside of a tower, `training` says what to do."""
        assert tf.float16 == Dropout(tf.ones([3], tf.float16), rate=0.5, training=True).dtype

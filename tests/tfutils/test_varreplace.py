"""Tests of custom getters: the results of `tf.get_variable` and their collections."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.varreplace import (
    custom_getter_scope,
    freeze_variables,
    override_to_local_variable,
    remap_variables,
)


def names(variables) -> list:
    """Return the names of operations."""
    return [var.op.name for var in variables]


class TestCustomGetterScope:
    def test_composes_with_outer_getters(self, sess):
        """The inner getter is called first, and the outer one still applies, until the block ends: (1 + 10) * 2."""
        with custom_getter_scope(lambda getter, *a, **k: getter(*a, **k) + 10.0), remap_variables(
            lambda var: var * 2.0
        ):
            value = tf.get_variable("w", initializer=1.0)
        assert ["plain"] == names([tf.get_variable("plain", shape=[])])
        sess.run(tf.global_variables_initializer())
        assert 22.0 == sess.run(value)

    def test_keeps_the_scopes(self):
        """The variable scope and the name scope do not change."""
        with tf.variable_scope("a"), custom_getter_scope(lambda getter, *a, **k: getter(*a, **k)):
            var, op = tf.get_variable("w", shape=[]), tf.constant(1.0, name="c")
        assert ["a/w", "a/c"] == [var.op.name, op.op.name]


class TestFreezeVariables:
    @pytest.mark.parametrize("skip_collection", [False, True])
    def test_stops_gradients(self, sess, skip_collection):
        """No gradient flows through the value, which does not change. The variable is trainable unless it is skipped."""
        with freeze_variables(skip_collection=skip_collection):
            value = tf.get_variable(name="a/w", initializer=[1.0, 2.0])
        assert "freezed_a/w" == value.op.name
        assert [None] == tf.gradients(value, tf.global_variables())
        collections = [["a/w"], []]
        assert collections == [names(tf.trainable_variables()), names(tf.model_variables())][:: 1 - 2 * skip_collection]
        sess.run(tf.global_variables_initializer())
        assert [1.0, 2.0] == sess.run(value).tolist()

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_skip_collection(self, use_resource):
        """The variable moves from TRAINABLE_VARIABLES to MODEL_VARIABLES, whatever kind it is."""
        with freeze_variables(stop_gradient=False, skip_collection=True):
            var = tf.get_variable("w", shape=[2], use_resource=use_resource)
        assert isinstance(var, tensorflow.Variable)
        assert [] == tf.trainable_variables()
        assert ["w"] == names(tf.model_variables())

    def test_leaves_untrained_variables_alone(self):
        """A variable requested with trainable=False is returned unchanged, in no additional collection."""
        with freeze_variables(skip_collection=True):
            var = tf.get_variable("w", shape=[2], trainable=False)
        assert isinstance(var, tensorflow.Variable)
        assert [] == tf.model_variables()

    def test_reuse_is_listed_once(self):
        """A variable that is requested twice is in MODEL_VARIABLES once."""
        with freeze_variables(stop_gradient=False, skip_collection=True):
            for _ in range(2):
                with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
                    tf.get_variable("w", shape=[])
        assert ["s/w"] == names(tf.model_variables())

    def test_warns_of_tensors(self, capsys):
        """If another getter returns a tensor, a warning says that it is not added to MODEL_VARIABLES."""
        with remap_variables(lambda var: tf.identity(var)), freeze_variables(skip_collection=True):
            tf.get_variable("w", shape=[])
        assert "not added to MODEL_VARIABLES" in capsys.readouterr().out
        assert [] == tf.model_variables()


class TestOverrideToLocalVariable:
    def test_without_collections(self):
        """A getter that passes no `collections` works."""

        def drop(getter, *args, **kwargs):
            kwargs.pop("collections", None)
            return getter(*args, **kwargs)

        with override_to_local_variable(), custom_getter_scope(drop):
            tf.get_variable("w", shape=[])
        assert ["w"] == names(tf.local_variables())

    def test_keeps_collections_of_the_call(self):
        """Variables move from the global to the local collection, and stay in the others, unless it is switched off."""
        with override_to_local_variable():
            tf.get_variable("a", shape=[])
            tf.get_variable("w", shape=[], collections=[tf.GraphKeys.MODEL_VARIABLES])
        assert (["a", "w"], ["w"]) == (names(tf.trainable_variables()), names(tf.model_variables()))
        assert (["a", "w"], []) == (names(tf.local_variables()), names(tf.global_variables()))
        with override_to_local_variable(enable=False):
            tf.get_variable("b", shape=[])
        assert ["b"] == names(tf.global_variables())

    def test_slots_of_optimizers_are_local_too(self, sess):
        """Slots of optimizers are local if their variables are, because get_variable creates both."""
        with override_to_local_variable():
            var = tf.get_variable("w", initializer=1.0)
            tf.train.MomentumOptimizer(0.1, 0.9).minimize(var * 2.0, var_list=[var])
        assert ["w", "w/Momentum"] == names(tf.local_variables())
        assert [] == tf.global_variables()

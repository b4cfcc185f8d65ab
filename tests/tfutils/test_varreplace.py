"""Tests of custom getters: the results of `tf.get_variable` and their collections."""

from __future__ import annotations

import numpy as np
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
        """The inner getter is called first, and the outer one still applies: (1 + 10) * 2."""
        with custom_getter_scope(lambda getter, *a, **k: getter(*a, **k) + 10.0), custom_getter_scope(
            lambda getter, *a, **k: getter(*a, **k) * 2.0
        ):
            value = tf.get_variable("w", initializer=1.0)
        sess.run(tf.global_variables_initializer())
        assert 22.0 == sess.run(value)

    def test_keeps_the_scopes(self):
        """The variable scope and the name scope do not change."""
        with tf.variable_scope("a"), custom_getter_scope(lambda getter, *a, **k: getter(*a, **k)):
            var, op = tf.get_variable("w", shape=[]), tf.constant(1.0, name="c")
        assert ["a/w", "a/c"] == [var.op.name, op.op.name]

    def test_ends_with_the_block(self):
        """Variables created after the block are not affected."""
        with remap_variables(lambda var: None):
            pass
        assert tf.get_variable("w", shape=[]) is not None


class TestRemapVariables:
    def test_result_passes_through_the_function(self, sess):
        """get_variable returns the result of the function."""
        with remap_variables(lambda var: var * 3.0):
            value = tf.get_variable("w", initializer=[1.0, 2.0])
        sess.run(tf.global_variables_initializer())
        assert [3.0, 6.0] == sess.run(value).tolist()


class TestFreezeVariables:
    def test_stops_gradients(self):
        """No gradient flows through the result, but the variable stays trainable."""
        with freeze_variables():
            value = tf.get_variable("a/w", shape=[2])
        assert "freezed_a/w" == value.op.name
        assert [None] == tf.gradients(value, tf.trainable_variables())
        assert ["a/w"] == names(tf.trainable_variables())

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_skip_collection(self, use_resource):
        """The variable moves from TRAINABLE_VARIABLES to MODEL_VARIABLES, whatever kind it is."""
        with freeze_variables(stop_gradient=False, skip_collection=True):
            var = tf.get_variable("w", shape=[2], use_resource=use_resource)
        assert isinstance(var, tensorflow.Variable)
        assert [] == tf.trainable_variables()
        assert ["w"] == names(tf.model_variables())

    def test_both(self):
        """With skip_collection and the default stop_gradient, both apply."""
        with freeze_variables(skip_collection=True):
            value = tf.get_variable("w", shape=[2])
        assert "freezed_w" == value.op.name
        assert ([], ["w"]) == (names(tf.trainable_variables()), names(tf.model_variables()))

    def test_leaves_untrained_variables_alone(self):
        """A variable requested with trainable=False is returned unchanged, in no additional collection."""
        with freeze_variables(skip_collection=True):
            var = tf.get_variable("w", shape=[2], trainable=False)
        assert isinstance(var, tensorflow.Variable)
        assert [] == tf.model_variables()

    def test_name_as_keyword(self):
        """The name may be a keyword argument of get_variable."""
        with freeze_variables():
            assert "freezed_w" == tf.get_variable(name="w", shape=[]).op.name

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
    def test_moves_from_global_to_local(self):
        """Variables move from GLOBAL to LOCAL_VARIABLES and stay in other collections."""
        with override_to_local_variable():
            tf.get_variable("w", shape=[])
        assert ([], ["w"], ["w"]) == (
            names(tf.global_variables()),
            names(tf.local_variables()),
            names(tf.trainable_variables()),
        )

    def test_without_collections(self):
        """A getter that passes no `collections` works."""

        def drop(getter, *args, **kwargs):
            kwargs.pop("collections", None)
            return getter(*args, **kwargs)

        with override_to_local_variable(), custom_getter_scope(drop):
            tf.get_variable("w", shape=[])
        assert ["w"] == names(tf.local_variables())

    def test_keeps_collections_of_the_call(self):
        """The collections in the call are kept, except the global one."""
        with override_to_local_variable():
            tf.get_variable("w", shape=[], collections=[tf.GraphKeys.MODEL_VARIABLES])
        assert (["w"], ["w"], []) == (
            names(tf.model_variables()),
            names(tf.local_variables()),
            names(tf.global_variables()),
        )

    def test_slots_of_optimizers_are_local_too(self, sess):
        """Slots of optimizers are local if their variables are, because get_variable creates both."""
        with override_to_local_variable():
            var = tf.get_variable("w", initializer=1.0)
            tf.train.MomentumOptimizer(0.1, 0.9).minimize(var * 2.0, var_list=[var])
        assert ["w", "w/Momentum"] == names(tf.local_variables())
        assert [] == tf.global_variables()

    def test_can_be_switched_off(self):
        """`enable=False` changes nothing."""
        with override_to_local_variable(enable=False):
            tf.get_variable("w", shape=[])
        assert ["w"] == names(tf.global_variables())


def test_getters_do_not_change_numbers(sess):
    """Frozen and local variables have their initial values."""
    initial = np.arange(3, dtype="float32")
    with override_to_local_variable(), freeze_variables():
        value = tf.get_variable("w", initializer=initial)
    sess.run(tf.local_variables_initializer())
    np.testing.assert_array_equal(initial, sess.run(value))

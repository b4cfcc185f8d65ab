"""Tests of tfutils/tower/context.py: scopes, variables and collections of one tower."""

from __future__ import annotations

import threading

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import (
    PredictTowerContext,
    TowerContext,
    TrainTowerContext,
    get_current_tower_context,
)
from tensorpack_lite.utils.naming import MOVING_SUMMARY_OPS_KEY


def trainable(name):
    return tf.get_variable(name, shape=[2])


class TestScopes:
    def test_empty_name_stays_at_the_root(self):
        """A tower without a name adds no prefix to operations or variables."""
        with TowerContext("", is_training=True):
            var, op = trainable("W"), tf.constant(1, name="c")
        assert "W" == var.op.name
        assert "c" == op.op.name

    def test_name_is_an_absolute_scope(self):
        """A named tower is at the top level, and a new context can use the same name scope."""
        with tf.name_scope("outer"), TowerContext("tower0", is_training=False):
            first = tf.constant(1, name="c")
        with TowerContext("tower0", is_training=False):
            second = tf.constant(1, name="d")
        assert ("tower0/c", "tower0/d") == (first.op.name, second.op.name)

    def test_variable_scope_of_its_own(self):
        """vs_name is the prefix of variables, and ns_name that of operations."""
        with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
            var, op = trainable("W"), tf.constant(1, name="c")
        assert "tower1/W" == var.op.name
        assert "tower1/c" == op.op.name

    def test_empty_name_inside_a_name_scope(self):
        """A tower without a name raises a RuntimeError inside a name scope."""
        with tf.name_scope("outer"), pytest.raises(RuntimeError, match="expected '', got 'outer'"):
            TowerContext("", is_training=False).__enter__()

    def test_training_inside_a_variable_scope(self):
        """A training tower raises a RuntimeError inside a variable scope."""
        with tf.variable_scope("outer"), pytest.raises(RuntimeError, match="expected the root, got 'outer'"):
            TowerContext("", is_training=True)

    def test_variable_scope_without_name(self):
        """A vs_name without a ns_name raises a ValueError."""
        with pytest.raises(ValueError, match="variable scope 'v' was given without a name"):
            TowerContext("", is_training=False, vs_name="v")

    def test_own_variables_while_reusing(self):
        """A training tower with a vs_name raises a RuntimeError while variables are reused."""
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True)
        with reuse, pytest.raises(RuntimeError, match="while variables are reused"):
            TrainTowerContext("tower1", vs_name="tower1", index=1, total=2)

    @pytest.mark.parametrize(("index", "total"), [(1, 1), (2, 2), (-1, 1)])
    def test_index_out_of_range(self, index, total):
        """An index that is not less than the total raises a ValueError."""
        with pytest.raises(ValueError, match="expected 0 <= index < total"):
            TrainTowerContext("tower", index=index, total=total)

    def test_variables_are_resource_variables(self):
        """Variables of a tower are resource variables on every TensorFlow, also those of tf.Variable."""
        with TowerContext("", is_training=True):
            made = [trainable("W"), tf.Variable(1.0, name="raw")]
        assert ["VarHandleOp"] * 2 == [var.op.type for var in made]


class TestCurrent:
    def test_none_outside(self):
        """Outside of all towers, the current context is None."""
        assert get_current_tower_context() is None

    def test_inside(self):
        """Inside a tower, the current context is the entered one."""
        with TowerContext("", is_training=True) as context:
            assert context is get_current_tower_context()

    def test_each_thread_has_its_own(self):
        """The current tower of one thread does not apply in another."""
        seen = []
        with TowerContext("", is_training=True):
            thread = threading.Thread(target=lambda: seen.append(get_current_tower_context()))
            thread.start()
            thread.join()
        assert [None] == seen

    def test_no_nesting(self):
        """A tower inside a tower raises a RuntimeError, and the outer one stays usable."""
        with TowerContext("", is_training=True) as outer:
            with pytest.raises(RuntimeError, match="cannot be entered inside"):
                TowerContext("inner", is_training=False).__enter__()
            assert outer is get_current_tower_context()

    def test_failed_enter_does_not_poison(self):
        """After a tower failed to open, the next one works."""
        with tf.name_scope("outer"), pytest.raises(RuntimeError):
            TowerContext("", is_training=False).__enter__()
        with TowerContext("", is_training=True):
            pass
        assert get_current_tower_context() is None

    def test_failure_inside_leaves_scopes_clean(self):
        """An exception in a tower is not changed, and the scopes are closed."""
        with pytest.raises(ZeroDivisionError), TowerContext("tower0", is_training=False):
            1 / 0  # noqa: B018
        assert get_current_tower_context() is None
        assert not tf.get_default_graph().get_name_scope()

    def test_enter_twice(self):
        """Entering a context a second time raises a RuntimeError."""
        context = TowerContext("", is_training=True)
        with context:
            pass
        with pytest.raises(RuntimeError, match="entered a second time"):
            context.__enter__()


class TestFlags:
    def test_str(self):
        """The text of a context has its name and is_training."""
        assert "TowerContext(name=a, is_training=False)" == str(PredictTowerContext("a"))

    def test_training_flags(self):
        """Only tower 0 is the main one. A tower has its own variables if it is the first or has a vs_name."""
        main = TrainTowerContext("tower0", index=0, total=2)
        shared = TrainTowerContext("tower1", index=1, total=2)
        replica = TrainTowerContext("tower1", vs_name="tower1", index=1, total=2)
        flags = [
            (c.is_training, c.is_main_training_tower, c.has_own_variables) for c in (main, shared, replica)
        ]
        assert [(True, True, True), (True, False, False), (True, False, True)] == flags

    def test_predict_flags(self):
        """An inference tower has its own variables unless variables are reused."""
        alone = PredictTowerContext("a")
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            reusing = PredictTowerContext("b")
        assert (False, False, True) == (
            alone.is_training,
            alone.is_main_training_tower,
            alone.has_own_variables,
        )
        assert not reusing.has_own_variables


class TestCollections:
    KEYS = (tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY, tf.GraphKeys.UPDATE_OPS, "custom")

    def added_by(self, context):
        with context:
            for key in self.KEYS:
                tf.add_to_collection(key, tf.no_op())
        return [len(tf.get_collection(key)) for key in self.KEYS]

    def test_main_tower_keeps_all(self):
        """The main training tower keeps everything it adds to collections."""
        assert [1, 1, 1, 1] == self.added_by(TrainTowerContext("tower0", index=0, total=2))

    def test_other_training_towers_keep_updates(self):
        """From other training towers, only summaries are removed."""
        assert [0, 0, 1, 1] == self.added_by(TrainTowerContext("tower1", index=1, total=2))

    def test_predict_towers_lose_updates_too(self):
        """From inference towers, update operations are removed as well."""
        assert [0, 0, 0, 1] == self.added_by(PredictTowerContext("p"))

    def test_restored_after_failure(self):
        """After a failure in a tower, its summaries are removed too."""
        with pytest.raises(ZeroDivisionError), PredictTowerContext("p"):
            tf.add_to_collection(tf.GraphKeys.SUMMARIES, tf.no_op())
            1 / 0  # noqa: B018
        assert [] == tf.get_collection(tf.GraphKeys.SUMMARIES)

    def test_added_in_tower(self):
        """get_collection_in_tower returns what the tower added, in order, and nothing that is added later."""
        tf.add_to_collection("c", "before")
        with TowerContext("", is_training=True) as context:
            tf.add_to_collection("c", "one")
            assert ["one"] == context.get_collection_in_tower("c")
            tf.add_to_collection("c", "two")
        tf.add_to_collection("c", "after")
        assert ["one", "two"] == context.get_collection_in_tower("c")

    def test_frozen_members_are_still_known(self):
        """Members that are removed from the graph's collection are still members of the tower's."""
        with PredictTowerContext("p") as context:
            op = tf.no_op()
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, op)
        assert [op] == context.get_collection_in_tower(tf.GraphKeys.UPDATE_OPS)

    def test_before_entering(self):
        """Asking a tower for its collections before it is entered raises a RuntimeError."""
        with pytest.raises(RuntimeError, match="before the tower was entered"):
            PredictTowerContext("p").get_collection_in_tower("c")

    def test_new_trainable_variables_where_they_must_be_reused(self):
        """A tower that must reuse variables but creates trainable ones raises a RuntimeError that names them."""
        with pytest.raises(RuntimeError, match=r"created trainable variables: fresh\..*contrib\.keras"):
            with tf.variable_scope(tf.get_variable_scope(), reuse=False), TrainTowerContext(
                "tower1", index=1, total=2
            ):
                trainable("fresh")
        assert get_current_tower_context() is None


def test_ns_name_is_the_name():
    """The properties name and ns_name are equal."""
    context = TowerContext("tower0", is_training=False)
    assert "tower0" == context.ns_name == context.name

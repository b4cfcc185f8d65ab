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
    @pytest.mark.parametrize(("vs_name", "expected"), [("", "W"), ("tower1", "tower1/W")])
    def test_names(self, vs_name, expected):
        """vs_name is the prefix of variables, and ns_name that of operations. A tower without a name adds none."""
        tower = TrainTowerContext("tower1", vs_name=vs_name, index=1, total=2) if vs_name else TowerContext("", True)
        with tower:
            var, op = trainable("W"), tf.constant(1, name="c")
        assert (expected, "tower1/c" if vs_name else "c") == (var.op.name, op.op.name)

    def test_name_is_an_absolute_scope(self):
        """A named tower is at the top level, and a new context can use the same name scope."""
        with tf.name_scope("outer"), TowerContext("tower0", is_training=False):
            first = tf.constant(1, name="c")
        with TowerContext("tower0", is_training=False):
            second = tf.constant(1, name="d")
        assert ("tower0/c", "tower0/d") == (first.op.name, second.op.name)

    def test_places(self):
        """A tower without a name in a name scope, or a training tower in a variable scope or where it reuses, is an error."""
        with tf.name_scope("outer"), pytest.raises(RuntimeError, match="expected '', got 'outer'"):
            TowerContext("", is_training=False).__enter__()
        with tf.variable_scope("outer"), pytest.raises(RuntimeError, match="expected the root, got 'outer'"):
            TowerContext("", is_training=True)
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True)
        with reuse, pytest.raises(RuntimeError, match="while variables are reused"):
            TrainTowerContext("tower1", vs_name="tower1", index=1, total=2)

    def test_variables_are_resource_variables(self):
        """Variables of a tower are resource variables on every TensorFlow, also those of tf.Variable."""
        with TowerContext("", is_training=True):
            made = [trainable("W"), tf.Variable(1.0, name="raw")]
        assert ["VarHandleOp"] * 2 == [var.op.type for var in made]


class TestCurrent:
    def test_each_thread_has_its_own(self):
        """Inside a tower, the current context is the entered one, but not in another thread. It cannot be entered again."""
        seen = []
        with TowerContext("", is_training=True) as context:
            assert context is get_current_tower_context()
            thread = threading.Thread(target=lambda: seen.append(get_current_tower_context()))
            thread.start()
            thread.join()
        assert [None, None] == [*seen, get_current_tower_context()]
        with pytest.raises(RuntimeError, match="entered a second time"):
            context.__enter__()

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


class TestFlags:
    def test_flags(self):
        """Only tower 0 is the main one. A tower has its own variables if it is the first or has a vs_name."""
        towers = [
            TrainTowerContext("tower0", index=0, total=2),
            TrainTowerContext("tower1", index=1, total=2),
            TrainTowerContext("tower1", vs_name="tower1", index=1, total=2),
            PredictTowerContext("a"),
        ]
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            towers.append(PredictTowerContext("b"))
        flags = [(c.is_training, c.is_main_training_tower, c.has_own_variables) for c in towers]
        training = [(True, True, True), (True, False, False), (True, False, True)]
        assert [*training, (False, False, True), (False, False, False)] == flags
        assert "TowerContext(name=a, is_training=False)" == str(towers[3])
        assert "a" == towers[3].ns_name == towers[3].name


class TestCollections:
    KEYS = (tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY, tf.GraphKeys.UPDATE_OPS, "custom")

    @pytest.mark.parametrize(
        ("make", "kept"),
        [
            (lambda: TrainTowerContext("tower0", index=0, total=2), [1, 1, 1, 1]),
            (lambda: TrainTowerContext("tower1", index=1, total=2), [0, 0, 1, 1]),
            (lambda: PredictTowerContext("p"), [0, 0, 0, 1]),
        ],
        ids=["main", "second", "inference"],
    )
    def test_what_towers_keep(self, make, kept):
        """Summaries of other towers are removed, and updates of inference towers. They are still members of the tower."""
        with make() as context:
            for key in self.KEYS:
                tf.add_to_collection(key, tf.no_op())
        assert kept == [len(tf.get_collection(key)) for key in self.KEYS]
        assert [1] * 4 == [len(context.get_collection_in_tower(key)) for key in self.KEYS]

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

    def test_new_trainable_variables_where_they_must_be_reused(self):
        """A tower that must reuse variables but creates trainable ones raises a RuntimeError that names them."""
        with pytest.raises(RuntimeError, match=r"created trainable variables: fresh\..*contrib\.keras"):
            with tf.variable_scope(tf.get_variable_scope(), reuse=False), TrainTowerContext("tower1", index=1, total=2):
                trainable("fresh")
        assert get_current_tower_context() is None

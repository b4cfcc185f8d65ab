"""Tests of scopes that are the same in each call."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import (
    auto_reuse_variable_scope,
    cached_name_scope,
    under_name_scope,
    under_variable_scope,
)


class TestAutoReuse:
    @pytest.fixture
    def f(self):
        """A function that creates a variable at its first call."""
        return auto_reuse_variable_scope(lambda: tf.get_variable("w", shape=[]))

    def test_second_call_reuses(self, f):
        """Two calls create one variable, and open no name scope. The first call in a new graph creates another one."""
        first = f()
        assert f() is first
        assert ["w"] == [v.op.name for v in tf.global_variables()]
        named = auto_reuse_variable_scope(lambda: tf.constant(1.0, name="c").op.name)
        assert ["c", "c_1"] == [named(), named()]
        with tf.Graph().as_default():
            assert f() is not first

    def test_under_reuse_and_in_methods(self, f):
        """Where variables are reused, the first call reuses them, too. Instances of a class share the variables."""

        class Model:
            @auto_reuse_variable_scope
            def f(self):
                return tf.get_variable("w", shape=[])

        var = Model().f()
        assert Model().f() is var
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            assert f() is var

    def test_each_scope_has_a_first_call(self, f):
        """A call in another variable scope creates other variables."""
        names = []
        for scope in ("a", "b", "a"):
            with tf.variable_scope(scope):
                names.append(f().op.name)
        assert ["a/w", "b/w", "a/w"] == names

    def test_a_call_that_raised_does_not_count(self):
        """After a call that raised, the next call is the first one."""

        @auto_reuse_variable_scope
        def f(fail):
            if fail:
                raise KeyError
            return tf.get_variable("w", shape=[])

        with pytest.raises(KeyError):
            f(True)
        assert "w" == f(False).op.name


class TestUnderNameScope:
    @pytest.fixture
    def block(self):
        """A function that returns the name of its operation."""

        @under_name_scope()
        def block():
            return tf.constant(1.0, name="c").op.name

        return block

    def test_each_call_has_a_new_scope(self, block):
        """Each call opens a new scope: the function's name, or that of the decorator, then `_1`."""
        assert ["block/c", "block_1/c"] == [block(), block()]
        assert "mine/c" == under_name_scope("mine")(lambda: tf.constant(1.0, name="c").op.name)()

    def test_keyword_re_enters(self, block):
        """`name_scope=` is not passed to the function, and opens the same scope twice, inside the current one."""
        assert ["x/c", "x/c_1"] == [block(name_scope="x"), block(name_scope="x")]
        with tf.name_scope("outer"):
            assert "outer/x/c" == block(name_scope="x")

    def test_warns_when_the_name_is_taken(self, block, capsys):
        """If an operation already has the name, a warning is logged and another name is used."""
        tf.constant(1.0, name="x")
        assert "x_1/c" == block(name_scope="x")
        assert "Name scope 'x' already exists" in capsys.readouterr().out


def test_under_variable_scope():
    """Variables have the function's name as prefix."""

    @under_variable_scope()
    def encoder():
        return tf.get_variable("w", shape=[]).op.name

    assert "encoder/w" == encoder()


class TestCachedNameScope:
    def test_is_the_same_one(self):
        """Each call in a graph opens the same scope at the root, without `_1`, unless the name was taken."""
        seen = []
        for outer in ("a", "b"):
            with tf.name_scope(outer), cached_name_scope("s") as scope:
                seen.append(scope)
        with tf.Graph().as_default():
            tf.constant(1.0, name="s")
            for _ in range(2):
                with cached_name_scope("s") as scope:
                    seen.append(scope)
        assert ["s/", "s/", "s_1/", "s_1/"] == seen

    def test_nested(self):
        """With `top_level=False`, each outer scope has its own inner scope."""
        seen = []
        for outer in ("a/", "b/", "a/"):
            with tf.name_scope(outer), cached_name_scope("s", top_level=False) as scope:
                seen.append(scope)
        assert ["a/s/", "b/s/", "a/s/"] == seen

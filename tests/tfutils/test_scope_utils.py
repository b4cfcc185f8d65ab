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
    def test_second_call_reuses(self):
        """Two calls create one variable."""

        @auto_reuse_variable_scope
        def f():
            return tf.get_variable("w", shape=[])

        assert f() is f()
        assert ["w"] == [v.op.name for v in tf.global_variables()]

    def test_each_scope_has_a_first_call(self):
        """A call in another variable scope creates other variables."""

        @auto_reuse_variable_scope
        def f():
            return tf.get_variable("w", shape=[]).op.name

        names = []
        for scope in ("a", "b", "a"):
            with tf.variable_scope(scope):
                names.append(f())
        assert ["a/w", "b/w", "a/w"] == names

    def test_each_graph_has_a_first_call(self):
        """A call in a new graph creates new variables."""

        @auto_reuse_variable_scope
        def f():
            return tf.get_variable("w", shape=[])

        first = f()
        with tf.Graph().as_default():
            assert f() is not first

    def test_first_call_under_reuse(self):
        """Where variables are reused, the first call reuses them too."""

        @auto_reuse_variable_scope
        def f():
            return tf.get_variable("w", shape=[])

        var = tf.get_variable("w", shape=[])
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            assert f() is var

    def test_methods_share_the_count(self):
        """Two instances of a class share the variables."""

        class Model:
            @auto_reuse_variable_scope
            def f(self):
                return tf.get_variable("w", shape=[])

        assert Model().f() is Model().f()

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

    def test_opens_no_name_scope(self):
        """Operations of the second call are not in a name scope."""

        @auto_reuse_variable_scope
        def f():
            return tf.constant(1.0, name="c").op.name

        assert ["c", "c_1"] == [f(), f()]


class TestUnderNameScope:
    def test_each_call_has_a_new_scope(self):
        """Each call opens a new scope: the function's name, then `_1`."""

        @under_name_scope()
        def block():
            return tf.constant(1.0, name="c").op.name

        assert ["block/c", "block_1/c"] == [block(), block()]

    def test_name_of_the_decorator(self):
        """The decorator can set the name."""

        @under_name_scope("mine")
        def block():
            return tf.constant(1.0, name="c").op.name

        assert "mine/c" == block()

    def test_keyword_re_enters(self):
        """`name_scope=` is not passed to the function, and opens the same scope twice."""

        @under_name_scope()
        def block():
            return tf.constant(1.0, name="c").op.name

        assert ["x/c", "x/c_1"] == [block(name_scope="x"), block(name_scope="x")]

    def test_keyword_nests(self):
        """The scope is inside the current one."""

        @under_name_scope()
        def block():
            return tf.constant(1.0, name="c").op.name

        with tf.name_scope("outer"):
            assert "outer/x/c" == block(name_scope="x")

    def test_warns_when_the_name_is_taken(self, capsys):
        """If an operation already has the name, a warning is logged and another name is used."""
        tf.constant(1.0, name="x")

        @under_name_scope()
        def block():
            return tf.constant(1.0, name="c").op.name

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
        """The second call opens the same scope, without `_1`."""
        seen = []
        for _ in range(2):
            with cached_name_scope("s") as scope:
                seen.append(scope)
        assert ["s/", "s/"] == seen

    def test_top_level_ignores_the_current_scope(self):
        """By default, the scope is at the root."""
        with tf.name_scope("a"), cached_name_scope("s"):
            assert "s/c" == tf.constant(1.0, name="c").op.name

    def test_nested(self):
        """With `top_level=False`, each outer scope has its own inner scope."""
        seen = []
        for outer in ("a/", "b/", "a/"):
            with tf.name_scope(outer), cached_name_scope("s", top_level=False) as scope:
                seen.append(scope)
        assert ["a/s/", "b/s/", "a/s/"] == seen

    def test_each_graph_has_its_own(self):
        """A name used in one graph can be used in another."""
        tf.constant(1.0, name="s")
        with cached_name_scope("s") as first:
            pass
        with tf.Graph().as_default(), cached_name_scope("s") as second:
            pass
        assert ("s_1/", "s/") == (first, second)

"""Default arguments of layers: nesting, what wins, and that nothing stays behind."""

from __future__ import annotations

import threading
import types

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.argscope import (
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
)
from tensorpack_lite.tfutils.tower.context import TowerContext, TrainTowerContext


@pytest.fixture
def layer():
    """A function that returns its arguments and takes part in argscope."""

    def conv(x, channels, size=3, use_bias=True):
        return x, channels, size, use_bias

    return enable_argscope_for_function(conv, log_shape=False)


@pytest.fixture
def shaped():
    """A function of a tensor whose calls log shapes."""

    def double(x, name="double"):
        return x * 2

    return enable_argscope_for_function(double)


class TestArgscope:
    def test_gives_defaults(self, layer):
        """Arguments of the scope reach the call."""
        with argscope(layer, channels=8, size=5):
            assert ("x", 8, 5, True) == layer("x")

    def test_takes_a_list_or_a_tuple_of_layers(self, layer):
        """One scope for several layers, in a list or a tuple."""
        with argscope([layer], size=5), argscope((layer,), channels=1):
            assert ("x", 1, 5, True) == layer("x")

    def test_inner_scope_wins(self, layer):
        """The inner value hides the outer one, other arguments stay."""
        with argscope(layer, size=5, use_bias=False), argscope(layer, size=7):
            assert ("x", 1, 7, False) == layer("x", 1)

    def test_the_call_wins(self, layer):
        """An argument of the call hides the scope's, by keyword and by position."""
        with argscope(layer, channels=8, size=5):
            assert ("x", 2, 9, True) == layer("x", 2, size=9)
            assert ("x", 2, 1, True) == layer("x", 2, 1)

    def test_ends_with_the_block(self, layer):
        """After the block the function's own defaults are back."""
        with argscope(layer, size=5):
            pass
        assert ("x", 1, 3, True) == layer("x", 1)

    def test_ends_after_an_error(self, layer):
        """An exception in the body does not leave the scope behind."""
        with pytest.raises(KeyError), argscope(layer, size=5):
            raise KeyError
        assert {} == get_arg_scope()

    def test_values_are_shared(self, layer):
        """Values that cannot be copied, like locks, may be used; the very object arrives."""
        value = threading.Lock()
        with argscope(layer, size=value), argscope(layer, channels=1):
            assert layer("x")[2] is value

    def test_threads_have_their_own(self, layer):
        """Another thread does not see this one's scope."""
        seen = []
        with argscope(layer, size=5):
            thread = threading.Thread(target=lambda: seen.append(layer("x", 1)))
            thread.start()
            thread.join()
        assert [("x", 1, 3, True)] == seen

    def test_refuses_a_plain_function(self):
        """A function that would ignore the scope is an error."""
        with pytest.raises(ValueError, match="'test_refuses' takes no arguments from argscope"), argscope(
            types.FunctionType((lambda: 0).__code__, {}, "test_refuses"), size=3
        ):
            pass

    def test_refuses_other_objects(self):
        """So is something that is no function."""
        with pytest.raises(TypeError, match="takes a layer or a list of layers, got str"), argscope("Conv2D"):
            pass


class TestGetArgScope:
    def test_shows_what_is_in_effect(self, layer):
        """Scopes are keyed by the layer's name; an unknown layer has an empty one."""
        with argscope(layer, size=5):
            assert {"size": 5} == get_arg_scope()["conv"]
            assert {} == get_arg_scope()["other"]

    def test_outside_is_a_new_one_each_time(self):
        """Writing into it outside of every scope changes nothing."""
        get_arg_scope()["conv"]["size"] = 5
        assert {} == get_arg_scope()


class TestEnableForFunction:
    def test_keeps_name_and_docstring(self):
        """The wrapper looks like the function."""

        def f(x):
            """What f does."""

        assert ("f", "What f does.") == (
            enable_argscope_for_function(f).__name__,
            enable_argscope_for_function(f).__doc__,
        )

    def test_logs_shapes_without_a_tower(self, shaped, capsys):
        """Outside of every tower shapes are logged."""
        shaped(tf.zeros([4, 2]), name="d0")
        assert "'d0'        : [4, 2] --> [4, 2]" in capsys.readouterr().out

    def test_logs_both_shapes(self, shaped, capsys):
        """Shape in, arrow, shape out."""
        with TowerContext("", is_training=True):
            shaped(tf.placeholder(tf.float32, [None, 2]))
        assert "[?, 2] --> [?, 2]" in capsys.readouterr().out

    def test_is_silent_in_later_towers(self, shaped, capsys):
        """A tower that repeats the first one repeats no log."""
        with TrainTowerContext("tower1", index=1, total=2):
            shaped(tf.zeros([4, 2]))
        assert "-->" not in capsys.readouterr().out

    def test_without_a_signature(self):
        """A function written in C takes part, as far as keywords go."""
        smallest = enable_argscope_for_function(min, log_shape=False)
        with argscope(smallest, default=7):
            assert 7 == smallest([])

    def test_refuses_what_cannot_be_called(self):
        """Only functions."""
        with pytest.raises(TypeError, match="takes a function, got int"):
            enable_argscope_for_function(3)


class TestEnableForModule:
    def test_wraps_every_plain_function(self):
        """Functions are replaced, classes and constants are not."""
        module = types.ModuleType("layers")
        module.dense = lambda x, units=1: (x, units)
        module.dense.__name__ = "dense"
        module.Dense = int
        enable_argscope_for_module(module, log_shape=False)
        with argscope(module.dense, units=7):
            assert ("x", 7) == module.dense("x")
        assert module.Dense is int

    def test_twice_is_once(self):
        """What is enabled already is not wrapped again."""
        module = types.ModuleType("layers")
        module.dense = lambda x: x
        enable_argscope_for_module(module)
        first = module.dense
        enable_argscope_for_module(module)
        assert module.dense is first

    def test_refuses_what_is_no_module(self):
        """Only modules."""
        with pytest.raises(TypeError, match="takes a module, got dict"):
            enable_argscope_for_module({})

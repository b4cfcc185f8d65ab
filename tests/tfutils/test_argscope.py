"""Tests of argscope: nesting, precedence, and cleanup."""

from __future__ import annotations

import subprocess
import threading
import types

import pytest

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, Conv2D, Dropout, FullyConnected, Maxout, MaxPooling
from tensorpack_lite.tfutils.argscope import (
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
)
from tensorpack_lite.tfutils.tower.context import TowerContext, TrainTowerContext


@pytest.fixture
def layer():
    """A function that returns its arguments and supports argscope."""

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
        """Arguments of the scope are passed to the call."""
        with argscope(layer, channels=8, size=5):
            assert ("x", 8, 5, True) == layer("x")

    def test_takes_a_list_or_a_tuple_of_layers(self, layer):
        """One scope can set the arguments of several layers, in a list or a tuple."""
        with argscope([layer], size=5), argscope((layer,), channels=1):
            assert ("x", 1, 5, True) == layer("x")

    def test_a_misspelt_argument(self):
        """An argument that no layer of the scope has is an error of the scope, which names the one that was probably meant."""
        with pytest.raises(TypeError, match="argscope of Conv2D: .*'activaton'. Did you mean 'activation'"):
            with argscope(Conv2D, activaton=tf.nn.relu):
                pass
        with pytest.raises(TypeError, match="no argument 'trainin'"):
            with argscope([FullyConnected, BatchNorm], trainin=True):
                pass

    @pytest.mark.parametrize(
        ("layers", "arguments"),
        [
            ([Conv2D], {"nl": None, "out_channel": 3, "kernel_shape": 3, "W_init": None}),
            ([BatchNorm], {"use_local_stat": True, "decay": 0.9}),
            ([MaxPooling], {"shape": 2, "stride": 2}),
            ([Maxout], {"nr_unit": 2}),
            ([Dropout], {"keep_prob": 0.5}),
            ([Conv2D, FullyConnected], {"kernel_size": 3}),
        ],
    )
    def test_old_arguments(self, layers, arguments):
        """Old names of arguments are accepted, and arguments that only some of the layers have."""
        with argscope(layers, **arguments):
            assert arguments.items() <= get_arg_scope()[layers[0].__name__].items()

    def test_inner_scope_wins(self, layer):
        """An inner scope overrides the outer one, and keeps its other arguments."""
        with argscope(layer, size=5, use_bias=False), argscope(layer, size=7):
            assert ("x", 1, 7, False) == layer("x", 1)

    def test_the_call_wins(self, layer):
        """Arguments of the call override the scope, by keyword and by position."""
        with argscope(layer, channels=8, size=5):
            assert ("x", 2, 9, True) == layer("x", 2, size=9)
            assert ("x", 2, 1, True) == layer("x", 2, 1)

    def test_ends_with_the_block(self, layer):
        """After the block, the function's own defaults apply again."""
        with argscope(layer, size=5):
            pass
        assert ("x", 1, 3, True) == layer("x", 1)

    def test_ends_after_an_error(self, layer):
        """An exception in the block also ends the scope."""
        with pytest.raises(KeyError), argscope(layer, size=5):
            raise KeyError
        assert {} == get_arg_scope()

    def test_values_are_shared(self, layer):
        """Values are passed without copying, so those that cannot be copied, such as locks, work."""
        value = threading.Lock()
        with argscope(layer, size=value), argscope(layer, channels=1):
            assert layer("x")[2] is value

    def test_threads_have_their_own(self, layer):
        """A scope does not apply in another thread."""
        seen = []
        with argscope(layer, size=5):
            thread = threading.Thread(target=lambda: seen.append(layer("x", 1)))
            thread.start()
            thread.join()
        assert [("x", 1, 3, True)] == seen

    def test_refuses_a_plain_function(self):
        """A function that would ignore the scope raises a ValueError."""
        with pytest.raises(ValueError, match="'test_refuses' does not support argscope"), argscope(
            types.FunctionType((lambda: 0).__code__, {}, "test_refuses"), size=3
        ):
            pass

    def test_refuses_other_objects(self):
        """An object that is not a function raises a TypeError."""
        with pytest.raises(TypeError, match="expected a layer or a list of layers, got str"), argscope(
            "Conv2D"
        ):
            pass


class TestGetArgScope:
    def test_shows_what_is_in_effect(self, layer):
        """The result maps the names of layers to their arguments, and is empty for other layers."""
        with argscope(layer, size=5):
            assert {"size": 5} == get_arg_scope()["conv"]
            assert {} == get_arg_scope()["other"]

    def test_outside_is_a_new_one_each_time(self):
        """Changing the result outside of all scopes has no effect on later calls."""
        get_arg_scope()["conv"]["size"] = 5
        assert {} == get_arg_scope()


class TestEnableForFunction:
    def test_keeps_name_and_docstring(self):
        """The wrapper has the name and docstring of the function."""

        def f(x):
            """Docstring of f."""

        assert ("f", "Docstring of f.") == (
            enable_argscope_for_function(f).__name__,
            enable_argscope_for_function(f).__doc__,
        )

    def test_logs_shapes_without_a_tower(self, shaped, capsys):
        """Shapes are logged outside of all towers."""
        shaped(tf.zeros([4, 2]), name="d0")
        assert "'d0'        : [4, 2] --> [4, 2]" in capsys.readouterr().out

    def test_logs_both_shapes(self, shaped, capsys):
        """The log line contains the shapes of input and output."""
        with TowerContext("", is_training=True):
            shaped(tf.placeholder(tf.float32, [None, 2]))
        assert "[?, 2] --> [?, 2]" in capsys.readouterr().out

    def test_is_silent_in_later_towers(self, shaped, capsys):
        """A tower that repeats the first one does not log again."""
        with TrainTowerContext("tower1", index=1, total=2):
            shaped(tf.zeros([4, 2]))
        assert "-->" not in capsys.readouterr().out

    def test_without_a_signature(self):
        """A C function without a signature supports argscope for keyword arguments."""
        smallest = enable_argscope_for_function(min, log_shape=False)
        with argscope(smallest, default=7):
            assert 7 == smallest([])

    def test_refuses_objects_that_are_not_callable(self):
        """An object that is not callable raises a TypeError."""
        with pytest.raises(TypeError, match="expected a function, got int"):
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
        """Functions that already support argscope are not wrapped again."""
        module = types.ModuleType("layers")
        module.dense = lambda x: x
        enable_argscope_for_module(module)
        first = module.dense
        enable_argscope_for_module(module)
        assert module.dense is first

    def test_refuses_other_objects_than_modules(self):
        """An object that is not a module raises a TypeError."""
        with pytest.raises(TypeError, match="expected a module, got dict"):
            enable_argscope_for_module({})


LAZY_MODULES = """
import importlib.util, os
if importlib.util.find_spec("tf_keras") is not None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
from tensorpack_lite import argscope, enable_argscope_for_module, tfv1 as tf
from tensorpack_lite.compat import ensure_graph_mode

ensure_graph_mode()
enable_argscope_for_module(tf.layers)
with argscope([tf.layers.conv2d], padding="same", activation=tf.nn.relu), argscope(tf.layers.dense, units=3):
    x = tf.layers.conv2d(tf.zeros([2, 8, 8, 3]), 4, 3, name="conv")
    y = tf.layers.dense(x, name="fc")
assert [2, 8, 8, 4] == x.shape.as_list(), x
assert "Relu" == x.op.type, x
assert [2, 8, 8, 3] == y.shape.as_list(), y
assert isinstance(tf.layers.Dense, type)

cell = tf.nn.rnn_cell.LSTMCell
enable_argscope_for_module(tf.nn.rnn_cell)
assert tf.nn.rnn_cell.LSTMCell is cell
assert issubclass(cell, tf.nn.rnn_cell.RNNCell)
"""


@pytest.mark.slow
def test_a_module_that_is_loaded_on_first_use(start_python):
    """The functions of `tf.layers` support argscope on each TensorFlow, and classes such as `LSTMCell` stay classes."""
    if TF_VERSION >= (2, 16):
        pytest.importorskip("tf_keras")
    process = start_python("-W", "ignore", "-c", LAZY_MODULES, stderr=subprocess.STDOUT)
    output, _ = process.communicate(timeout=120)
    assert 0 == process.returncode, output

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
    def test_precedence(self, layer):
        """The call wins over the inner scope, and that over the outer one; after the block, the defaults apply."""
        with argscope([layer], channels=8, size=5, use_bias=False):
            assert ("x", 8, 5, False) == layer("x")
            with argscope((layer,), size=7):
                assert {"channels": 8, "size": 7, "use_bias": False} == get_arg_scope()["conv"]
                assert ("x", 8, 7, False) == layer("x")
                assert ("x", 2, 9, False) == layer("x", 2, size=9)
                assert ("x", 2, 1, False) == layer("x", 2, 1)
            assert {} == get_arg_scope()["other"]
        assert ("x", 1, 3, True) == layer("x", 1)
        get_arg_scope()["conv"]["size"] = 5  # a new dict outside of scopes
        assert {} == get_arg_scope()

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


class TestEnableForFunction:
    def test_keeps_name_and_docstring(self):
        """The wrapper has the name and docstring of the function."""

        def f(x):
            """Docstring of f."""

        wrapper = enable_argscope_for_function(f)
        assert ("f", "Docstring of f.") == (wrapper.__name__, wrapper.__doc__)

    def test_logs_shapes_without_a_tower(self, shaped, capsys):
        """Shapes are logged outside of all towers."""
        shaped(tf.zeros([4, 2]), name="d0")
        assert "'d0'        : [4, 2] --> [4, 2]" in capsys.readouterr().out

    def test_logs_shapes_of_the_first_tower(self, shaped, capsys):
        """The log line of the first tower has the shapes of input and output. Later towers log nothing."""
        with TowerContext("", is_training=True):
            shaped(tf.placeholder(tf.float32, [None, 2]))
        assert "[?, 2] --> [?, 2]" in capsys.readouterr().out
        with TrainTowerContext("tower1", index=1, total=2):
            shaped(tf.zeros([4, 2]))
        assert "-->" not in capsys.readouterr().out

    def test_without_a_signature(self):
        """A C function without a signature supports argscope for keyword arguments."""
        smallest = enable_argscope_for_function(min, log_shape=False)
        with argscope(smallest, default=7):
            assert 7 == smallest([])


class TestEnableForModule:
    def test_wraps_every_plain_function(self):
        """Functions are replaced, once also by a second call; classes and constants are not."""
        module = types.ModuleType("layers")
        module.dense = lambda x, units=1: (x, units)
        module.dense.__name__ = "dense"
        module.Dense = int
        enable_argscope_for_module(module, log_shape=False)
        first = module.dense
        enable_argscope_for_module(module, log_shape=False)
        assert (first, int) == (module.dense, module.Dense)
        with argscope(module.dense, units=7):
            assert ("x", 7) == module.dense("x")


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

"""Tests of models/registry.py."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import registry
from tensorpack_lite.models.registry import disable_layer_logging, get_registered_layer, layer_register
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.utils import logger


@pytest.fixture
def lines(monkeypatch):
    """The messages of the logger, with an empty shape log."""
    messages = []
    for level in ("info", "warning"):
        monkeypatch.setattr(
            logger, level, lambda message, *args: messages.append(message % args if args else message)
        )
    monkeypatch.setattr(registry, "_shape_log", registry._ShapeLog())
    return messages


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Hide the layers of these tests from other tests."""
    monkeypatch.setattr(registry, "_registry", registry._Registry())


def pixels():
    return tf.placeholder(tf.float32, [None, 8, 8, 4])


def scale_layer(**options):
    @layer_register(**options)
    def Scale(x, factor=2.0, shift=0.0):
        return x * factor + shift + 0 * tf.get_variable("w", [])

    return Scale


class TestCall:
    def test_variables_go_into_the_name(self):
        """The layer runs inside the variable scope of its name."""
        scale_layer()("s0", pixels())
        assert ["s0/w"] == [v.op.name for v in tf.global_variables()]

    def test_a_name_is_needed(self):
        """A missing name raises a TypeError that shows the correct call."""
        with pytest.raises(TypeError, match=r"Scale: the name is missing .*got .*Tensor"):
            scale_layer()(pixels())

    def test_a_misspelt_argument(self):
        """A misspelt argument raises a TypeError with the name that was probably meant, also if it is from argscope."""
        layer = scale_layer()
        with pytest.raises(TypeError, match="^Scale: there is no argument 'facter'. Did you mean 'factor'.$"):
            layer("s0", pixels(), facter=3.0)
        with argscope(layer, shfit=1.0), pytest.raises(TypeError, match="Did you mean 'shift'"):
            layer("s1", pixels())

    def test_no_arguments_at_all(self):
        """A call without arguments raises a TypeError."""
        with pytest.raises(TypeError, match="Scale: the name is missing .*got nothing"):
            scale_layer()()

    def test_inputs_come_by_position(self):
        """Inputs by keyword raise a TypeError."""
        with pytest.raises(
            TypeError, match=r"Scale: the inputs are missing. Pass them by position: Scale\(name, x"
        ):
            scale_layer()("s0", x=pixels())

    def test_arrays_are_refused(self):
        """Arrays as inputs raise a ValueError."""
        with pytest.raises(ValueError, match="Scale 's0': the inputs have the wrong type .* got ndarray"):
            scale_layer()("s0", np.zeros([2, 2]))

    def test_an_empty_list_is_refused(self):
        """An empty list as inputs raises a ValueError."""
        with pytest.raises(ValueError, match="got list"):
            scale_layer()("s0", [])

    def test_lists_and_variables_are_inputs(self):
        """A layer receives lists, tuples and variables unchanged."""

        @layer_register()
        def Give(x):
            return x

        tensor, variable = pixels(), tf.get_variable("v", [2])
        assert [tensor, tensor] == Give("a", [tensor, tensor])
        assert (tensor,) == Give("b", (tensor,))
        assert variable is Give("c", variable)

    def test_use_scope_none_makes_the_name_optional(self):
        """With use_scope=None, a layer without name has no scope."""
        layer = scale_layer(use_scope=None)
        layer(pixels())
        layer("named", pixels())
        assert ["w", "named/w"] == [v.op.name for v in tf.global_variables()]

    def test_use_scope_false_warns_of_a_name(self, lines):
        """With use_scope=False, a name is used as scope, with a warning."""
        layer = scale_layer(use_scope=False)
        layer(pixels())
        assert [] == lines
        layer("named", pixels())
        assert ["w", "named/w"] == [v.op.name for v in tf.global_variables()]
        assert ["Scale: the layer takes no name. 'named' is used as its variable scope."] == lines

    def test_attributes_of_the_layer(self):
        """A layer keeps the function's name, and has the attributes for argscope and LinearWrap."""
        layer = scale_layer(use_scope=None)
        assert (None, True, "Scale") == (layer.use_scope, layer.__argscope_enabled__, layer.__name__)

    def test_log_shape_needs_a_name(self):
        """log_shape=True with an optional name raises a ValueError at once."""
        with pytest.raises(ValueError, match="log_shape=True needs use_scope=True"):
            layer_register(log_shape=True, use_scope=None)


class TestArgscope:
    def run(self, sess, layer, *args, **kwargs):
        with tf.variable_scope("scope", reuse=tf.AUTO_REUSE):
            output = layer("s0", tf.constant(10.0), *args, **kwargs)
        sess.run(tf.global_variables_initializer())
        return sess.run(output)

    def test_it_gives_defaults(self, sess):
        """argscope gives defaults. Arguments of the call take precedence, by keyword and by position."""
        layer = scale_layer()
        with argscope(layer, factor=3.0, shift=1.0):
            assert 31 == self.run(sess, layer)
            assert 41 == self.run(sess, layer, factor=4.0)
            assert 51 == self.run(sess, layer, 5.0)
            assert 56 == self.run(sess, layer, 5.0, 6.0)
        assert 20 == self.run(sess, layer)


class TestNames:
    def test_a_layer_is_found_by_its_name(self):
        """get_registered_layer returns None for an unknown name."""
        layer = scale_layer()
        assert layer is get_registered_layer("Scale")
        assert get_registered_layer("Sclae") is None

    def test_two_of_a_name_are_refused_when_looked_up(self):
        """Two layers with one name only fail when the name is looked up."""
        scale_layer()
        scale_layer()
        with pytest.raises(KeyError, match="2 layers are named 'Scale'"):
            get_registered_layer("Scale")

    def test_tf_is_taken(self):
        """A layer cannot be named `tf`, because `LinearWrap(x).tf` is TensorFlow."""

        def tf(x):
            return x

        with pytest.raises(ValueError, match="a layer cannot be named 'tf'"):
            layer_register()(tf)


class TestShapeLog:
    def test_one_line_per_layer(self, lines):
        """Unknown sizes are question marks, and a second build logs nothing."""
        layer = scale_layer(log_shape=True)
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            layer("conv0", pixels())
            layer("conv0", pixels())
        assert ["'conv0'     : [?, 8, 8, 4] --> [?, 8, 8, 4]"] == lines

    def test_towers_are_the_same_layer(self, lines):
        """The prefix of a tower is not part of the name."""
        layer = scale_layer(log_shape=True)
        for tower in ("tower0", "tower1"):
            with tf.variable_scope(tower):
                layer("conv0", pixels())
        assert ["'conv0'     : [?, 8, 8, 4] --> [?, 8, 8, 4]"] == lines

    def nested(self):
        inner = scale_layer(log_shape=True)

        @layer_register(log_shape=True)
        def Block(x, fail=False):
            x = inner("a", x)
            if fail:
                raise RuntimeError("in the block")
            return [inner("b", x), x]

        return Block

    def test_layers_inside_are_indented(self, lines):
        """Inner layers are indented between two lines of the outer layer."""
        self.nested()("block", pixels())
        shape = "[?, 8, 8, 4]"
        assert [
            f"'block' input: {shape}",
            f"  'block/a'   : {shape} --> {shape}",
            f"  'block/b'   : {shape} --> {shape}",
            f"'block' output: {shape}, {shape}",
        ] == lines

    def test_an_exception_leaves_it_clean(self, lines):
        """After an exception, indentation is reset, and the failed layer is logged when it succeeds."""
        block = self.nested()
        with pytest.raises(RuntimeError, match="in the block"):
            block("block", pixels(), fail=True)
        del lines[:]
        scale_layer(log_shape=True)("after", pixels())
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            block("block", pixels())
        shape = "[?, 8, 8, 4]"
        assert [
            f"'after'     : {shape} --> {shape}",
            f"'block' input: {shape}",
            f"  'block/b'   : {shape} --> {shape}",
            f"'block' output: {shape}, {shape}",
        ] == lines

    def test_outputs_need_not_be_tensors(self, lines):
        """The type of an output that is not a tensor is logged."""

        @layer_register(log_shape=True)
        def Odd(x):
            return {"x": x}

        Odd("odd", pixels())
        assert ["'odd'       : [?, 8, 8, 4] --> dict"] == lines

    def test_it_can_be_switched_off(self, lines):
        """disable_layer_logging stops the log for the rest of the process."""
        disable_layer_logging()
        scale_layer(log_shape=True)("conv0", pixels())
        assert [] == lines

    def test_it_reaches_the_real_logger(self, monkeypatch):
        """Shapes are logged at level INFO."""
        monkeypatch.setattr(registry, "_shape_log", registry._ShapeLog())
        records = []
        handler = logging.Handler()
        handler.emit = records.append
        logger._logger.addHandler(handler)
        try:
            scale_layer(log_shape=True)("conv0", pixels())
        finally:
            logger._logger.removeHandler(handler)
        assert [("INFO", "'conv0'     : [?, 8, 8, 4] --> [?, 8, 8, 4]")] == [
            (r.levelname, r.getMessage()) for r in records
        ]

"""Tests of models/registry.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import registry
from tensorpack_lite.models.registry import disable_layer_logging, get_registered_layer, layer_register
from tensorpack_lite.tfutils.argscope import argscope


@pytest.fixture
def lines(monkeypatch, log_lines):
    """The messages of the logger, with an empty shape log."""
    monkeypatch.setattr(registry, "_shape_log", registry._ShapeLog())
    return log_lines


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
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda layer: layer(pixels()), TypeError, r"Scale: the name is missing .*got .*Tensor"),
            (lambda layer: layer(), TypeError, "Scale: the name is missing .*got nothing"),
            (lambda layer: layer("s0", x=pixels()), TypeError, r"by position: Scale\(name, x"),
            (lambda layer: layer("s0", np.zeros([2])), ValueError, "Scale 's0': the inputs .* got ndarray"),
            (lambda layer: layer("s0", []), ValueError, "got list"),
            (
                lambda layer: layer_register(log_shape=True, use_scope=None),
                ValueError,
                "needs use_scope=True",
            ),
        ],
    )
    def test_mistakes(self, call, error, message):
        """A missing name, and inputs that are arrays or come by keyword, raise an error that shows the correct call."""
        with pytest.raises(error, match=message):
            call(scale_layer())

    def test_a_misspelt_argument(self):
        """A misspelt argument raises a TypeError with the name that was probably meant, also if it is from argscope."""
        layer = scale_layer()
        with pytest.raises(TypeError, match="^Scale: there is no argument 'facter'. Did you mean 'factor'.$"):
            layer("s0", pixels(), facter=3.0)
        with argscope(layer, shfit=1.0), pytest.raises(TypeError, match="Did you mean 'shift'"):
            layer("s1", pixels())

    def test_lists_and_variables_are_inputs(self):
        """A layer receives lists, tuples and variables unchanged."""

        @layer_register()
        def Give(x):
            return x

        tensor, variable = pixels(), tf.get_variable("v", [2])
        assert [tensor, tensor] == Give("a", [tensor, tensor])
        assert (tensor,) == Give("b", (tensor,))
        assert variable is Give("c", variable)

    @pytest.mark.parametrize("use_scope", [None, False])
    def test_a_name_that_is_not_needed(self, lines, use_scope):
        """Without a name, the layer has no scope. With use_scope=False, a name is used as scope, with a warning."""
        layer = scale_layer(use_scope=use_scope)
        layer(pixels())
        assert [] == lines
        layer("named", pixels())
        assert ["w", "named/w"] == [v.op.name for v in tf.global_variables()]
        warning = "Scale: the layer takes no name. 'named' is used as its variable scope."
        assert ([] if use_scope is None else [warning]) == lines

    def test_attributes_of_the_layer(self):
        """A layer keeps the function's name, and has the attributes for argscope and LinearWrap."""
        layer = scale_layer(use_scope=None)
        assert (None, True, "Scale") == (layer.use_scope, layer.__argscope_enabled__, layer.__name__)


class TestNames:
    def test_a_layer_is_found_by_its_name(self):
        """get_registered_layer returns None for an unknown name. Two layers of a name only fail when it is looked up."""
        layer = scale_layer()
        assert layer is get_registered_layer("Scale")
        assert get_registered_layer("Sclae") is None
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
        """Unknown sizes are question marks, outputs other than tensors are types, and a second build logs nothing."""

        @layer_register(log_shape=True)
        def Odd(x):
            return {"x": x}

        layer = scale_layer(log_shape=True)
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            layer("conv0", pixels())
            layer("conv0", pixels())
        Odd("odd", pixels())
        shape = "[?, 8, 8, 4]"
        assert [f"'conv0'     : {shape} --> {shape}", f"'odd'       : {shape} --> dict"] == lines

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

    def test_it_can_be_switched_off(self, lines):
        """disable_layer_logging stops the log for the rest of the process."""
        disable_layer_logging()
        scale_layer(log_shape=True)("conv0", pixels())
        assert [] == lines

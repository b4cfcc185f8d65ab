"""Tests of graph_builder/model_desc.py."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.model_desc import ModelDesc, ModelDescBase
from tensorpack_lite.tfutils.tower.context import TowerContext


class Model(ModelDesc):
    asked = 0

    def __init__(self):  # subclasses need not call the base
        pass

    def inputs(self):
        self.asked += 1
        return [TensorSpec([None, 3], tf.float32, "x"), tf.placeholder(tf.int32, [None], "y")]

    def build_graph(self, x, y):
        return tf.reduce_sum(x)

    def optimizer(self):
        return tf.train.AdamOptimizer()


def test_signature():
    """TensorSpecs and placeholders become specs; inputs() is called once, and not in the default graph."""
    model = Model()
    signature = model.get_input_signature()
    described = [(spec.name, spec.dtype, tf.TensorShape(spec.shape).as_list()) for spec in signature]
    assert [("x", tf.float32, [None, 3]), ("y", tf.int32, [None])] == described
    assert ["x", "y"] == model.input_names
    assert 1 == model.asked
    assert [] == tf.get_default_graph().get_operations()


def test_each_model_has_its_own():
    """Two models of one class have separate signatures."""
    one, two = Model(), Model()
    one.get_input_signature()
    assert 0 == two.asked


def test_no_inputs():
    """A model can have no inputs."""

    class Nothing(ModelDesc):
        def inputs(self):
            return []

    assert [] == Nothing().get_input_signature()


def test_inputs_of_another_kind():
    """Elements that are neither TensorSpec nor placeholder raise a TypeError."""

    class Wrong(ModelDesc):
        def inputs(self):
            return [3]

    with pytest.raises(
        TypeError,
        match=r"Wrong.inputs\(\) returned the wrong type: expected a list of only tf.TensorSpec .* got int",
    ):
        Wrong().get_input_signature()


def test_inputs_is_not_a_list():
    """inputs() must return a list."""

    class Wrong(ModelDesc):
        def inputs(self):
            return {}

    with pytest.raises(TypeError, match=r"Wrong.inputs\(\) .* expected a list of tf.TensorSpec, got dict"):
        Wrong().get_input_signature()


def test_placeholder_from_elsewhere():
    """A placeholder that was created outside of inputs() raises a ValueError."""
    placeholder = tf.placeholder(tf.float32, [], "p")

    class Wrong(ModelDesc):
        def inputs(self):
            return [placeholder]

    with pytest.raises(ValueError, match="p:0 was created outside of this method"):
        Wrong().get_input_signature()


def test_optimizer_once():
    """optimizer() is called once."""
    model = Model()
    assert model.get_optimizer() is model.get_optimizer()


def test_optimizer_of_another_kind():
    """An optimizer that is not of TensorFlow 1 raises a TypeError."""

    class Wrong(Model):
        def optimizer(self):
            return "adam"

    with pytest.raises(
        TypeError,
        match=r"Wrong.optimizer\(\) .* expected a tf.train.Optimizer of tfv1, not of Keras, got str",
    ):
        Wrong().get_optimizer()


def keras_adam():
    """An object of the class Adam of Keras 3."""
    return type("Adam", (), {"__module__": "keras.src.optimizers.adam"})()


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        ("adam", r"got str\. Write tf\.train\.AdamOptimizer\(0\.01\)\.$"),
        (
            keras_adam(),
            r"got keras\.src\.optimizers\.adam\.Adam\. Write tf\.train\.AdamOptimizer\(0\.01\)\.$",
        ),
        (tf.train.AdamOptimizer, r"got the class AdamOptimizer; write AdamOptimizer\(\)\.$"),
        (None, r"got NoneType\. End optimizer\(\) with `return`\.$"),
    ],
    ids=["name", "keras", "class", "none"],
)
def test_advice_about_the_optimizer(returned, match):
    """The error about the result of optimizer() explains what to write."""
    model = Model()
    model.optimizer = lambda: returned
    with pytest.raises(TypeError, match=match):
        model.get_optimizer()


@pytest.mark.parametrize("is_training", [True, False])
def test_training(is_training):
    """`training` follows the tower."""
    with TowerContext("", is_training=is_training):
        assert is_training is Model().training


def test_training_outside():
    """Outside of a tower, `training` raises an AttributeError."""
    with pytest.raises(AttributeError, match="used outside of a tower"):
        Model().training  # noqa: B018


@pytest.mark.parametrize("method", ["inputs", "build_graph", "optimizer"])
def test_not_defined(method):
    """Methods that a subclass must define raise NotImplementedError by default."""
    with pytest.raises(NotImplementedError, match=rf"ModelDesc: define {method}\(\)"):
        getattr(ModelDesc(), method)()


def test_base_has_no_optimizer():
    """ModelDescBase has no optimizer."""
    assert not hasattr(ModelDescBase(), "optimizer")

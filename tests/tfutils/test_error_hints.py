"""Errors about frequent mistakes in a tower function contain advice."""

from __future__ import annotations

import pytest
import tensorflow as tensorflow_2
from fakes.quadratic import QuadraticTrainer
from fakes.trainers import run

from tensorpack_lite.callbacks import Callback
from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc

only_tf2 = pytest.mark.skipif(TF_VERSION < (2, 0), reason="in TensorFlow 1, `tensorflow` has the functions of tfv1")


def build(function):
    """Build a tower whose model is a function of a float32 tensor of shape [3, 3]."""
    x = tf.placeholder(tf.float32, [3, 3], "x")
    with TowerContext("", is_training=True):
        return TowerFunc(function, [tf.TensorSpec([3, 3], tf.float32, "x")])(x)


class TestTensorsAsValues:
    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda x: 1 if tf.reduce_sum(x) > 0 else 2, r"`if`.*tf.cond\(.*tf.where\("),
            (lambda x: not x, r"`if`.*tf.cond\(.*tf.where\("),
            (lambda x: (x > 0) and x, r"`if`.*tf.cond\(.*tf.where\("),
            (lambda x: list(x), r"iterates over a tensor.*tf.unstack.*tf.map_fn"),
        ],
        ids=["if", "not", "and", "loop"],
    )  # fmt: skip
    def test_advice(self, function, message):
        """A tensor as a condition or in a loop raises TypeError, which names functions instead of eager execution."""
        with pytest.raises(TypeError, match=f"The tower function: .*{message}") as error:
            build(function)
        assert "Eager" not in str(error.value)
        assert error.value.__suppress_context__
        assert any(one.name == "<lambda>" for one in error.traceback)


@only_tf2
class TestImportOfTensorFlow2:
    @pytest.mark.parametrize(
        "function",
        [
            lambda x: tensorflow_2.nn.in_top_k(x, tf.zeros([3], tf.int32), 1),
            lambda x: tensorflow_2.layers.dense(x, 3),
            lambda x: tensorflow_2.get_variable("w", [3]),
            lambda x: tensorflow_2.reduce_mean(x, keep_dims=True),
        ],
        ids=["in_top_k", "layers", "get_variable", "keep_dims"],
    )
    def test_cure(self, function):
        """A function or argument of TensorFlow 1 that `import tensorflow as tf` lacks: the error has the line to write."""
        with pytest.raises((TypeError, AttributeError), match="`from tensorpack_lite import tfv1 as tf`"):
            build(function)

    def test_in_a_model(self):
        """The same holds for the methods inputs and optimizer of a model."""

        class Model(ModelDesc):
            def inputs(self):
                return [tensorflow_2.placeholder(tf.float32, [None], "x")]

            def optimizer(self):
                return tensorflow_2.train.MomentumOptimizer(0.1, 0.9)

        advice = "`from tensorpack_lite import tfv1 as tf`"
        with pytest.raises(AttributeError, match=f"Model.optimizer: .*{advice}"):
            Model().get_optimizer()
        with pytest.raises(AttributeError, match=f"Model.inputs: .*{advice}"):
            Model().get_input_signature()

    @pytest.mark.parametrize("moment", ["_setup_graph", "_before_train", "_trigger_epoch", "_trigger_step"])
    def test_in_a_callback(self, moment):
        """The same holds for the methods of callbacks."""

        class Mine(Callback):
            pass

        setattr(Mine, moment, lambda self: tensorflow_2.placeholder(tf.float32, []))
        with pytest.raises(AttributeError, match="`from tensorpack_lite import tfv1 as tf`") as error:
            run(QuadraticTrainer(), [Mine()])
        assert 1 == str(error.value).count("tfv1")

    def test_layers_of_keras_3(self):
        """A layer that Keras 3 no longer has: the error names the library's layer."""
        if TF_VERSION < (2, 16):
            pytest.skip("TensorFlow before 2.16 has tf.compat.v1.layers")
        with pytest.raises(AttributeError, match=r"use FullyConnected\(name, x, ...\) of tensorpack_lite"):
            build(lambda x: tf.layers.dense(x, 3))


class TestClassNumbersAsLabels:
    def test_one_hot_is_expected(self):
        """Class numbers for softmax_cross_entropy: TensorFlow's error about shapes ends with the function for them."""
        with pytest.raises(ValueError, match=r"tf.losses.sparse_softmax_cross_entropy\(labels, logits\)"):
            build(lambda x: tf.losses.softmax_cross_entropy(tf.argmax(x, 1), x))

    def test_other_shapes(self):
        """Shapes of another function that do not fit have no such advice."""
        with pytest.raises(ValueError, match="incompatible|sparse") as error:
            build(lambda x: tf.losses.mean_squared_error(tf.argmax(x, 1), x))
        assert "one_hot" not in str(error.value)


def two_layers(x):
    first = FullyConnected("fc", x, 3)
    return FullyConnected("fc", first, 3)


def a_layer_in_a_loop(x):
    for _ in range(2):
        x = FullyConnected("fc", x, 3)
    return x


def a_variable_of_a_layer(x):
    x = FullyConnected("fc", x, 3)
    with tf.variable_scope("fc"):
        return x * tf.get_variable("W", [3])


def a_variable_in_a_loop(x):
    for _ in range(2):
        x = x * tf.get_variable("scale", [])
    return x


def test_other_errors():
    """An error for another reason is raised unchanged."""
    mine = AttributeError("module 'tensorflow' has no attribute 'nothing'")

    def fail(x):
        raise mine

    with pytest.raises(AttributeError) as error:
        build(fail)
    assert error.value is mine


class TestNameClash:
    @pytest.mark.parametrize(
        ("model", "parts"),
        [
            (
                two_layers,
                [
                    "FullyConnected: there are two layers named 'fc'",
                    "two_layers: first = FullyConnected",
                    "and again at test_error_hints.py",
                    "for example 'fc_2'",
                ],
            ),
            (a_layer_in_a_loop, ["that line runs more than once.", "for example f'fc{i}'"]),
            (
                a_variable_of_a_layer,
                [
                    "the variable 'fc/W' exists already",
                    'a_variable_of_a_layer: x = FullyConnected("fc", x, 3)',
                    'return x * tf.get_variable("W", [3])',
                ],
            ),
            (a_variable_in_a_loop, ["the variable 'scale' exists already", "that line runs more than once"]),
        ],
    )
    def test_a_second_one(self, model, parts):
        """A second layer or variable of a name raises an error with both lines and a new name, not TensorFlow's advice."""
        with pytest.raises(ValueError, match="exists already|there are two") as error:
            build(model)
        assert [] == [part for part in parts if part not in str(error.value)]
        assert "Did you mean" not in str(error.value)

    def test_an_earlier_model(self):
        """A variable of an earlier model in the graph keeps the error that advises a new graph."""
        x = tf.placeholder(tf.float32, [3, 3])
        function = TowerFunc(lambda x: FullyConnected("fc", x, 3), [tf.TensorSpec([3, 3], tf.float32, "x")])
        with TowerContext("", is_training=True):
            function(x)
        with pytest.raises(ValueError, match="from a model that was built in it before"), TowerContext(
            "", is_training=True
        ):
            function(x)


def test_a_tensor_of_another_graph():
    """A tensor that a model has kept from another graph: the error says to create a new model for each training."""
    with tf.Graph().as_default():
        kept = tf.constant(1.0)
    with pytest.raises(ValueError, match=r"(?s)same graph.*create a new model object \(ModelDesc\)"):
        build(lambda x: x * kept)


@pytest.mark.parametrize("moment", ["_before_train", "_trigger_step"])
def test_operations_after_the_graph_is_complete(moment):
    """A callback that creates an operation once training has begun raises an error that shows where to create it."""
    late = type("Late", (Callback,), {moment: lambda self: tf.constant(1.0)})()
    match = r"(?s)finalized.*The training: operations cannot be created any more.*`_setup_graph`.*get_predictor"
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match=match):
        run(QuadraticTrainer(), [late])


def test_a_histogram_of_nan():
    """A histogram of NaN raises an error of a sentence or two, which names it and the callback that finds the cause."""

    class Shows(Callback):
        def _setup_graph(self):
            self._summary = tf.summary.histogram("weights", tf.fill([3], float("nan")))

        def _trigger_step(self):
            self.trainer.sess.run(self._summary)

    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="TerminateOnNaN") as error:
        run(QuadraticTrainer(), [Shows()])
    assert str(error.value).startswith("The training: the tensor of the histogram 'Shows/weights' has values")
    assert len(str(error.value)) < 300
    assert isinstance(error.value.__cause__, tf.errors.InvalidArgumentError)

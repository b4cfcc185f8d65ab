"""Tests of tfutils/precision.py: scopes, the functions of a trainer, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.small_convnet import SmallConvNet

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source import PlaceholderInput
from tensorpack_lite.models import Conv2D
from tensorpack_lite.tfutils import optimizer
from tensorpack_lite.tfutils.gradproc import GlobalNormClip
from tensorpack_lite.tfutils.loss_scale import scale_loss
from tensorpack_lite.tfutils.precision import check_precision, precision_scope, with_precision
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.train import SimpleTrainer

CHANGED = (AttributeError, TypeError, ValueError)


def sgd():
    return tf.train.GradientDescentOptimizer(1.0)


class TestScope:
    """`precision_scope` around a part of a model."""

    def test_a_variable_is_stored_in_float32(self, sess):
        """A trainable variable that is requested in 16 bits is float32, has the same name, and is read through a cast."""
        with TowerContext("", is_training=True), precision_scope("mixed_float16"):
            value = tf.get_variable("w", [3], tf.float16, tf.constant_initializer(0.1))
        (variable,) = tf.trainable_variables()
        assert ("w", tf.float32, tf.float16) == (variable.op.name, variable.dtype.base_dtype, value.dtype)
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(np.float16([0.1] * 3), sess.run(value))
        np.testing.assert_array_equal(np.float32([0.1] * 3), sess.run(variable))

    def test_other_variables(self):
        """Variables of other dtypes, and those that are not trained, are not changed."""
        with TowerContext("", is_training=True), precision_scope("mixed_float16"):
            made = [tf.get_variable("a", []), tf.get_variable("b", [], tf.float64)]
            made.append(tf.get_variable("c", [], tf.float16, trainable=False))
        assert [tf.float32, tf.float64, tf.float16] == [var.dtype.base_dtype for var in made]
        assert made == tf.global_variables()

    def test_float32_alone_changes_nothing(self):
        """A scope "float32" outside of others adds no operation and no cast, also for inputs of 16 bits."""
        graphs = []
        for scope in (precision_scope("float32"), tf.name_scope("")):
            with tf.Graph().as_default() as graph, TowerContext("", is_training=True), scope:
                Conv2D("conv", tf.zeros([1, 4, 4, 2], tf.float16), 3, 3)
                assert {tf.float16} == {var.dtype.base_dtype for var in tf.global_variables()}
            graphs.append(graph.as_graph_def())
        assert graphs[0] == graphs[1]

    def test_it_ends(self):
        """The scope ends with its block, also after an error, which stays as it is."""
        x = tf.zeros([1, 4, 4, 2])
        with pytest.raises(ValueError, match="^mine$"), TowerContext("", is_training=True):
            with precision_scope("mixed_float16"):
                raise ValueError("mine")
        with TowerContext("", is_training=True):
            assert tf.float32 == Conv2D("conv", x, 3, 3).dtype

    @pytest.mark.parametrize("is_narrow_first", [True, False])
    def test_different_dtypes(self, is_narrow_first):
        """TensorFlow's error about an image layer's output and a float32 tensor has the advice to cast."""
        with TowerContext("", is_training=True):
            x = tf.zeros([1, 4, 4, 2])
            with pytest.raises(CHANGED, match=r"(?s)float32.*return float16.*tf\.cast\(x, tf\.float32\)"):
                with precision_scope("mixed_float16"):
                    y = Conv2D("conv", x, 2, 3)
                    tf.add(y, x) if is_narrow_first else tf.add(x, y)

    def test_bfloat16(self):
        """TensorFlow 1.15, which has no kernels for it, raises RuntimeError for "mixed_bfloat16"; TensorFlow 2 does not."""
        if TF_VERSION >= (2, 0):
            assert "mixed_bfloat16" == check_precision("Mine", "mixed_bfloat16")
            return
        with pytest.raises(RuntimeError, match="Mine: precision 'mixed_bfloat16' needs TensorFlow 2"):
            check_precision("Mine", "mixed_bfloat16")


class TestWithPrecision:
    """`with_precision`, for `setup_graph` and other trainers."""

    def test_float32(self):
        """With "float32", the functions are returned as they are."""
        model = SmallConvNet()
        assert (model.build_graph, sgd) == with_precision("float32", model.build_graph, sgd)

    def test_cost(self):
        """The cost is float32, also if the model returns 16 bits."""
        get_cost, _ = with_precision("mixed_float16", lambda x: tf.reduce_mean(Conv2D("conv", x, 2, 3)), sgd)
        with TowerContext("", is_training=True):
            assert tf.float32 == get_cost(tf.zeros([1, 4, 4, 2])).dtype

    @pytest.mark.parametrize("precision", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
    def test_a_trainer(self, precision, sess):
        """A trainer has variables, statistics and summaries in float32, and the same names plus those of the loss scale."""
        if precision == "mixed_bfloat16" and TF_VERSION < (2, 0):
            pytest.skip("TensorFlow 1.15 has no such kernels")
        names = []
        for current in ("float32", precision):
            with tf.Graph().as_default():
                trainer, model = SimpleTrainer(), SmallConvNet()
                functions = with_precision(current, model.build_graph, model.get_optimizer)
                trainer.setup_graph(model.get_input_signature(), PlaceholderInput(), *functions)
                every = [*tf.global_variables(), *tf.local_variables()]
                names.append({var.op.name for var in every})
                assert tf.float32 == trainer.cost.dtype
                half = [var for var in every if var.dtype.base_dtype in (tf.float16, tf.bfloat16)]
                assert [] == half
                ops = tf.get_default_graph().get_operations()
                ends = [op for op in ops if op.type in ("ScalarSummary", "HistogramSummary")]
                assert {tf.float32} == {op.inputs[1].dtype for op in ends}
                entropies = [op for op in ops if op.type == "SparseSoftmaxCrossEntropyWithLogits"]
                assert {tf.float32} == {op.inputs[0].dtype for op in entropies}
        new = {"loss_scale/scale", "loss_scale/good_steps"} if precision == "mixed_float16" else set()
        assert new == names[1] - names[0]
        assert set() == names[0] - names[1]


class TestScaleLoss:
    """The place of the DynamicLossScaleOptimizer among an optimizer's wrappers."""

    def test_inside_processors(self):
        """Gradient processors stay around it, so that they see unscaled gradients. A second call changes nothing."""
        opt = optimizer.apply_grad_processors(sgd(), [GlobalNormClip(1.0)])
        scaled = scale_loss(optimizer.apply_grad_processors(opt, []))
        assert scaled is scale_loss(scaled)
        x = tf.get_variable("x", initializer=3.0)
        grads = scaled.compute_gradients(tf.square(x))
        with tf.Session() as sess:
            update = scaled.apply_gradients(grads)
            sess.run(tf.global_variables_initializer())
            sess.run(update)
            assert 2.0 == sess.run(x)  # clipped to norm 1
        assert "loss_scale/scale" in [var.op.name for var in tf.global_variables()]

    def test_accumulation(self, sess):
        """Gradients are accumulated unscaled, and an infinite one is skipped."""
        opt = scale_loss(optimizer.AccumGradOptimizer(sgd(), 2))
        x = tf.get_variable("x", initializer=0.0)
        factor = tf.placeholder(tf.float32, [])
        update = opt.minimize(factor * x)
        sess.run(tf.global_variables_initializer())
        for value, expected in [(1.0, 0.0), (np.inf, 0.0), (2.0, -3.0)]:
            sess.run(update, {factor: value})
            assert expected == pytest.approx(float(sess.run(x)))

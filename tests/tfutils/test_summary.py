"""Tests of summaries and moving averages: numbers, names, collections and towers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.summary import (
    accumulate_op,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
    create_image_summary,
    create_scalar_summary,
)
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TrainTowerContext
from tensorpack_lite.tfutils.varreplace import override_to_local_variable, remap_variables
from tensorpack_lite.utils.naming import MOVING_SUMMARY_OPS_KEY

SAMPLES = [3.0, -1.0, 4.0, 1.0, 5.0]


def summaries() -> list:
    """Return the names of the operations in SUMMARIES."""
    return [tensor.op.name for tensor in tf.get_collection(tf.GraphKeys.SUMMARIES)]


def expected_averages(samples, decay) -> list:
    """Return sum_i decay^(t-i) x_i / sum_i decay^(t-i) for every t."""
    return [np.average(samples[:t], weights=decay ** np.arange(t - 1, -1, -1.0)) for t in range(1, len(samples) + 1)]


def values_of(serialized) -> dict:
    """Return `{tag: number}` of an evaluated summary."""
    return {v.tag: v.simple_value for v in tf.Summary.FromString(serialized).value}


class TestAddMovingSummary:
    @pytest.mark.parametrize("decay", [0.95, 0.5, 0.0])
    @pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.int64])
    def test_average(self, sess, decay, dtype):
        """The average equals the closed form, from the first step on; summary and variable have it. It is float32 or float64."""
        x = tf.placeholder(dtype, [], name="x")
        (average,) = add_moving_summary(x, decay=decay)
        assert average.dtype == (tf.float64 if dtype == tf.float64 else tf.float32)
        sess.run(tf.local_variables_initializer())
        merged, got = tf.summary.merge_all(), []
        for sample in SAMPLES:
            value, summary = sess.run([average, merged], {x: sample})
            assert {"x-summary": np.float32(value)} == values_of(summary)
            got.append(value)
        assert got[-1] == sess.run(tf.local_variables()[0])
        np.testing.assert_allclose(expected_averages(SAMPLES, decay), got, rtol=1e-6)

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_takes_variables(self, sess, use_resource):
        """A variable can be summarized like a tensor."""
        (average,) = add_moving_summary(tf.get_variable("w", initializer=2.0, use_resource=use_resource))
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        assert 2.0 == sess.run(average)

    @pytest.mark.parametrize("sample", [1.0, 0.1, 3.3333333, 1e-20, 123456.7])
    def test_first_average_is_the_first_sample(self, sess, sample):
        """The first average equals the first sample exactly."""
        x = tf.placeholder(tf.float32, [], name="x")
        (average,) = add_moving_summary(x)
        sess.run(tf.local_variables_initializer())
        assert np.float32(sample) == sess.run(average, {x: sample})

    def test_samples_added_without_the_average(self, sess):
        """Samples that are added without the average count in it once, also if both are evaluated in one run."""
        x = tf.placeholder(tf.float32, [], name="x")
        (average,) = add_moving_summary(x, decay=0.5)
        add = accumulate_op(average)
        with pytest.raises(KeyError):
            accumulate_op(tf.constant(1.0, name="another"))
        sess.run(tf.local_variables_initializer())
        for sample in SAMPLES[:-1]:
            sess.run(add, {x: sample})
        got, _ = sess.run([average, add], {x: SAMPLES[-1]})
        np.testing.assert_allclose(expected_averages(SAMPLES, 0.5)[-1], got, rtol=1e-6)

    def test_names_and_collections(self):
        """Names and collections are those of tensorpack, without the tower, with one scope EMA, and under a local override."""
        with tf.name_scope("losses"):
            cost = tf.constant(1.0, name="cost")
            (average,) = add_moving_summary(cost)
        assert "EMA/losses/cost_EMA_apply" == average.op.name
        assert ["EMA/losses/cost", "EMA/losses/cost/biased", "EMA/losses/cost/local_step"] == [
            var.op.name for var in tf.local_variables()
        ]
        assert [average] == tf.get_collection(MOVING_SUMMARY_OPS_KEY)
        with TrainTowerContext("tower0", index=0, total=2), override_to_local_variable():
            add_moving_summary(tf.constant(1.0, name="error"))
        assert "EMA/error" == tf.local_variables()[3].op.name
        assert ["losses/cost-summary", "error-summary"] == summaries()
        assert [] == tf.global_variables() == tf.trainable_variables()

    def test_collections_can_be_chosen(self):
        """The collections of the update and of the summary can be chosen, and None means no collection."""
        add_moving_summary(tf.constant(1.0, name="x"), collection=None, summary_collections=["mine"])
        assert ([], [], 1) == (
            tf.get_collection(MOVING_SUMMARY_OPS_KEY),
            summaries(),
            len(tf.get_collection("mine")),
        )

    def test_nothing_in_other_towers(self):
        """Towers other than the first training tower have no averages."""
        with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
            assert [] == add_moving_summary(tf.constant(1.0))
        with PredictTowerContext("predict"):
            assert [] == add_moving_summary(tf.constant(1.0))
        assert [] == tf.local_variables()

    def test_nothing_under_reuse(self, capsys):
        """Where variables are reused, a warning is logged and the list is empty. AUTO_REUSE does not count as reuse."""
        with tf.variable_scope("s", reuse=True):
            assert [] == add_moving_summary(tf.constant(1.0, name="a"))
        assert "variables are reused" in capsys.readouterr().out
        with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
            assert 1 == len(add_moving_summary(tf.constant(1.0, name="a")))

    def test_nothing_under_xla(self):
        """Inside XLA, the list is empty."""
        xla = getattr(tensorflow, "xla", None) or tf.xla
        seen = []

        def compiled(x):
            seen.append(add_moving_summary(tf.reduce_sum(x)))
            return x * 2

        xla.experimental.compile(compiled, [tf.zeros([2])])
        assert [[]] == seen

    def test_getters_of_the_caller_do_not_see_it(self):
        """Custom getters of this call and of the first call do not apply."""
        with remap_variables(lambda var: 1 / 0):
            add_moving_summary(tf.constant(1.0, name="a"))
        with tf.variable_scope("v"):
            add_moving_summary(tf.constant(1.0, name="b"))
        assert ["EMA/a", "EMA/v/b"] == [var.op.name for var in tf.local_variables()[::3]]

    def test_twice(self):
        """A second average of the same tensor raises a ValueError."""
        cost = tf.constant(1.0, name="cost")
        add_moving_summary(cost)
        with pytest.raises(ValueError, match="'cost' already has a moving average in this graph"):
            add_moving_summary(cost)

    def test_refuses_other_shapes(self):
        """A tensor that is not a scalar raises a ValueError before anything is created."""
        with pytest.raises(
            ValueError, match=r"v:0 is not a scalar \(expected shape \(\), got \(2,\)\). Use tf.reduce_mean"
        ):
            add_moving_summary(tf.constant(1.0), tf.constant([1.0, 2.0], name="v"))
        assert [] == tf.local_variables()


class TestAddTensorSummary:
    def test_numbers(self, sess):
        """The mean, the rms and the fraction of zeros are correct, in the requested order. Others have their names, too."""
        values = np.array([[3.0, 0.0], [0.0, 4.0]], dtype="float32")
        add_tensor_summary(tf.constant(values, name="x"), ["mean", "rms", "sparsity"])
        assert ["x-mean", "x-rms", "x-sparsity"] == summaries()
        got = values_of(sess.run(tf.summary.merge_all()))
        assert {"x-mean": 1.75, "x-rms": 2.5, "x-sparsity": 0.5} == got
        add_tensor_summary(tf.zeros([]), ["scalar", "histogram"], name="y", collections=["mine"])
        assert ["y-summary", "y-histogram"] == [tensor.op.name for tensor in tf.get_collection("mine")]

    @pytest.mark.parametrize(("main_tower_only", "expected"), [(True, []), (False, ["tower1/x-mean"])])
    def test_main_tower(self, main_tower_only, expected):
        """By default, towers other than the first training tower have no summaries."""
        with TrainTowerContext("tower1", index=1, total=2):
            add_tensor_summary(tf.zeros([2]), ["mean"], name="x", main_tower_only=main_tower_only, collections=["mine"])
        assert expected == [tensor.op.name for tensor in tf.get_collection("mine")]


class TestAddActivationSummary:
    def test_names(self):
        """By default, there are three summaries in one scope."""
        with tf.name_scope("conv0"):
            add_activation_summary(tf.zeros([2, 3], name="out"))
        add_activation_summary(tf.zeros([2, 3], name="fc"), types=["mean"])
        assert [
            "activation-summary/conv0/out-sparsity",
            "activation-summary/conv0/out-rms",
            "activation-summary/conv0/out-histogram",
            "activation-summary/fc-mean",
        ] == summaries()

    def test_vectors_are_left_out(self, capsys):
        """A vector is skipped with a warning."""
        add_activation_summary(tf.zeros([2], name="v"))
        assert [] == summaries()
        assert "v:0, because it is a scalar or a vector" in capsys.readouterr().out


class TestAddParamSummary:
    @pytest.mark.parametrize("use_resource", [True, False])
    def test_whole_names_match(self, sess, use_resource):
        """A regex must match the whole name: `.*/W` matches conv0/W, but not conv0/W2 or conv0/b. Calls share a scope."""
        for name in ("conv0/W", "conv0/W2", "conv0/b"):
            tf.get_variable(name, initializer=[3.0, 4.0], use_resource=use_resource)
        add_param_summary((".*/W", ["rms", "histogram"]))
        add_param_summary(("conv0/b", ["mean"]))
        names = ["conv0/W-rms", "conv0/W-histogram", "conv0/b-mean"]
        assert [f"param-summary/{name}" for name in names] == summaries()
        sess.run(tf.global_variables_initializer())
        got = values_of(sess.run(tf.get_collection(tf.GraphKeys.SUMMARIES)[0]))
        assert {"param-summary/conv0/W-rms": pytest.approx(np.sqrt(12.5), rel=1e-6)} == got

    def test_nothing_in_other_towers(self):
        """Towers other than the first training tower have no summaries."""
        tf.get_variable("W", shape=[2])
        with TrainTowerContext("tower1", index=1, total=2):
            add_param_summary(("W", ["mean"]), collections=["mine"])
        assert [] == tf.get_collection("mine")


class TestCreate:
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_image(self, sess, channels):
        """TensorFlow decodes the same pixels in RGB order, without OpenCV."""
        images = np.random.RandomState(0).uniform(0, 256, size=[1, 5, 7, channels])
        (value,) = create_image_summary("im", images).value
        assert ("im", 5, 7, channels) == (
            value.tag,
            value.image.height,
            value.image.width,
            value.image.colorspace,
        )
        decoded = sess.run(tf.image.decode_png(tf.constant(value.image.encoded_image_string)))
        np.testing.assert_array_equal(images[0].clip(0, 255).astype("uint8"), decoded)

    def test_out_of_range(self, sess):
        """Values outside of [0, 255] are clipped. Several images have numbered tags; a scalar has its tag and value."""
        (value,) = create_image_summary("im", np.array([-5.0, 300.0]).reshape(1, 1, 2, 1)).value
        decoded = sess.run(tf.image.decode_png(tf.constant(value.image.encoded_image_string)))
        assert [0, 255] == decoded.ravel().tolist()
        assert ["im/0", "im/1"] == [v.tag for v in create_image_summary("im", np.zeros([2, 4, 4, 3])).value]
        assert {"a": 1.5} == values_of(create_scalar_summary("a", np.float64(1.5)).SerializeToString())

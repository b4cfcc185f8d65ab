"""Summaries and moving averages: numbers, names, collections, and who gets none."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.summary import (
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
    """Names of the operations in SUMMARIES."""
    return [tensor.op.name for tensor in tf.get_collection(tf.GraphKeys.SUMMARIES)]


def expected_averages(samples, decay) -> list:
    """sum_i decay^(t-i) x_i / sum_i decay^(t-i), for every t."""
    return [
        np.average(samples[:t], weights=decay ** np.arange(t - 1, -1, -1.0))
        for t in range(1, len(samples) + 1)
    ]


def values_of(serialized) -> dict:
    """`{tag: number}` of an evaluated summary."""
    return {v.tag: v.simple_value for v in tf.Summary.FromString(serialized).value}


class TestAddMovingSummary:
    @pytest.mark.parametrize("decay", [0.95, 0.5, 0.0])
    @pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
    def test_average(self, sess, decay, dtype):
        """The closed form, from the first step on."""
        x = tf.placeholder(dtype, [], name="x")
        (average,) = add_moving_summary(x, decay=decay)
        sess.run(tf.local_variables_initializer())
        got = [sess.run(average, {x: sample}) for sample in SAMPLES]
        np.testing.assert_allclose(expected_averages(SAMPLES, decay), got, rtol=1e-6)

    @pytest.mark.parametrize("sample", [1.0, 0.1, 3.3333333, 1e-20, 123456.7])
    def test_first_average_is_the_first_sample(self, sess, sample):
        """To the last bit."""
        x = tf.placeholder(tf.float32, [], name="x")
        (average,) = add_moving_summary(x)
        sess.run(tf.local_variables_initializer())
        assert np.float32(sample) == sess.run(average, {x: sample})

    def test_variable_holds_the_average(self, sess):
        """EMA/x is what the summary shows."""
        x = tf.placeholder(tf.float32, [], name="x")
        (average,) = add_moving_summary(x)
        sess.run(tf.local_variables_initializer())
        for sample in SAMPLES:
            got = sess.run(average, {x: sample})
        assert got == sess.run(tf.local_variables()[0])

    def test_integers(self, sess):
        """Averaged as float32."""
        x = tf.placeholder(tf.int64, [], name="x")
        (average,) = add_moving_summary(x, decay=0.5)
        sess.run(tf.local_variables_initializer())
        assert [1.0, np.float32(5 / 3)] == [sess.run(average, {x: sample}) for sample in (1, 2)]
        assert tf.float32 == average.dtype

    def test_names_and_collections(self):
        """As in tensorpack: scripts, checkpoints and golden observations know them."""
        with tf.name_scope("losses"):
            cost = tf.constant(1.0, name="cost")
            (average,) = add_moving_summary(cost)
        assert "EMA/losses/cost_EMA_apply" == average.op.name
        assert ["EMA/losses/cost", "EMA/losses/cost/biased", "EMA/losses/cost/local_step"] == [
            var.op.name for var in tf.local_variables()
        ]
        assert [] == tf.global_variables()
        assert [] == tf.trainable_variables()
        assert ["losses/cost-summary"] == summaries()
        assert [average] == tf.get_collection(MOVING_SUMMARY_OPS_KEY)

    def test_two_calls_share_one_scope(self):
        """No EMA_1."""
        averages = add_moving_summary(tf.constant(1.0, name="a")) + add_moving_summary(
            tf.constant(1.0, name="b")
        )
        assert ["EMA/a_EMA_apply", "EMA/b_EMA_apply"] == [average.op.name for average in averages]

    def test_names_lose_the_tower(self):
        """`tower0/` is not part of a statistic's name."""
        with TrainTowerContext("tower0", index=0, total=2):
            add_moving_summary(tf.constant(1.0, name="cost"))
        assert "EMA/cost" == tf.local_variables()[0].op.name
        assert ["cost-summary"] == summaries()

    def test_summary_shows_the_updated_average(self, sess):
        """Evaluating it in the step where the average is updated shows the new one."""
        x = tf.placeholder(tf.float32, [], name="x")
        add_moving_summary(x)
        sess.run(tf.local_variables_initializer())
        merged = tf.summary.merge_all()
        assert {"x-summary": 3.0} == values_of(sess.run(merged, {x: 3.0}))

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_takes_variables(self, sess, use_resource):
        """A variable is a scalar too."""
        (average,) = add_moving_summary(tf.get_variable("w", initializer=2.0, use_resource=use_resource))
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        assert 2.0 == sess.run(average)

    def test_collections_can_be_chosen(self):
        """None keeps the update out of every collection; the summary goes where it is told."""
        add_moving_summary(tf.constant(1.0, name="x"), collection=None, summary_collections=["mine"])
        assert ([], [], 1) == (
            tf.get_collection(MOVING_SUMMARY_OPS_KEY),
            summaries(),
            len(tf.get_collection("mine")),
        )

    def test_nothing_in_other_towers(self):
        """Only the first training tower has statistics."""
        with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
            assert [] == add_moving_summary(tf.constant(1.0))
        with PredictTowerContext("predict"):
            assert [] == add_moving_summary(tf.constant(1.0))
        assert [] == tf.local_variables()

    def test_nothing_under_reuse(self, capsys):
        """With a warning; AUTO_REUSE is no reuse."""
        with tf.variable_scope("s", reuse=True):
            assert [] == add_moving_summary(tf.constant(1.0, name="a"))
        assert "where variables are reused" in capsys.readouterr().out
        with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
            assert 1 == len(add_moving_summary(tf.constant(1.0, name="a")))

    def test_nothing_under_xla(self):
        """A list, not None as in tensorpack."""
        xla = getattr(tensorflow, "xla", None) or tf.xla
        seen = []

        def compiled(x):
            seen.append(add_moving_summary(tf.reduce_sum(x)))
            return x * 2

        xla.experimental.compile(compiled, [tf.zeros([2])])
        assert [[]] == seen

    def test_getters_of_the_caller_do_not_see_it(self):
        """Neither those of this call nor, as in tensorpack, those of the first."""
        with remap_variables(lambda var: 1 / 0):
            add_moving_summary(tf.constant(1.0, name="a"))
        with tf.variable_scope("v"):
            add_moving_summary(tf.constant(1.0, name="b"))
        assert ["EMA/a", "EMA/v/b"] == [var.op.name for var in tf.local_variables()[::3]]

    def test_under_local_override(self):
        """Local is local."""
        with override_to_local_variable():
            add_moving_summary(tf.constant(1.0, name="a"))
        assert (3, 0) == (len(tf.local_variables()), len(tf.global_variables()))

    def test_twice(self):
        """A second average of one tensor is a mistake."""
        cost = tf.constant(1.0, name="cost")
        add_moving_summary(cost)
        with pytest.raises(ValueError, match="'cost' has a moving average in this graph already"):
            add_moving_summary(cost)

    def test_refuses_other_shapes(self):
        """Before anything is made."""
        with pytest.raises(ValueError, match=r"takes scalars, but v:0 has shape \(2,\). Use tf.reduce_mean"):
            add_moving_summary(tf.constant(1.0), tf.constant([1.0, 2.0], name="v"))
        assert [] == tf.local_variables()

    def test_refuses_numbers(self):
        """A number is no tensor."""
        with pytest.raises(TypeError, match="add_moving_summary: takes tensors, got float"):
            add_moving_summary(1.0)

    @pytest.mark.parametrize("decay", [1.0, -0.1, 20])
    def test_refuses_other_decays(self, decay):
        """Zero up to one."""
        with pytest.raises(ValueError, match=f"decay is {decay}, wanted 0 <= decay < 1"):
            add_moving_summary(tf.constant(1.0), decay=decay)

    def test_refuses_unknown_arguments(self):
        """A misspelt option is an error."""
        with pytest.raises(TypeError, match="unexpected keyword"):
            add_moving_summary(tf.constant(1.0), decays=0.9)


class TestAddTensorSummary:
    def test_numbers(self, sess):
        """mean, rms and the share of zeros, in the order asked for."""
        values = np.array([[3.0, 0.0], [0.0, 4.0]], dtype="float32")
        add_tensor_summary(tf.constant(values, name="x"), ["mean", "rms", "sparsity"])
        assert ["x-mean", "x-rms", "x-sparsity"] == summaries()
        got = values_of(sess.run(tf.summary.merge_all()))
        assert {"x-mean": 1.75, "x-rms": 2.5, "x-sparsity": 0.5} == got

    def test_scalar_and_histogram(self):
        """Their names end in -summary and -histogram."""
        add_tensor_summary(
            tf.constant(1.0, name="x"), ["scalar", "histogram"], name="y", collections=["mine"]
        )
        assert ["y-summary", "y-histogram"] == [tensor.op.name for tensor in tf.get_collection("mine")]

    @pytest.mark.parametrize(("main_tower_only", "expected"), [(True, []), (False, ["tower1/x-mean"])])
    def test_main_tower(self, main_tower_only, expected):
        """By default later towers make none."""
        with TrainTowerContext("tower1", index=1, total=2):
            add_tensor_summary(
                tf.zeros([2]), ["mean"], name="x", main_tower_only=main_tower_only, collections=["mine"]
            )
        assert expected == [tensor.op.name for tensor in tf.get_collection("mine")]

    def test_unknown_type(self):
        """Named, with those there are."""
        with pytest.raises(
            ValueError, match=r"unknown types \['max'\], wanted some of \['histogram', 'mean'"
        ):
            add_tensor_summary(tf.zeros([2]), ["mean", "max"])


class TestAddActivationSummary:
    def test_names(self):
        """Under one scope, three kinds."""
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
        """With a warning."""
        add_activation_summary(tf.zeros([2], name="v"))
        assert [] == summaries()
        assert "v:0 is a scalar or a vector" in capsys.readouterr().out


class TestAddParamSummary:
    @pytest.mark.parametrize("use_resource", [True, False])
    def test_whole_names_match(self, sess, use_resource):
        """`.*/W` means conv0/W, and not conv0/W2 nor conv0/b."""
        for name in ("conv0/W", "conv0/W2", "conv0/b"):
            tf.get_variable(name, initializer=[3.0, 4.0], use_resource=use_resource)
        add_param_summary((".*/W", ["rms", "histogram"]), ("conv0/b", ["mean"]))
        assert [
            "param-summary/conv0/W-rms",
            "param-summary/conv0/W-histogram",
            "param-summary/conv0/b-mean",
        ] == summaries()
        sess.run(tf.global_variables_initializer())
        got = values_of(sess.run(tf.get_collection(tf.GraphKeys.SUMMARIES)[0]))
        assert [("param-summary/conv0/W-rms", np.float32(np.sqrt(12.5)))] == [
            (k, np.float32(v)) for k, v in got.items()
        ]

    def test_a_second_call_shares_the_scope(self):
        """No param-summary_1."""
        for name in ("a", "b"):
            tf.get_variable(name, shape=[2])
            add_param_summary((name, ["mean"]))
        assert ["param-summary/a-mean", "param-summary/b-mean"] == summaries()

    def test_nothing_in_other_towers(self):
        """The first tower has told it all."""
        tf.get_variable("W", shape=[2])
        with TrainTowerContext("tower1", index=1, total=2):
            add_param_summary(("W", ["mean"]), collections=["mine"])
        assert [] == tf.get_collection("mine")

    def test_refuses_other_arguments(self):
        """A list of pairs is not a pair."""
        with pytest.raises(TypeError, match=r"takes a pair|takes pairs"):
            add_param_summary([".*/W"])


class TestCreate:
    def test_scalar(self):
        """Tag and value."""
        (value,) = create_scalar_summary("a", np.float64(1.5)).value
        assert ("a", 1.5) == (value.tag, value.simple_value)

    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_image(self, sess, channels):
        """TensorFlow reads the pixels back, in RGB order, without OpenCV."""
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

    def test_several_images(self):
        """Numbered."""
        assert ["im/0", "im/1"] == [v.tag for v in create_image_summary("im", np.zeros([2, 4, 4, 3])).value]

    def test_out_of_range(self, sess):
        """Clipped, where tensorpack wraps around."""
        (value,) = create_image_summary("im", np.array([-5.0, 300.0]).reshape(1, 1, 2, 1)).value
        decoded = sess.run(tf.image.decode_png(tf.constant(value.image.encoded_image_string)))
        assert [0, 255] == decoded.ravel().tolist()

    def test_refuses_other_shapes(self):
        """One image has a batch axis, too."""
        with pytest.raises(ValueError, match=r"'im': takes images \[N, H, W, C\], got shape \(4, 4, 3\)"):
            create_image_summary("im", np.zeros([4, 4, 3]))

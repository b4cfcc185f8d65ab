"""BatchNorm(sync_statistics=...): several batches are normalized as one."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder
from tensorpack_lite.models import BatchNorm, BNReLU, Conv2D
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TowerContext, TrainTowerContext
from tensorpack_lite.tfutils.tower.tower_ranks import TowerRanks
from tensorpack_lite.utils.argtools import log_once
from tensorpack_lite.utils.gpu import get_num_gpu

BATCH, CHANNELS = 4, 5
SHAPES = {"vectors": [CHANNELS], "images": [3, 2, CHANNELS]}
UPDATES = tf.GraphKeys.UPDATE_OPS


def batches(kind, total, seed=0):
    """Return one batch per tower, with different means and variances."""
    rng = np.random.RandomState(seed)
    return [rng.normal(k - 1, k + 0.5, [BATCH, *SHAPES[kind]]) for k in range(total)]


def in_towers(build, total, own=False):
    """Call `build(index)` in each of several towers on the CPU, and return the results."""
    indices = iter(range(total))
    use_vs = [own and index > 0 for index in range(total)]
    devices = ["/cpu:0"] * total
    return DataParallelBuilder.build_on_towers(range(total), lambda: build(next(indices)), devices, use_vs)


def initialize(sess):
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])


def trained():
    """Return the trainable variables of the first tower by name."""
    return {var.op.name: var for var in tf.trainable_variables() if not var.op.name.startswith("tower")}


def make_cost(outputs, weights):
    """Return a cost whose gradient through the normalization is not 0."""
    return tf.reduce_mean(tf.sin(tf.cast(outputs, tf.float32)) * weights)


@pytest.mark.parametrize("own", [False, True], ids=["shared", "copies"])
@pytest.mark.parametrize("total", [2, 3])
@pytest.mark.parametrize(
    ("kind", "data_format"),
    [("vectors", "channels_last"), ("images", "channels_last"), ("images", "channels_first")],
)
class TestEqualsTheJointBatch:
    """K towers and BatchNorm with all data have equal outputs, gradients and averages."""

    @pytest.mark.matrix
    def test_float32(self, sess, kind, data_format, total, own):
        """Float32 results agree to 1e-5."""
        self.check(sess, kind, data_format, total, own, tf.float32, 1e-5)

    @pytest.mark.slow
    def test_float16(self, sess, kind, data_format, total, own):
        """Float16 results agree to its precision; statistics and averages are float32."""
        self.check(sess, kind, data_format, total, own, tf.float16, 4e-3)

    def check(self, sess, kind, data_format, total, own, dtype, tolerance):
        data = [self.ordered(batch, data_format) for batch in batches(kind, total)]
        weights = [self.ordered(batch, data_format) for batch in batches(kind, total, seed=1)]
        inputs = [tf.constant(batch, dtype) for batch in data]

        def build(index):
            out = BatchNorm("bn", inputs[index], data_format=data_format, sync_statistics="nccl")
            cost = make_cost(out, weights[index])
            return out, tf.gradients(cost, [inputs[index], out.variables.gamma, out.variables.beta])

        towers = in_towers(build, total, own)
        joint_input = tf.constant(np.concatenate(data), dtype)
        with tf.variable_scope("joint"), TowerContext("joint", is_training=False):
            joint = BatchNorm("bn", joint_input, data_format=data_format, training=True)
        joint_cost = make_cost(joint, np.concatenate(weights))
        wanted = tf.gradients(joint_cost, [joint_input, joint.variables.gamma, joint.variables.beta])
        initialize(sess)
        outputs = np.concatenate(sess.run([out for out, _ in towers]))
        expected = sess.run(joint)
        assert expected.dtype == outputs.dtype
        np.testing.assert_allclose(expected, outputs, atol=tolerance * np.abs(expected).max())
        grads = [sess.run(of_tower) for _, of_tower in towers]
        of_inputs, of_gamma, of_beta = sess.run(wanted)
        got = np.concatenate([each[0] for each in grads]) / total
        np.testing.assert_allclose(of_inputs, got, atol=tolerance * np.abs(of_inputs).max())
        for nth, expected in ((1, of_gamma), (2, of_beta)):
            mean = np.mean([each[nth] for each in grads], 0)
            np.testing.assert_allclose(expected, mean, atol=tolerance * np.abs(expected).max())

    @staticmethod
    def ordered(batch, data_format):
        channels_first = data_format == "channels_first"
        return (np.moveaxis(batch, 3, 1) if channels_first else batch).astype("float32")


class TestAverages:
    """The averages follow the moments of the joint batch, with the biased variance."""

    def build(self, kind="images", **kwargs):
        self.data = batches(kind, 2)
        return in_towers(
            lambda index: BatchNorm("bn", tf.constant(self.data[index], tf.float32), sync_statistics="nccl", **kwargs),
            2,
        )

    def averages(self, sess):
        named = {var.op.name: var for var in tf.global_variables()}
        return sess.run([named["bn/mean/EMA"], named["bn/variance/EMA"]])

    @pytest.mark.parametrize("kind", ["vectors", "images"])
    @pytest.mark.parametrize("ema_update", ["default", "collection", "internal", "skip"])
    def test_updated_at_once(self, sess, kind, ema_update):
        """Each run of the first tower updates the averages once, whatever ema_update is, unless it is 'skip'."""
        towers = self.build(kind, ema_update=ema_update)
        assert [] == tf.get_collection(UPDATES)
        initialize(sess)
        sess.run(towers)
        rate = 0.0 if ema_update == "skip" else 0.1
        joint = np.concatenate(self.data).reshape(-1, CHANNELS)
        mean, variance = self.averages(sess)
        np.testing.assert_allclose(rate * joint.mean(0), mean, rtol=1e-5)
        np.testing.assert_allclose(1 - rate + rate * joint.var(0), variance, rtol=1e-5)

    def test_inference(self, sess):
        """training=False uses the averages. Inference towers are independent of each other, also with training=True."""
        towers = self.build(training=False)
        data = batches("images", 1)[0]
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), PredictTowerContext("predict"):
            by_averages = BatchNorm("bn", tf.constant(data, tf.float32), sync_statistics="nccl")
            by_batch = BatchNorm("bn", tf.constant(data, tf.float32), sync_statistics="horovod", training=True)
        initialize(sess)
        np.testing.assert_allclose(self.data[0] / np.sqrt(1 + 1e-5), sess.run(towers[0]), rtol=1e-4)
        np.testing.assert_allclose(data / np.sqrt(1 + 1e-5), sess.run(by_averages), rtol=1e-4)
        np.testing.assert_allclose(np.zeros(CHANNELS), sess.run(by_batch).mean((0, 1, 2)), atol=1e-5)


class TestNumbers:
    @pytest.mark.slow
    @pytest.mark.parametrize(("mean", "dtype", "tolerance"), [(3000, "float32", 5e-3), (-1, "float64", 1e-9)])
    def test_large_means(self, sess, mean, dtype, tolerance):
        """A variance that is small compared with the squared mean keeps its digits. Float64 is normalized in float64."""
        data = np.random.RandomState(0).normal(mean, 0.5, [2, 64, CHANNELS]).astype(dtype)
        towers = in_towers(lambda index: BatchNorm("bn", tf.constant(data[index]), sync_statistics="nccl"), 2)
        initialize(sess)
        joint = data.reshape(-1, CHANNELS).astype("float64")
        expected = (joint - joint.mean(0)) / np.sqrt(joint.var(0) + 1e-5)
        np.testing.assert_allclose(expected, np.concatenate(sess.run(towers)), atol=tolerance)

    def test_constant_inputs(self, sess):
        """The variance of constant inputs is not negative."""
        towers = in_towers(lambda index: BatchNorm("bn", tf.fill([4, 3], 0.1), sync_statistics="nccl", momentum=0.0), 2)
        initialize(sess)
        np.testing.assert_allclose(np.zeros([2, 4, 3]), sess.run(towers), atol=1e-4)
        variance = next(var for var in tf.global_variables() if "variance" in var.op.name)
        assert (sess.run(variance) >= 0).all()


class TestModels:
    """Models with the layer: networks, adversaries, gradient penalties."""

    DATA = batches("images", 2)

    def compare(self, sess, build, num_results):
        """Build in two towers and with the joint batch. Mean results over towers equal those of the joint batch."""
        halves = [tf.constant(batch, tf.float32) for batch in self.DATA]
        towers = in_towers(lambda index: build(halves[index]), 2)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), TrainTowerContext("joint"):
            joint = build(tf.concat(halves, 0))
        initialize(sess)
        one, two, all_at_once = sess.run([towers[0], towers[1], joint])
        assert num_results == len(all_at_once)
        for first, second, expected in zip(one, two, all_at_once):
            np.testing.assert_allclose(expected, (first + second) / 2, atol=2e-5 * np.abs(expected).max() + 1e-6)

    @pytest.mark.slow
    def test_a_deep_network(self, sess):
        """In a network of several layers, every variable has the gradient of the joint batch."""

        def build(x):
            with argscope(BatchNorm, sync_statistics="nccl"):
                x = Conv2D("conv0", x, 6, 3, activation=BNReLU)
                x = BatchNorm("bn", x)
                x = BNReLU("last", Conv2D("conv1", x, 3, 3))
            cost = tf.reduce_mean(x**2 * tf.constant([1.0, 2.0, 3.0]))
            return tf.gradients(cost, tf.trainable_variables())

        self.compare(sess, build, num_results=10)


class TestErrors:
    def test_xla(self):
        """In an XLA cluster, the layer raises a RuntimeError."""
        x = tf.constant(batches("vectors", 1)[0], tf.float32)

        def build(index):
            return tf.xla.experimental.compile(lambda: BatchNorm("bn", x, sync_statistics="nccl"))

        with pytest.raises(RuntimeError, match="BatchNorm 'bn': a mean over .* XLA cluster"):
            in_towers(build, 2)

    @pytest.mark.parametrize("method", ["horovod", "Collective"])
    def test_no_ranks(self, method):
        """Modes for several processes raise a RuntimeError in a trainer with one process, and outside of a training tower."""
        x = tf.constant(batches("vectors", 1)[0], tf.float32)
        with pytest.raises(RuntimeError, match="BatchNorm 'bn': a mean over processes needs a distributed trainer"):
            in_towers(lambda index: BatchNorm("bn", x, sync_statistics=method), 2)
        with pytest.raises(RuntimeError, match="works only in training towers"):
            BatchNorm("alone", x, training=True, sync_statistics=method)

    @pytest.mark.parametrize("names", [("a", "b"), ("a", None), (None, "a")])
    def test_other_layers_in_other_towers(self, names):
        """Towers with different layers raise an error that names the layer and the tower."""
        x = tf.constant(batches("vectors", 1)[0], tf.float32)

        def build(index):
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                return names[index] and BatchNorm(names[index], x, sync_statistics="nccl", scale=False, center=False)

        with pytest.raises(RuntimeError, match=r"BatchNorm '[ab]': (tower 1 builds it|missing in tower [01])"):
            in_towers(build, 2)


class TestNoEffect:
    """sync_statistics with one tower or one process."""

    @pytest.mark.parametrize(
        ("method", "alone"),
        [("nccl", "one tower"), ("horovod", "one process"), ("Collective", "one process")],
    )
    def test_equals_no_sync_statistics(self, sess, method, alone, log_lines):
        """The layer uses the fused kernel and UPDATE_OPS, as without sync_statistics, and a warning says so once."""
        log_once.cache_clear()
        data = batches("images", 1)[0]
        with TrainTowerContext("", ranks=TowerRanks(1, tf.identity)):
            BatchNorm("other", tf.zeros([2, 3]), sync_statistics=method, ema_update="skip")
            out = BatchNorm("bn", tf.constant(data, tf.float32), sync_statistics=method)
        assert 2 == len(tf.get_collection(UPDATES))
        initialize(sess)
        np.testing.assert_allclose(np.zeros(CHANNELS), sess.run(out).mean((0, 1, 2)), atol=1e-5)
        assert "Bitcast" not in {op.type for op in tf.get_default_graph().get_operations()}
        warning = f"BatchNorm: sync_statistics='{method}' has no effect with {alone}."
        assert [warning] == [line for line in log_lines if "sync_statistics" in line]


def check_devices(devices):
    """Towers on different devices, without soft placement, have outputs and gradients of the joint batch."""
    data = np.concatenate(batches("images", len(devices))).astype("float32")
    inputs = tf.split(tf.constant(data), len(devices))
    indices = iter(range(len(devices)))

    def build():
        x = inputs[next(indices)]
        out = BatchNorm("bn", x, sync_statistics="nccl", ema_update="skip")
        return out, tf.gradients(tf.reduce_mean(tf.sin(out)), x)[0]

    towers = DataParallelBuilder.build_on_towers(range(len(devices)), build, devices)
    with tf.variable_scope("joint"), tf.device(devices[0]):
        x = tf.constant(data)
        joint = BatchNorm("bn", x, training=True, ema_update="skip")
        wanted = joint, len(devices) * tf.gradients(tf.reduce_mean(tf.sin(joint)), x)[0]
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(tf.global_variables_initializer())
        for got, expected in zip(zip(*session.run(towers)), session.run(wanted)):
            np.testing.assert_allclose(expected, np.concatenate(got), atol=1e-5 * np.abs(expected).max())
    assert len(devices) == len({out.device for out, _ in towers})


def test_different_devices():
    """The mean over towers crosses devices, forward and backward."""
    check_devices(["/cpu:0", "/cpu:1"])


@pytest.mark.gpu
def test_gpus():
    """The mean over towers crosses GPUs."""
    if get_num_gpu() < 2:
        pytest.skip("needs 2 GPUs")
    check_devices(["/gpu:0", "/gpu:1"])


def test_over_ranks(sess):
    """The engine receives the mean and mean square of each channel in one tensor, and its means are used."""
    data, other = batches("vectors", 2)
    seen = []

    def mean(tensor):
        seen.append(tensor)
        theirs = np.concatenate([other.mean(0), (other**2).mean(0)])
        return tf.stop_gradient((tensor + tf.constant(theirs, tensor.dtype)) / 2)

    with TrainTowerContext("", ranks=TowerRanks(2, mean)):
        out = BatchNorm("bn", tf.constant(data, tf.float32), sync_statistics="collective")
    initialize(sess)
    joint = np.concatenate([data, other])
    np.testing.assert_allclose(
        (data - joint.mean(0)) / np.sqrt(joint.var(0) + 1e-5), sess.run(out), rtol=1e-4, atol=1e-5
    )
    assert [([2 * CHANNELS], tf.float64)] == [(tensor.shape.as_list(), tensor.dtype) for tensor in seen]

"""Tests of models/batch_norm.py and normalization.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, BatchRenorm
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TowerContext, TrainTowerContext

MODEL, UPDATES = tf.GraphKeys.MODEL_VARIABLES, tf.GraphKeys.UPDATE_OPS
RNG = np.random.RandomState(0)
PIXELS = RNG.uniform(-1, 3, [4, 3, 2, 5]).astype(np.float32)
VECTORS = RNG.uniform(-1, 3, [6, 5]).astype(np.float32)


def training():
    return TowerContext("", is_training=True)


@pytest.fixture(autouse=True)
def same_numbers():
    """Seed the random numbers of each test."""
    RNG.seed(0)


def inference():
    return TowerContext("", is_training=False)


def averages(sess, layer="bn"):
    """Run UPDATE_OPS, and return both averages."""
    sess.run(tf.get_collection(UPDATES))
    return read(sess, layer)


def read(sess, layer="bn"):
    named = {v.op.name: v for v in tf.global_variables()}
    return sess.run([named[f"{layer}/mean/EMA"], named[f"{layer}/variance/EMA"]])


def initialize(sess):
    sess.run(tf.global_variables_initializer())


class TestMovingAverages:
    def check(self, sess, expected, data, momentum=0.9, **kwargs):
        with training():
            BatchNorm("bn", tf.constant(data), **kwargs)
        initialize(sess)
        mean, variance = expected
        np.testing.assert_array_equal([np.zeros(5), np.ones(5)], read(sess))
        got = averages(sess)
        np.testing.assert_allclose((1 - momentum) * mean, got[0], rtol=1e-5)
        np.testing.assert_allclose(momentum + (1 - momentum) * variance, got[1], rtol=1e-5)
        got = averages(sess)
        np.testing.assert_allclose((1 - momentum**2) * mean, got[0], rtol=1e-5)
        np.testing.assert_allclose(momentum**2 + (1 - momentum**2) * variance, got[1], rtol=1e-5)

    @pytest.mark.parametrize("momentum", [0.9, 0.5])
    def test_vectors_store_the_biased_variance(self, sess, momentum):
        """For vectors, the average follows the biased variance, as in TensorFlow's layer. `decay` is `momentum`."""
        options = {} if momentum == 0.9 else {"decay": momentum}
        self.check(sess, (VECTORS.mean(0), VECTORS.var(0)), VECTORS, momentum, **options)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_images_store_the_unbiased_variance(self, sess, dtype):
        """For images, also without a fused kernel, the average follows the variance times n / (n - 1), n = 24."""
        flat = PIXELS.astype(dtype).reshape(-1, 5)
        self.check(sess, (flat.mean(0), flat.var(0) * 24 / 23), PIXELS.astype(dtype))

    def test_float16_keeps_float32_averages(self, sess):
        """Averages of float16 inputs are float32, so large values do not overflow."""
        data = (VECTORS * 300).astype(np.float16)
        wide = data.astype(np.float32)
        with training():
            out = BatchNorm("bn", tf.constant(data))
        initialize(sess)
        mean, variance = averages(sess)
        assert np.float32 == mean.dtype == variance.dtype
        assert np.float16 == sess.run(out).dtype
        np.testing.assert_allclose(0.1 * wide.mean(0), mean, rtol=1e-4)
        np.testing.assert_allclose(0.9 + 0.1 * wide.var(0), variance, rtol=1e-4)

    def test_ghost_follows_the_first_group(self, sess):
        """With virtual_batch_size, the averages follow the first group's biased variance, without UPDATE_OPS."""
        with training():
            out = BatchNorm("bn", tf.constant(PIXELS), virtual_batch_size=2)
        assert [] == tf.get_collection(UPDATES)
        initialize(sess)
        sess.run(out)
        first = PIXELS[:2].reshape(-1, 5)
        mean, variance = read(sess)
        np.testing.assert_allclose(0.1 * first.mean(0), mean, rtol=1e-5)
        np.testing.assert_allclose(0.9 + 0.1 * first.var(0), variance, rtol=1e-5)


class TestWhoUpdates:
    def test_the_main_training_tower(self):
        """The main training tower adds two updates, whose names start like those of TensorFlow's layer."""
        with TrainTowerContext("tower0", index=0, total=2):
            BatchNorm("bn", tf.constant(PIXELS))
        names = [op.name for op in tf.get_collection(UPDATES)]
        assert 2 == len(names)
        assert all(name.startswith("tower0/bn/AssignMovingAvg") for name in names)
        assert ["bn/mean/EMA", "bn/variance/EMA"] == [v.op.name for v in tf.get_collection(MODEL)]

    @pytest.mark.parametrize("vs_name", ["", "tower1"])
    def test_other_training_towers_do_not(self, vs_name):
        """Other training towers add nothing to UPDATE_OPS and MODEL_VARIABLES."""
        with TrainTowerContext("tower0", index=0, total=2):
            BatchNorm("bn", tf.constant(PIXELS))
        with tf.variable_scope(tf.get_variable_scope(), reuse=not vs_name):
            with TrainTowerContext("tower1", vs_name=vs_name, index=1, total=2):
                BatchNorm("bn", tf.constant(PIXELS))
        assert 2 == len(tf.get_collection(UPDATES))
        assert 2 == len(tf.get_collection(MODEL))

    @pytest.mark.parametrize(
        ("context", "options"),
        [
            (inference, {}),
            (inference, {"ema_update": "collection"}),
            (inference, {"ema_update": "internal"}),
            (inference, {"virtual_batch_size": 3}),
            (inference, {"ema_update": "skip", "training": True}),
            (training, {"ema_update": "skip"}),
        ],
    )
    def test_who_does_not(self, context, options, sess):
        """Inference, whatever ema_update is, and ema_update='skip' do not change the averages. The former ignores the batch."""
        with context():
            out = BatchNorm("bn", tf.constant(PIXELS), **options)
        assert [] == tf.get_collection(UPDATES)
        assert (context is inference) == (tf.get_collection(MODEL) == [])
        initialize(sess)
        by_averages = np.allclose(PIXELS / np.sqrt(1 + 1e-5), sess.run(out), rtol=1e-5)
        assert by_averages == (options.get("ema_update") != "skip")
        np.testing.assert_array_equal([np.zeros(5), np.ones(5)], read(sess))

    @pytest.mark.parametrize("context", [training, inference])
    def test_internal_updates_with_the_output(self, sess, context):
        """With ema_update='internal', also in an inference tower, computing the output updates the averages, without UPDATE_OPS."""
        tf.add_to_collection(UPDATES, "mine")
        with context():
            out = BatchNorm("bn", tf.constant(VECTORS), training=True, ema_update="internal")
            assert ["mine"] == tf.get_collection(UPDATES)
            BatchNorm("other", tf.constant(VECTORS), training=True)
        assert tf.get_collection(UPDATES)[:1] == ["mine"]
        assert len(tf.get_collection(UPDATES)) == (3 if context is training else 1)
        initialize(sess)
        expected = (VECTORS - VECTORS.mean(0)) / np.sqrt(VECTORS.var(0) + 1e-5)
        np.testing.assert_allclose(expected, sess.run(out), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(0.1 * VECTORS.mean(0), read(sess)[0], rtol=1e-5)

    def test_frozen(self, sess):
        """training=False in a training tower uses the averages, and trains only gamma and beta; images have a gradient."""
        x = tf.constant(PIXELS)
        with training():
            out = BatchNorm("bn", tf.constant(VECTORS), training=False)
            of_images = BatchNorm("images", x, training=False)
        assert [] == tf.get_collection(UPDATES)
        assert ["bn/mean/EMA", "bn/variance/EMA"] == [v.op.name for v in tf.get_collection(MODEL)][:2]
        initialize(sess)
        np.testing.assert_allclose(VECTORS / np.sqrt(1 + 1e-5), sess.run(out), rtol=1e-5)
        gamma, beta = sess.run(tf.gradients(out, [out.variables.gamma, out.variables.beta]))
        np.testing.assert_allclose(VECTORS.sum(0), gamma, rtol=1e-4)
        np.testing.assert_allclose(np.full(5, 6.0), beta)
        np.testing.assert_allclose(np.ones(PIXELS.shape), sess.run(tf.gradients(of_images, x))[0], rtol=1e-4)


class TestSharing:
    def test_a_second_call_updates_too(self, sess):
        """A discriminator that is called twice has one set of variables and two pairs of updates."""

        @auto_reuse_variable_scope
        def discriminator(x):
            return BatchNorm("bn", x)

        with training():
            discriminator(tf.constant(VECTORS))
            discriminator(tf.constant(VECTORS + 1))
        assert 4 == len(tf.global_variables())
        assert 4 == len(tf.get_collection(UPDATES))
        assert 2 == len(tf.get_collection(MODEL))

    @pytest.mark.parametrize("use_resource", [True, False])
    def test_outside_of_a_tower(self, use_resource, sess):
        """With training=True, the layer works outside of a tower, with resource and reference variables."""
        with tf.variable_scope("", use_resource=use_resource):
            BatchNorm("bn", tf.constant(PIXELS), training=True)
        initialize(sess)
        flat = PIXELS.reshape(-1, 5)
        np.testing.assert_allclose(0.1 * flat.mean(0), averages(sess)[0], rtol=1e-5)

    def test_inference_after_training(self, sess):
        """An inference tower uses the averages that training updated."""
        with training():
            BatchNorm("bn", tf.constant(VECTORS), momentum=0.0)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), PredictTowerContext("predict"):
            out = BatchNorm("bn", tf.constant(VECTORS))
        initialize(sess)
        averages(sess)
        expected = (VECTORS - VECTORS.mean(0)) / np.sqrt(VECTORS.var(0) + 1e-5)
        np.testing.assert_allclose(expected, sess.run(out), rtol=1e-4, atol=1e-5)


class TestArguments:
    def test_gamma_initializer_none_means_ones(self, sess):
        """gamma_initializer=None means ones in BatchNorm and BatchRenorm. The averages have two names."""
        with training():
            out = BatchNorm("bn", tf.constant(PIXELS), gamma_initializer=None)
            renorm = BatchRenorm("brn", tf.constant(PIXELS), rmax=1.0, dmax=0.0, gamma_initializer=None)
        initialize(sess)
        gammas = sess.run([out.variables.gamma, renorm.variables.gamma])
        np.testing.assert_array_equal(np.ones([2, 5]), gammas)
        assert out.variables.mean is out.variables.moving_mean
        assert out.variables.variance is out.variables.moving_variance

    def test_axis_wins_over_data_format(self, sess):
        """`axis` takes precedence over data_format: axis 1 of images is the channel axis of NCHW."""
        with training():
            out = BatchNorm("bn", tf.constant(PIXELS), axis=1)
        assert [3] == out.variables.gamma.shape.as_list()
        initialize(sess)
        expected = (PIXELS - PIXELS.mean((0, 2, 3), keepdims=True)) / PIXELS.std((0, 2, 3), keepdims=True)
        np.testing.assert_allclose(expected, sess.run(out), rtol=1e-3, atol=1e-4)

    def test_the_batch_may_be_one_vector(self, sess):
        """A single vector has variance 0 and does not cause a division by 0."""
        with training():
            BatchNorm("bn", tf.constant(PIXELS[:1, :1, :1].astype(np.float64)))
        initialize(sess)
        np.testing.assert_allclose(np.full(5, 0.9), averages(sess)[1])


class TestBatchRenorm:
    def build(self, sess, rmax, dmax, data=VECTORS):
        with training():
            out = BatchRenorm("bn", tf.constant(data), rmax=rmax, dmax=dmax)
        initialize(sess)
        return out

    def test_no_correction_is_batch_norm(self, sess):
        """With rmax = 1 and dmax = 0, BatchRenorm equals BatchNorm."""
        expected = (VECTORS - VECTORS.mean(0)) / np.sqrt(VECTORS.var(0) + 1e-5)
        np.testing.assert_allclose(expected, sess.run(self.build(sess, 1.0, 0.0)), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("as_limit", [float, tf.constant])
    def test_full_correction_is_inference(self, sess, as_limit):
        """With large limits, which can be tensors, training normalizes by the averages, which are 0 and 1 at first."""
        limit = as_limit(100.0)
        np.testing.assert_allclose(VECTORS, sess.run(self.build(sess, limit, limit)), rtol=1e-4, atol=1e-5)

    def test_its_updates(self, sess):
        """Averages for inference have momentum 0.9, those for r and d 0.99; the variance follows the deviation."""
        self.build(sess, 2.0, 1.0)
        sess.run(tf.get_collection(UPDATES))
        values = {v.op.name[3:]: sess.run(v) for v in tf.get_collection(MODEL)}
        stddev = np.sqrt(VECTORS.var(0) + 1e-5)
        np.testing.assert_allclose(0.1 * VECTORS.mean(0), values["moving_mean"], rtol=1e-5)
        np.testing.assert_allclose(0.9 + 0.1 * stddev, values["moving_stddev"], rtol=1e-5)
        np.testing.assert_allclose((0.9 + 0.1 * stddev) ** 2 - 1e-5, values["moving_variance"], rtol=1e-5)
        np.testing.assert_allclose(0.01 * VECTORS.mean(0), values["renorm_mean"], rtol=1e-4)
        np.testing.assert_allclose(0.99 + 0.01 * stddev, values["renorm_stddev"], rtol=1e-5)

    def test_only_the_main_tower_updates(self):
        """Only the main training tower adds updates."""
        with TrainTowerContext("tower0", index=0, total=2):
            BatchRenorm("bn", tf.constant(PIXELS), rmax=2.0, dmax=1.0)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            with TrainTowerContext("tower1", index=1, total=2):
                BatchRenorm("bn", tf.constant(PIXELS), rmax=2.0, dmax=1.0)
        assert 4 == len(tf.get_collection(UPDATES))

    def test_the_gradient_ignores_the_correction(self, sess):
        """Gradients do not pass r and d: the sum over the batch has gradient 0, as in BatchNorm."""
        x = tf.constant(VECTORS)
        with training():
            out = BatchRenorm("bn", x, rmax=100.0, dmax=100.0)
        initialize(sess)
        np.testing.assert_allclose(np.zeros(VECTORS.shape), sess.run(tf.gradients(out, x))[0], atol=1e-5)

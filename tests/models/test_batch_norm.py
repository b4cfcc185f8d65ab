"""Tests of models/batch_norm.py and normalization.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, BatchRenorm, BNReLU, Conv2D
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

    def test_images_store_the_unbiased_variance(self, sess):
        """For images, the average follows the variance times n / (n - 1), n = 24, with momentum 0.9."""
        flat = PIXELS.reshape(-1, 5)
        self.check(sess, (flat.mean(0), flat.var(0) * 24 / 23), PIXELS)

    def test_vectors_store_the_biased_variance(self, sess):
        """For vectors, the average follows the biased variance, as in TensorFlow's layer."""
        self.check(sess, (VECTORS.mean(0), VECTORS.var(0)), VECTORS)

    def test_momentum(self, sess):
        """`decay` is the old name of `momentum`."""
        self.check(sess, (VECTORS.mean(0), VECTORS.var(0)), VECTORS, momentum=0.5, decay=0.5)

    def test_float64_images_are_like_float32(self, sess):
        """The variance of float64 images, which have no fused kernel, is unbiased, too."""
        flat = PIXELS.astype(np.float64).reshape(-1, 5)
        self.check(sess, (flat.mean(0), flat.var(0) * 24 / 23), PIXELS.astype(np.float64))

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

    def test_ghost_in_inference_is_plain(self, sess):
        """Inference ignores virtual_batch_size, so the batch size need not be a multiple."""
        with inference():
            out = BatchNorm("bn", tf.constant(VECTORS), virtual_batch_size=4)
        initialize(sess)
        np.testing.assert_allclose(VECTORS / np.sqrt(1 + 1e-5), sess.run(out), rtol=1e-5)


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

    @pytest.mark.parametrize("ema_update", ["default", "collection", "internal"])
    def test_inference_does_not(self, ema_update, sess):
        """Inference does not change the averages, whatever ema_update is."""
        with inference():
            out = BatchNorm("bn", tf.constant(PIXELS), ema_update=ema_update)
        assert [] == tf.get_collection(UPDATES)
        assert [] == tf.get_collection(MODEL)
        initialize(sess)
        sess.run(out)
        np.testing.assert_array_equal([np.zeros(5), np.ones(5)], read(sess))

    def test_internal_updates_with_the_output(self, sess):
        """With ema_update='internal', computing the output updates the averages, without UPDATE_OPS."""
        tf.add_to_collection(UPDATES, "mine")
        with training():
            out = BatchNorm("bn", tf.constant(VECTORS), ema_update="internal")
        assert ["mine"] == tf.get_collection(UPDATES)
        initialize(sess)
        sess.run(out)
        np.testing.assert_allclose(0.1 * VECTORS.mean(0), read(sess)[0], rtol=1e-5)

    def test_training_in_a_predict_tower_with_internal(self, sess):
        """training=True in an inference tower uses the batch and updates the averages."""
        with inference():
            out = BatchNorm("bn", tf.constant(VECTORS), training=True, ema_update="internal")
        initialize(sess)
        expected = (VECTORS - VECTORS.mean(0)) / np.sqrt(VECTORS.var(0) + 1e-5)
        np.testing.assert_allclose(expected, sess.run(out), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(0.1 * VECTORS.mean(0), read(sess)[0], rtol=1e-5)

    def test_collection_in_a_predict_tower_is_taken_back(self):
        """An inference tower restores UPDATE_OPS when it is left."""
        with inference():
            BatchNorm("bn", tf.constant(VECTORS), training=True)
            assert 2 == len(tf.get_collection(UPDATES))
        assert [] == tf.get_collection(UPDATES)

    @pytest.mark.parametrize("context", [training, inference])
    def test_skip_never_updates(self, context, sess):
        """With ema_update='skip', the batch is used and the averages stay the same."""
        with context():
            out = BatchNorm("bn", tf.constant(VECTORS), training=True, ema_update="skip")
        assert [] == tf.get_collection(UPDATES)
        initialize(sess)
        sess.run(out)
        np.testing.assert_array_equal([np.zeros(5), np.ones(5)], read(sess))

    def test_frozen(self, sess):
        """training=False in a training tower uses the averages, and trains only gamma and beta."""
        with training():
            out = BatchNorm("bn", tf.constant(VECTORS), training=False)
        assert [] == tf.get_collection(UPDATES)
        assert ["bn/mean/EMA", "bn/variance/EMA"] == [v.op.name for v in tf.get_collection(MODEL)]
        initialize(sess)
        np.testing.assert_allclose(VECTORS / np.sqrt(1 + 1e-5), sess.run(out), rtol=1e-5)
        gamma, beta = sess.run(tf.gradients(out, [out.variables.gamma, out.variables.beta]))
        np.testing.assert_allclose(VECTORS.sum(0), gamma, rtol=1e-4)
        np.testing.assert_allclose(np.full(5, 6.0), beta)

    def test_frozen_images_have_a_gradient(self, sess):
        """The fused kernel in inference mode has a gradient."""
        x = tf.constant(PIXELS)
        with training():
            out = BatchNorm("bn", x, training=False)
        initialize(sess)
        np.testing.assert_allclose(np.ones(PIXELS.shape), sess.run(tf.gradients(out, x))[0], rtol=1e-4)


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
        """gamma_initializer=None means ones in BatchNorm and BatchRenorm."""
        with training():
            out = BatchNorm("bn", tf.constant(PIXELS), gamma_initializer=None)
            renorm = BatchRenorm("brn", tf.constant(PIXELS), rmax=1.0, dmax=0.0, gamma_initializer=None)
        initialize(sess)
        gammas = sess.run([out.variables.gamma, renorm.variables.gamma])
        np.testing.assert_array_equal(np.ones([2, 5]), gammas)

    def test_axis_wins_over_data_format(self, sess):
        """`axis` takes precedence over data_format: axis 1 of images is the channel axis of NCHW."""
        with training():
            out = BatchNorm("bn", tf.constant(PIXELS), axis=1)
        assert [3] == out.variables.gamma.shape.as_list()
        initialize(sess)
        expected = (PIXELS - PIXELS.mean((0, 2, 3), keepdims=True)) / PIXELS.std((0, 2, 3), keepdims=True)
        np.testing.assert_allclose(expected, sess.run(out), rtol=1e-3, atol=1e-4)

    def test_both_names_of_the_averages(self):
        """`.variables.mean` and `.variables.moving_mean` are the same variable."""
        with training():
            variables = BatchNorm("bn", tf.constant(PIXELS)).variables
        assert variables.mean is variables.moving_mean
        assert variables.variance is variables.moving_variance

    def test_the_batch_may_be_one_vector(self, sess):
        """A single vector has variance 0 and does not cause a division by 0."""
        with training():
            BatchNorm("bn", tf.constant(PIXELS[:1, :1, :1].astype(np.float64)))
        initialize(sess)
        np.testing.assert_allclose(np.full(5, 0.9), averages(sess)[1])


class TestErrors:
    def fails(self, message, x=PIXELS, error=ValueError, **kwargs):
        with training(), pytest.raises(error, match=message):
            BatchNorm("bn", x if isinstance(x, tf.Tensor) else tf.constant(x), **kwargs)

    def test_rank(self):
        """Inputs of rank 3 raise a ValueError."""
        self.fails(
            r"BatchNorm 'bn': the input has the wrong rank \(expected 2: \[N, C\] or 4: .*, got 3: \[4, 3, 2\]",
            PIXELS[..., 0],
        )

    def test_unknown_channels(self):
        """An unknown number of channels raises a ValueError, because variables would have no shape."""
        x = tf.placeholder(tf.float32, [None, None])
        self.fails(r"BatchNorm 'bn': the number of channels is unknown \(axis 1 of \[None, None\]\)", x)

    def test_axis(self):
        """`axis` is 1 or 3 for images, and 1 for vectors."""
        self.fails(
            r"BatchNorm 'bn': axis for an input of rank 4 is unknown \(expected 1 or 3, got 2\)", axis=2
        )
        self.fails(r"axis for an input of rank 2 is unknown \(expected 1, got 3\)", VECTORS, axis=3)

    def test_ema_update(self):
        """An unknown ema_update raises a ValueError that lists the valid ones."""
        self.fails("ema_update is unknown .*'internal' or 'skip', got 'never'", ema_update="never")

    def test_training_must_not_be_a_tensor(self):
        """A tensor as `training` raises a TypeError."""
        self.fails("training has the wrong type .* got a tensor", error=TypeError, training=tf.constant(True))

    def test_no_tower(self):
        """Without a tower and without `training`, the layer raises a RuntimeError."""
        with pytest.raises(
            RuntimeError, match=r"BatchNorm 'bn': called outside of a tower, .* Or pass training="
        ):
            BatchNorm("bn", tf.constant(PIXELS))

    def test_virtual_batch_size(self):
        """virtual_batch_size must divide the batch size, and be a positive integer."""
        self.fails(
            r"virtual_batch_size is invalid \(expected a divisor of the batch size 4, got 3\)",
            virtual_batch_size=3,
        )
        self.fails("virtual_batch_size is invalid .*positive integer, got 0", virtual_batch_size=0)

    def test_sync_statistics(self):
        """An unknown sync_statistics is refused, as is its combination with virtual_batch_size."""
        self.fails(
            "sync_statistics is unknown .*'nccl', 'horovod' or 'collective', got 'mpi'", sync_statistics="mpi"
        )
        self.fails("cannot be combined", sync_statistics="NCCL", virtual_batch_size=2)


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

    def test_full_correction_is_inference(self, sess):
        """With large limits, training normalizes by the averages, which are 0 and 1 at first."""
        np.testing.assert_allclose(VECTORS, sess.run(self.build(sess, 100.0, 100.0)), rtol=1e-4, atol=1e-5)

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

    def test_limits_may_be_tensors(self, sess):
        """rmax and dmax can be tensors."""
        np.testing.assert_allclose(
            VECTORS, sess.run(self.build(sess, tf.constant(100.0), tf.constant(100.0))), rtol=1e-4, atol=1e-5
        )


def test_bnrelu_in_a_convolution():
    """BNReLU as activation names its operations as scripts expect them."""
    with training():
        out = Conv2D("conv0", tf.constant(PIXELS), 2, 3, activation=BNReLU)
    assert "conv0/Relu" == out.op.inputs[0].op.name
    assert "conv0/output" == out.op.name

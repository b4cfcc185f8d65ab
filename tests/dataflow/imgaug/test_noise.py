"""Tests of noise."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import GaussianNoise, JpegNoise, SaltPepperNoise
from tensorpack_lite.utils.utils import fix_rng_seed


@pytest.fixture(autouse=True)
def seed():
    """Make the random numbers of these tests reproducible."""
    fix_rng_seed(0)


@pytest.mark.usefixtures("cv2")
class TestJpeg:
    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32])
    def test_a_smooth_image_hardly_changes(self, channels, dtype):
        """A smooth image hardly changes, and keeps its shape and type, also with one channel."""
        ramp = np.broadcast_to(np.linspace(0, 255, 32).reshape((1, 32) + (1,) * len(channels)), (16, 32) + channels)
        image = ramp.astype(dtype)
        result = JpegNoise((90, 100)).augment(image)
        assert (image.shape, image.dtype) == (result.shape, result.dtype)
        np.testing.assert_allclose(image, result, atol=6)

    def test_lower_quality_loses_more(self, img):
        """A lower quality changes a noisy image more."""
        lost = [
            np.abs(JpegNoise((quality, quality + 1)).augment(img).astype(int) - img).mean() for quality in (5, 50, 98)
        ]
        assert lost[0] > lost[1] > lost[2]

    def test_upper_bound_is_exclusive(self, img):
        """The quality is drawn with low <= quality < high."""
        drawn = {JpegNoise((40, 43))._get_augment_params(img) for _ in range(50)}
        assert {40, 41, 42} == drawn


class TestGaussian:
    def test_mean_and_deviation(self):
        """The noise has mean 0 and standard deviation sigma, within four standard errors, independently for each value."""
        noise = GaussianNoise(5).augment(np.full((100, 100, 3), 100, np.float32)) - 100
        assert 0 == pytest.approx(noise.mean(), abs=4 * 5 / np.sqrt(noise.size))
        assert 5 == pytest.approx(noise.std(), abs=4 * 5 / np.sqrt(2 * noise.size))
        assert 0 == pytest.approx(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1], abs=0.05)

    def test_clip(self):
        """uint8 images are always clipped, floating types unless clip=False."""
        white = np.full((20, 20), 255, np.float32)
        assert 255 == GaussianNoise(5).augment(white).max()
        assert GaussianNoise(5, clip=False).augment(white).max() > 255
        assert 230 < GaussianNoise(5, clip=False).augment(white.astype(np.uint8)).min()


class TestSaltPepper:
    def test_fractions(self):
        """The fractions of white and black values match the probabilities, within four standard deviations."""
        image = np.full((100, 100, 3), 100, np.uint8)
        noisy = SaltPepperNoise(0.1, 0.2).augment(image)
        for value, expected in ((255, 0.1), (0, 0.2), (100, 0.7)):
            deviation = np.sqrt(expected * (1 - expected) / image.size)
            assert expected == pytest.approx((noisy == value).mean(), abs=4 * deviation)

    def test_threshold(self, drawing):
        """Values are black below black_prob and white from 1 - white_prob on; the input does not change."""
        image = np.full((1, 4), 100, np.float32)
        numbers = np.array([[0.04, 0.05, 0.94, 0.95]])
        np.testing.assert_array_equal([[0, 100, 100, 255]], drawing(SaltPepperNoise(), numbers).augment(image))
        np.testing.assert_array_equal([[100] * 4], image)

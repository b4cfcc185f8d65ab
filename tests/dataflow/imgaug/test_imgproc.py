"""Tests of photometric augmentors, compared with NumPy."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import (
    Brightness,
    BrightnessScale,
    Clip,
    Contrast,
    Gamma,
    GaussianBlur,
    Hue,
    Lighting,
    MeanVarianceNormalize,
    MinMaxNormalize,
    Saturation,
)
from tensorpack_lite.utils.utils import fix_rng_seed

WEIGHTS = np.array([0.299, 0.587, 0.114])


def as_bytes(values):
    """Clip to [0, 255] and drop fractions."""
    return np.clip(values, 0, 255).astype(np.uint8)


def params_of(augmentor, img, count=300):
    """Return the parameters that an augmentor draws."""
    fix_rng_seed(0)
    augmentor.reset_state()
    return np.array([augmentor._get_augment_params(img) for _ in range(count)])


class TestBrightness:
    def test_bytes(self, drawing, img):
        """The number is added to uint8 images, and the result is clipped."""
        np.testing.assert_array_equal(as_bytes(img + 50.5), drawing(Brightness(60), 50.5).augment(img))

    def test_floats(self, drawing, img):
        """Floating types are clipped unless clip=False, and keep their type."""
        for dtype in (np.float32, np.float64):
            values = img.astype(dtype)
            assert dtype == drawing(Brightness(60), 50.5).augment(values).dtype
            np.testing.assert_allclose(np.clip(values + 50.5, 0, 255), drawing(Brightness(60), 50.5).augment(values))
            np.testing.assert_allclose(values + 50.5, drawing(Brightness(60, clip=False), 50.5).augment(values))

    def test_bytes_never_wrap(self, drawing):
        """uint8 images are clipped also with clip=False."""
        bright = drawing(Brightness(60, clip=False), 50.0).augment(np.uint8([[0, 250]]))
        np.testing.assert_array_equal([[50, 255]], bright)

    def test_other_integers(self, drawing):
        """Other integer types are clipped to their limits."""
        values = np.int16([[0, 32760]])
        np.testing.assert_array_equal([[50, 32767]], drawing(Brightness(60, clip=False), 50.0).augment(values))

    def test_drawn(self, img):
        """The number is in [-delta, delta]."""
        drawn = params_of(Brightness(10), img)
        assert -10 <= drawn.min() < -9
        assert 9 < drawn.max() <= 10


class TestBrightnessScale:
    def test_multiplied(self, drawing, img):
        """Pixels are multiplied by the factor and clipped."""
        np.testing.assert_array_equal(as_bytes(img * 1.5), drawing(BrightnessScale((1, 2)), 1.5).augment(img))
        bright = drawing(BrightnessScale((1, 2), clip=False), 1.5).augment(img.astype(np.float32))
        np.testing.assert_allclose(img * 1.5, bright, rtol=1e-6)


class TestContrast:
    def test_means_of_channels(self, drawing, img):
        """By default each channel uses its own mean."""
        expected = img * 0.5 + img.mean(axis=(0, 1)) * 0.5
        result = drawing(Contrast((0.5, 1.5)), 0.5).augment(img.astype(np.float32))
        np.testing.assert_allclose(expected, result, rtol=1e-5)
        np.testing.assert_allclose(expected, drawing(Contrast((0.5, 1.5)), 0.5).augment(img), atol=1)

    @pytest.mark.parametrize(("rgb", "weights"), [(True, WEIGHTS), (False, WEIGHTS[::-1])])
    def test_mean_of_the_gray_image(self, drawing, img, rgb, weights):
        """With `rgb`, all channels use the mean of the grayscale image."""
        expected = img * 0.5 + (img @ weights).mean() * 0.5
        result = drawing(Contrast((0.5, 1.5), rgb=rgb), 0.5).augment(img.astype(np.float32))
        np.testing.assert_allclose(expected, result, rtol=1e-5)

    def test_gray_images(self, drawing, img):
        """Grayscale images use their mean for every value of `rgb`."""
        gray = img[:, :, :1].astype(np.float32)
        expected = gray * 2 - gray.mean()
        result = drawing(Contrast((0.5, 2), rgb=True, clip=False), 2.0).augment(gray)
        np.testing.assert_allclose(expected, result, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("cv2")
class TestSaturation:
    @pytest.mark.parametrize(("rgb", "weights"), [(True, WEIGHTS), (False, WEIGHTS[::-1])])
    def test_between_color_and_gray(self, drawing, img, rgb, weights):
        """A factor of 1.25 computes 1.25 color - 0.25 gray."""
        expected = 1.25 * img - 0.25 * (img @ weights)[:, :, np.newaxis]
        result = drawing(Saturation(0.4, rgb=rgb, clip=False), 0.25).augment(img.astype(np.float32))
        np.testing.assert_allclose(expected, result, atol=0.01)
        np.testing.assert_allclose(as_bytes(expected), drawing(Saturation(0.4, rgb=rgb), 0.25).augment(img), atol=1.01)

    def test_rgb_is_the_default(self, drawing, img):
        """The default channel order is RGB, unlike in Grayscale."""
        expected = drawing(Saturation(0.4, rgb=True), 0.25).augment(img)
        np.testing.assert_array_equal(expected, drawing(Saturation(0.4), 0.25).augment(img))


@pytest.mark.usefixtures("cv2")
class TestHue:
    def turned(self, img, turn):
        """Compute the expected image with Python's colorsys, whose hue is 0 to 1."""
        flat = img.reshape(-1, 3) / 255.0
        hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in flat]
        rgb = [colorsys.hsv_to_rgb((h + turn) % 1, s, v) for h, s, v in hsv]
        return (np.array(rgb) * 255).reshape(img.shape)

    @pytest.mark.parametrize("delta", [0, 30, 150, -20])
    @pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 0.05), (np.uint8, 6)])
    def test_rotation(self, drawing, img, delta, dtype, tolerance):
        """The hue is rotated, on uint8 to the precision of one byte; 180 is a full rotation."""
        result = drawing(Hue(), float(delta)).augment(img.astype(dtype))
        np.testing.assert_allclose(self.turned(img, delta / 180), result, atol=tolerance)

    def test_order_of_channels(self, drawing, img):
        """The default channel order is RGB; `rgb=False` is BGR."""
        values = img.astype(np.float32)
        rgb = drawing(Hue(), 40.0).augment(values)
        bgr = drawing(Hue(rgb=False), 40.0).augment(values[:, :, ::-1].copy())
        np.testing.assert_allclose(rgb, bgr[:, :, ::-1], atol=1e-3)

    def test_drawn(self, img):
        """By default the number is from the whole circle."""
        drawn = params_of(Hue(), img)
        assert 0 <= drawn.min() < 5
        assert 175 < drawn.max() <= 180


@pytest.mark.usefixtures("cv2")
@pytest.mark.parametrize("kind", [Hue, Saturation])
def test_gray_images_stay(kind, img):
    """Hue and Saturation do not change grayscale images."""
    for gray in (img[:, :, 0], img[:, :, :1]):
        np.testing.assert_array_equal(gray, kind().augment(gray))


class TestLighting:
    EIGVAL, EIGVEC = [0.2, 0.3, 0.5], np.arange(9).reshape(3, 3)

    def test_one_color_is_added(self, drawing, img):
        """The added color is eigvec @ (eigval * noise)."""
        noise = np.array([1.0, -2.0, 3.0])
        result = drawing(Lighting(0.1, self.EIGVAL, self.EIGVEC, clip=False), noise).augment(img.astype(np.float32))
        np.testing.assert_allclose(img + self.EIGVEC @ (self.EIGVAL * noise), result, rtol=1e-5)
        np.testing.assert_array_equal(
            as_bytes(img + (self.EIGVEC @ (self.EIGVAL * noise)).astype(np.float32)),
            drawing(Lighting(0.1, self.EIGVAL, self.EIGVEC), noise).augment(img),
        )

    def test_deviation(self, img):
        """The standard deviation of the noise is `std`, within four standard errors."""
        drawn = params_of(Lighting(2.0, np.ones(3), np.eye(3)), img, 2000)
        np.testing.assert_allclose(2.0, drawn.std(axis=0), atol=4 * 2 / np.sqrt(4000))


class TestGamma:
    @pytest.mark.parametrize("gamma", [-0.5, 0.0, 0.25])
    def test_power(self, drawing, gamma):
        """The result is 255 * (x / 255) ** (1 / (1 + g)), rounded; 0 changes nothing."""
        every = np.arange(256, dtype=np.uint8).reshape(16, 16)
        expected = 255 * (every / 255) ** (1 / (1 + gamma))
        result = drawing(Gamma(), gamma).augment(every)
        np.testing.assert_allclose(expected, result, atol=0.501)
        if gamma == 0:
            np.testing.assert_array_equal(every, result)

    def test_floats(self, drawing):
        """Floating types use the same table: values out of range are clipped, and the type does not change."""
        result = drawing(Gamma(), 0.25).augment(np.float32([[-5.0, 100.2, 300.0]]))
        assert np.float32 == result.dtype
        np.testing.assert_array_equal([[0, round(255 * (100 / 255) ** 0.8), 255]], result)


@pytest.mark.usefixtures("cv2")
class TestGaussianBlur:
    def blurred(self, img, kernel_y, kernel_x):
        """Compute the expected blur as two sums over neighbors; the border is reflected without its last pixel."""
        pad = len(kernel_y) // 2, len(kernel_x) // 2
        padded = np.pad(img.astype(float), ((pad[0],) * 2, (pad[1],) * 2) + ((0, 0),) * (img.ndim - 2), mode="reflect")
        h, w = img.shape[:2]
        rows = sum(weight * padded[k : k + h] for k, weight in enumerate(kernel_y))
        return sum(weight * rows[:, k : k + w] for k, weight in enumerate(kernel_x))

    def gaussian(self, size, sigma):
        """Return the kernel with the sum 1."""
        kernel = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * sigma**2))
        return kernel / kernel.sum()

    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32])
    def test_symmetric(self, drawing, img, channels, dtype):
        """Without sigma, the kernel is the binomial one: 1 4 6 4 1."""
        image = img[:, :, 0] if channels == () else img[:, :, : channels[0]]
        image = image.astype(dtype)
        result = drawing(GaussianBlur(), np.array([2, 1]), np.zeros(2, np.float32)).augment(image)
        kernel = np.array([1, 4, 6, 4, 1]) / 16
        assert (image.shape, image.dtype) == (result.shape, result.dtype)
        np.testing.assert_allclose(self.blurred(image, kernel, kernel), result, atol=1 if dtype == np.uint8 else 1e-3)

    def test_not_symmetric(self, drawing, img):
        """The first size is the width."""
        augmentor = GaussianBlur((0, 4), (0.5, 2), symmetric=False)
        result = drawing(augmentor, np.array([1, 3]), np.array([0.7, 1.5])).augment(img.astype(np.float32))
        expected = self.blurred(img, self.gaussian(7, 1.5), self.gaussian(3, 0.7))
        np.testing.assert_allclose(expected, result, atol=1e-2)

    def test_drawn(self, img):
        """Sizes are odd, and equal in both directions."""
        sizes = np.array([GaussianBlur()._get_augment_params(img)[0] for _ in range(100)])
        assert {1, 3, 5} == set(sizes[:, 0])
        np.testing.assert_array_equal(sizes[:, 0], sizes[:, 1])


class TestClip:
    def test_clip(self):
        """The type does not change, also if the bounds are beyond its limits."""
        assert [[10, 200]] == Clip(10, 200).augment(np.uint8([[0, 255]])).tolist()
        assert [[0, 255]] == Clip(-10, 300).augment(np.uint8([[0, 255]])).tolist()
        assert [[0.5, 1.5]] == Clip(0.5, 1.5).augment(np.float64([[0, 2]])).tolist()


BOTH_AXES = pytest.mark.parametrize(("all_channel", "axis"), [(True, None), (False, (0, 1))])


class TestNormalize:
    @BOTH_AXES
    def test_mean_and_variance(self, img, all_channel, axis):
        """The result has mean 0 and variance 1, in float32."""
        result = MeanVarianceNormalize(all_channel).augment(img)
        assert np.float32 == result.dtype
        np.testing.assert_allclose(0, result.mean(axis=axis), atol=1e-5)
        np.testing.assert_allclose(1, result.std(axis=axis), rtol=1e-5)

    def test_minimum_deviation(self):
        """The standard deviation is at least 1 / sqrt(h w c), so nearly constant images are not amplified."""
        np.testing.assert_array_equal(0, MeanVarianceNormalize().augment(np.full((3, 3, 3), 7, np.uint8)))
        values = np.float32([[1.0, 1.0], [1.0, 1.0004]])
        np.testing.assert_allclose((values - values.mean()) * 2, MeanVarianceNormalize().augment(values), atol=1e-6)

    @BOTH_AXES
    def test_minimum_and_maximum(self, img, all_channel, axis):
        """The minimum becomes `min`, the maximum becomes `max`, and values in between are linear."""
        values = img.astype(float)
        low, high = values.min(axis=axis), values.max(axis=axis)
        result = MinMaxNormalize(-1, 3, all_channel).augment(img)
        assert np.float32 == result.dtype
        np.testing.assert_allclose(4 * (values - low) / (high - low) - 1, result, atol=1e-5)

    def test_constant(self):
        """A constant image or channel becomes `min` instead of NaN."""
        np.testing.assert_array_equal(5, MinMaxNormalize(5, 9).augment(np.full((3, 3), 7, np.uint8)))
        image = np.dstack([np.full((2, 2), 7), [[0, 1], [2, 3]]]).astype(np.float32)
        result = MinMaxNormalize(0, 3, all_channel=False).augment(image)
        np.testing.assert_array_equal(0, result[:, :, 0])
        np.testing.assert_allclose(image[:, :, 1], result[:, :, 1])

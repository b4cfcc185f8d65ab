"""Tests of the conversions of color spaces and types."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import ColorSpace, Grayscale, ToFloat32, ToUint8

WEIGHTS = np.array([0.299, 0.587, 0.114])


class TestColorSpace:
    def test_swap(self, cv2, img):
        """Converting BGR to RGB reverses the channels."""
        np.testing.assert_array_equal(img[:, :, ::-1], ColorSpace(cv2.COLOR_BGR2RGB).augment(img))

    def test_dimensions(self, cv2, img):
        """An image with one channel is `[h, w, 1]`, or `[h, w]` with keepdims=False."""
        assert (8, 10, 1) == ColorSpace(cv2.COLOR_BGR2GRAY).augment(img).shape
        assert (8, 10) == ColorSpace(cv2.COLOR_BGR2GRAY, keepdims=False).augment(img).shape


@pytest.mark.usefixtures("cv2")
class TestGrayscale:
    @pytest.mark.parametrize(("rgb", "weights"), [(True, WEIGHTS), (False, WEIGHTS[::-1])])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int32])
    def test_weights(self, img, rgb, weights, dtype):
        """Gray is 0.299 red + 0.587 green + 0.114 blue."""
        gray = Grayscale(rgb=rgb).augment(img.astype(dtype))
        assert ((8, 10, 1), dtype) == (gray.shape, gray.dtype)
        np.testing.assert_allclose((img @ weights)[:, :, np.newaxis], gray, atol=1 if dtype != np.float32 else 0.01)

    def test_bgr_is_the_default(self, img):
        """The default channel order is BGR, as `cv2.imread` returns it."""
        np.testing.assert_array_equal(Grayscale(rgb=False).augment(img), Grayscale().augment(img))

    def test_shapes(self, img):
        """The result is `[h, w]` without keepdims, and has three equal channels with keepshape."""
        gray = Grayscale().augment(img)
        np.testing.assert_array_equal(gray[:, :, 0], Grayscale(keepdims=False).augment(img))
        np.testing.assert_array_equal(np.repeat(gray, 3, axis=2), Grayscale(keepshape=True).augment(img))

    def test_gray_images(self, img):
        """Grayscale images keep their values and get the requested shape."""
        flat = img[:, :, 0]
        for gray in (flat, flat[:, :, np.newaxis]):
            np.testing.assert_array_equal(flat[:, :, np.newaxis], Grayscale().augment(gray))
            np.testing.assert_array_equal(flat, Grayscale(keepdims=False).augment(gray))
            assert (8, 10, 3) == Grayscale(keepshape=True).augment(gray).shape


class TestTypes:
    def test_to_uint8(self):
        """ToUint8 clips to [0, 255] and drops fractions."""
        result = ToUint8().augment(np.float32([[-3.0, 0.9, 254.9, 300.0]]))
        assert np.uint8 == result.dtype
        np.testing.assert_array_equal([[0, 0, 254, 255]], result)
        np.testing.assert_array_equal([[0, 255]], ToUint8().augment(np.int32([[-3, 1000]])))

    def test_to_float32(self):
        """ToFloat32 does not change the values."""
        result = ToFloat32().augment(np.uint8([[0, 255]]))
        assert np.float32 == result.dtype
        np.testing.assert_array_equal([[0, 255]], result)

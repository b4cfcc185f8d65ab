"""Tests of transforms of images and coordinates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug.transform import (
    CropTransform,
    FlipTransform,
    LazyTransform,
    NoOpTransform,
    PhotometricTransform,
    ResizeTransform,
    Transform,
    TransformFactory,
    TransformList,
    TransposeTransform,
    WarpAffineTransform,
)

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)
POINTS = np.float32([[0, 0], [6, 4], [1.5, 3]])


def plus_one(value):
    """Return value + 1; a function that can be pickled."""
    return value + 1


class TestTransform:
    def test_undefined_method(self):
        """Calling a method that is not defined raises NotImplementedError, which names it; accessing it does not."""
        tfm = Transform()
        segmentation = tfm.apply_segmentation
        with pytest.raises(NotImplementedError, match="Transform: does not define apply_segmentation"):
            segmentation(IMAGE)
        with pytest.raises(NotImplementedError, match="Transform: does not define apply_image"):
            tfm.apply_image(IMAGE)
        with pytest.raises(NotImplementedError, match="Transform: does not define apply_coords"):
            tfm.apply_coords(POINTS)

    def test_other_attributes(self):
        """`hasattr` is False for names that do not start with `apply_`."""
        for tfm in (
            Transform(),
            NoOpTransform(),
            TransformList([]),
            TransformFactory(),
            LazyTransform(plus_one),
        ):
            assert not hasattr(tfm, "color")

    def test_new_method_in_a_list(self):
        """`apply_anything` of a list calls `apply_anything` of each transform."""
        tfm = TransformList([TransformFactory(apply_number=plus_one), NoOpTransform()])
        assert 3 == (tfm + tfm).apply_number(1)

    def test_repr(self):
        """The repr is the call that builds the transform, without default arguments."""
        assert "imgaug.CropTransform(y0=1, x0=2, h=3, w=4)" == repr(CropTransform(1, 2, 3, 4))
        assert "imgaug.FlipTransform(h=3, w=4)" == repr(FlipTransform(3, 4))
        assert "imgaug.TransformList([imgaug.NoOpTransform()])" == repr(TransformList([NoOpTransform()]))
        assert "imgaug.PhotometricTransform(invert)" == repr(PhotometricTransform(plus_one, "invert"))
        assert "imgaug.TransformFactory(apply_image)" == repr(TransformFactory(apply_image=plus_one))

    def test_init_keeps_arguments(self):
        """`self._init(locals())` stores the arguments of a custom transform."""

        class Plus(Transform):
            def __init__(self, number, _hidden=2):
                self._init(locals())

            def apply_image(self, img):
                return img + self.number

        tfm = Plus(3)
        assert 4 == tfm.apply_image(1)
        assert not hasattr(tfm, "_hidden")
        assert not hasattr(tfm, "self")


class TestNoOp:
    def test_returns_its_input(self):
        """NoOpTransform returns the same object from every method."""
        tfm = NoOpTransform()
        assert IMAGE is tfm.apply_image(IMAGE)
        assert POINTS is tfm.apply_coords(POINTS)
        assert POINTS is tfm.apply_what_ever(POINTS)


class TestFactory:
    def test_functions(self):
        """Each function is available under its name; other methods raise NotImplementedError."""
        tfm = pickle.loads(pickle.dumps(TransformFactory(apply_image=plus_one, apply_mask=plus_one)))
        assert (2, 3) == (tfm.apply_image(1), tfm.apply_mask(2))
        with pytest.raises(NotImplementedError, match="TransformFactory: does not define apply_coords"):
            tfm.apply_coords(1)


class TestList:
    def test_order(self):
        """Transforms apply in order, to images and to coordinates."""
        tfm = TransformList([CropTransform(1, 2, 2, 3), FlipTransform(2, 3)])
        np.testing.assert_array_equal(IMAGE[1:3, 2:5][:, ::-1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[5, -1], [-1, 3], [3.5, 2]], tfm.apply_coords(POINTS))

    def test_sums(self):
        """Lists, transforms and TransformLists can be added on either side."""
        a, b, c = NoOpTransform(), CropTransform(0, 0, 1, 1), FlipTransform(1, 1)
        tfm = TransformList([a])
        assert [a, b] == (tfm + b).tfms == (tfm + [b]).tfms == (tfm + TransformList([b])).tfms
        assert [b, a] == ([b] + tfm).tfms
        tfm += [b]
        tfm += c
        assert [a, b, c] == tfm.tfms


class TestLazy:
    def test_the_first_image_draws(self):
        """The first image draws the transform, which then repeats on images and coordinates."""
        drawn = []

        def draw(img):
            drawn.append(img.shape)
            return CropTransform(len(drawn), 0, 1, 1)

        tfm = LazyTransform(draw)
        assert "imgaug.LazyTransform(...)" == repr(tfm)
        np.testing.assert_array_equal(IMAGE[1:2, :1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal(IMAGE[1:2, :1], tfm.apply_image(IMAGE))
        np.testing.assert_array_equal([[0, 3]], tfm.apply_coords(np.float32([[0, 4]])))
        assert [IMAGE.shape] == drawn
        assert "imgaug.LazyTransform(imgaug.CropTransform(y0=1, x0=0, h=1, w=1))" == repr(tfm)

    @pytest.mark.parametrize("kind", ["apply_coords", "apply_segmentation"])
    def test_before_the_first_image(self, kind):
        """Calling another method before `apply_image` raises RuntimeError."""
        tfm = LazyTransform(plus_one)
        with pytest.raises(RuntimeError, match=f"LazyTransform: {kind} was called before apply_image"):
            getattr(tfm, kind)(POINTS)

    def test_other_methods(self):
        """Other methods call the transform that was drawn."""
        tfm = LazyTransform(lambda img: TransformFactory(apply_image=plus_one, apply_number=plus_one))
        tfm.apply_image(IMAGE)
        assert 2 == tfm.apply_number(1)


class TestCrop:
    def test_the_image(self):
        """The crop is a view of the image."""
        cut = CropTransform(1, 2, 3, 2).apply_image(IMAGE)
        np.testing.assert_array_equal([[8, 9], [14, 15], [20, 21]], cut)
        assert np.shares_memory(cut, IMAGE)

    def test_coordinates(self):
        """Coordinates outside the crop are kept, and the input does not change."""
        before = POINTS.copy()
        np.testing.assert_array_equal([[-2, -1], [4, 3], [-0.5, 2]], CropTransform(1, 2, 3, 2).apply_coords(POINTS))
        np.testing.assert_array_equal(before, POINTS)


class TestFlip:
    @pytest.mark.parametrize(
        ("horiz", "image", "points"),
        [(True, IMAGE[:, ::-1], [[6, 0], [0, 4], [4.5, 3]]), (False, IMAGE[::-1], [[0, 4], [6, 0], [1.5, 1]])],
    )
    def test_both_axes(self, horiz, image, points):
        """x becomes w - x, or y becomes h - y."""
        tfm = FlipTransform(4, 6, horiz=horiz)
        np.testing.assert_array_equal(image, tfm.apply_image(IMAGE))
        np.testing.assert_array_equal(points, tfm.apply_coords(POINTS))


class TestTranspose:
    @pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (4, 6, 3)])
    def test_rows_and_columns(self, shape):
        """Rows and columns are swapped; channels are not."""
        image = np.arange(np.prod(shape)).reshape(shape)
        transposed = TransposeTransform().apply_image(image)
        assert (6, 4) + shape[2:] == transposed.shape
        np.testing.assert_array_equal(image[1, 5], transposed[5, 1])
        np.testing.assert_array_equal(POINTS[:, ::-1], TransposeTransform().apply_coords(POINTS))


@pytest.mark.usefixtures("cv2")
class TestResize:
    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int32, bool])
    def test_nearest(self, cv2, channels, dtype):
        """Doubling the size repeats each pixel; channels and type do not change."""
        image = (np.arange(6 * int(np.prod(channels))) % 5).reshape((2, 3) + channels).astype(dtype)
        large = ResizeTransform(2, 3, 4, 6, cv2.INTER_NEAREST).apply_image(image)
        assert (4, 6) + channels == large.shape
        assert dtype == large.dtype
        np.testing.assert_array_equal(image.repeat(2, axis=0).repeat(2, axis=1), large)

    def test_area(self, cv2):
        """Halving the size averages four pixels."""
        small = ResizeTransform(4, 6, 2, 3, cv2.INTER_AREA).apply_image(IMAGE.astype(np.float32))
        np.testing.assert_allclose(IMAGE.reshape(2, 2, 3, 2).mean(axis=(1, 3)), small, rtol=1e-6)

    def test_coordinates(self):
        """Coordinates are scaled, and the input does not change."""
        before = POINTS.copy()
        np.testing.assert_array_equal(
            POINTS * np.float32([0.5, 2]), ResizeTransform(4, 6, 8, 3, 1).apply_coords(POINTS)
        )
        np.testing.assert_array_equal(before, POINTS)

    def test_another_size(self):
        """An image of another size raises ValueError."""
        with pytest.raises(ValueError, match=r"expected an image of 4x6 \(height x width\), got 6x4"):
            ResizeTransform(4, 6, 8, 3, 1).apply_image(IMAGE.T)


@pytest.mark.usefixtures("cv2")
class TestWarpAffine:
    def moved(self, image, **options):
        """Return a transform that shifts one pixel to the right and two down."""
        return WarpAffineTransform(np.float32([[1, 0, 1], [0, 1, 2]]), (6, 4), **options).apply_image(image)

    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int32])
    def test_whole_pixels(self, channels, dtype):
        """Whole pixels are shifted exactly, and the border is black."""
        image = np.arange(24 * int(np.prod(channels))).reshape((4, 6) + channels).astype(dtype)
        moved = self.moved(image)
        assert (image.shape, dtype) == (moved.shape, moved.dtype)
        np.testing.assert_array_equal(image[:2, :5], moved[2:, 1:])
        assert not moved[:2].any()
        assert not moved[:, 0].any()

    def test_color_beyond_the_edge(self):
        """The border color is a number for all channels, or one for each."""
        image = np.zeros((4, 6, 3), np.uint8)
        assert [9, 9, 9] == self.moved(image, borderValue=9)[0, 0].tolist()
        assert [1, 2, 3] == self.moved(image, borderValue=(1, 2, 3))[0, 0].tolist()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_coordinates(self, dtype):
        """Coordinates are multiplied by the matrix and keep their type."""
        tfm = WarpAffineTransform([[0, 2, 1], [3, 0, -1]], (6, 4))
        moved = tfm.apply_coords(POINTS.astype(dtype))
        assert dtype == moved.dtype
        np.testing.assert_array_equal([[1, -1], [9, 17], [7, 3.5]], moved)

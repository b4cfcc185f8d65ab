"""Tests of flip, transpose and resize."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import Flip, RandomResize, Resize, ResizeShortestEdge, Transpose
from tensorpack_lite.dataflow.imgaug.base import ImagePlaceholder
from tensorpack_lite.dataflow.imgaug.transform import NoOpTransform

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)


class TestFlip:
    @pytest.mark.parametrize(("number", "flipped"), [(0.49, True), (0.51, False)])
    def test_left_and_right(self, drawing, number, flipped):
        """The image is flipped if the drawn number is below `prob`."""
        result = drawing(Flip(horiz=True), number).augment(IMAGE)
        np.testing.assert_array_equal(IMAGE[:, ::-1] if flipped else IMAGE, result)

    def test_top_and_bottom(self):
        """With `prob=1` the image is always flipped."""
        np.testing.assert_array_equal(IMAGE[::-1], Flip(vert=True, prob=1).augment(IMAGE))

    def test_never(self):
        """With `prob=0` the image is never flipped."""
        assert all(IMAGE is Flip(vert=True, prob=0).augment(IMAGE) for _ in range(20))


class TestTranspose:
    def test_probability(self, drawing):
        """The image is transposed if the drawn number is below `prob`."""
        np.testing.assert_array_equal(IMAGE.T, drawing(Transpose(), 0.4).augment(IMAGE))
        assert IMAGE is drawing(Transpose(), 0.6).augment(IMAGE)


@pytest.mark.usefixtures("cv2")
class TestResize:
    @pytest.mark.parametrize(("shape", "expected"), [(5, (5, 5)), ((3, 7), (3, 7)), ([3, np.int64(7)], (3, 7))])
    def test_sizes(self, shape, expected):
        """The size is (height, width), or one number for both."""
        assert expected == Resize(shape).augment(IMAGE).shape

    def test_values(self, cv2):
        """The default interpolation is linear."""
        image = np.float32([[0, 10]])
        np.testing.assert_allclose([[0, 2.5, 7.5, 10]], Resize((1, 4)).augment(image), atol=1e-5)
        np.testing.assert_allclose([[0, 0, 10, 10]], Resize((1, 4), cv2.INTER_NEAREST).augment(image))


@pytest.mark.usefixtures("cv2")
class TestResizeShortestEdge:
    @pytest.mark.parametrize(
        ("shape", "expected"),
        [((4, 6), (10, 15)), ((6, 4), (15, 10)), ((5, 5), (10, 10)), ((3, 4), (10, 13))],
    )
    def test_other_side(self, shape, expected):
        """The other side is rounded: 10 * 4 / 3 = 13.3."""
        assert expected == ResizeShortestEdge(10).augment(np.zeros(shape, np.uint8)).shape


@pytest.mark.usefixtures("cv2")
class TestRandomResize:
    def sizes(self, augmentor, shape=(100, 200), count=200):
        """Return (height, width) of many draws, as an array."""
        draws = [augmentor.get_transform(ImagePlaceholder(shape)) for _ in range(count)]
        return np.array([(tfm.new_h, tfm.new_w) for tfm in draws])

    def test_factors(self):
        """Floats are factors, and the aspect ratio changes by less than the threshold."""
        sizes = self.sizes(RandomResize((0.5, 1.5), (0.5, 1.5)))
        assert (50 <= sizes[:, 0]).all()
        assert (sizes[:, 0] <= 150).all()
        assert (np.abs(sizes[:, 1] / sizes[:, 0] / 2 - 1) < 0.15 + 1e-5).all()
        assert np.ptp(sizes[:, 0]) > 50

    def test_yrange_is_xrange_by_default(self):
        """Without `yrange`, the height uses `xrange`."""
        sizes = self.sizes(RandomResize((0.5, 1.5)))
        assert (np.abs(sizes[:, 1] / sizes[:, 0] / 2 - 1) < 0.15 + 1e-5).all()
        assert len(np.unique(sizes[:, 1] / sizes[:, 0])) > 10

    def test_pixels(self):
        """Integers are sizes in pixels."""
        sizes = self.sizes(RandomResize((150, 250), (80, 120), aspect_ratio_thres=10))
        assert (80 <= sizes[:, 0]).all()
        assert (sizes[:, 0] <= 120).all()
        assert (150 <= sizes[:, 1]).all()
        assert (sizes[:, 1] <= 250).all()

    @pytest.mark.parametrize("xrange", [(0.5, 1.5), (100, 300)])
    def test_constant_aspect_ratio(self, xrange):
        """With threshold 0 the aspect ratio does not change, except for rounding."""
        sizes = self.sizes(RandomResize(xrange, aspect_ratio_thres=0))
        assert (np.abs(sizes[:, 1] - 2 * sizes[:, 0]) <= 1).all()
        assert (100 <= sizes[:, 1]).all()
        assert (sizes[:, 1] <= 300).all()

    def test_minimum(self):
        """`minimum` is (width, height)."""
        sizes = self.sizes(RandomResize((0.1, 0.2), minimum=(40, 20), aspect_ratio_thres=0))
        assert (20, 40) == tuple(sizes.min(axis=0))

    def test_at_least_one_pixel(self):
        """The result has at least one pixel."""
        assert (1, 1) == tuple(self.sizes(RandomResize((0.001, 0.002), aspect_ratio_thres=0)).max(axis=0))

    def test_no_size_fits(self):
        """After 50 sizes that change the aspect ratio too much, the image stays unchanged."""
        augmentor = RandomResize((2.0, 2.1), (1.0, 1.1))
        assert isinstance(augmentor.get_transform(IMAGE), NoOpTransform)
        assert IMAGE is augmentor.augment(IMAGE)

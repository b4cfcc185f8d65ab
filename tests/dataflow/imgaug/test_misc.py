"""Flip, transpose and resize."""

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
        """If the number drawn is below `prob`."""
        result = drawing(Flip(horiz=True), number).augment(IMAGE)
        np.testing.assert_array_equal(IMAGE[:, ::-1] if flipped else IMAGE, result)

    def test_top_and_bottom(self):
        """`prob=1` always."""
        np.testing.assert_array_equal(IMAGE[::-1], Flip(vert=True, prob=1).augment(IMAGE))

    def test_never(self):
        """`prob=0`."""
        assert all(IMAGE is Flip(vert=True, prob=0).augment(IMAGE) for _ in range(20))

    @pytest.mark.parametrize("both", [True, False])
    def test_both_or_none(self, both):
        """Exactly one is wanted."""
        with pytest.raises(ValueError, match="Flip: takes exactly one of horiz and vert, got"):
            Flip(horiz=both, vert=both)


class TestTranspose:
    def test_it(self, drawing):
        """If the number drawn is below `prob`."""
        np.testing.assert_array_equal(IMAGE.T, drawing(Transpose(), 0.4).augment(IMAGE))
        assert IMAGE is drawing(Transpose(), 0.6).augment(IMAGE)

    def test_no_probability(self):
        """Refused when built."""
        with pytest.raises(ValueError, match="Transpose: prob takes a probability from 0 to 1, got 2"):
            Transpose(2)


@pytest.mark.usefixtures("cv2")
class TestResize:
    @pytest.mark.parametrize(
        ("shape", "expected"), [(5, (5, 5)), ((3, 7), (3, 7)), ([3, np.int64(7)], (3, 7))]
    )
    def test_sizes(self, shape, expected):
        """(height, width), or one number."""
        assert expected == Resize(shape).augment(IMAGE).shape

    def test_values(self, cv2):
        """Linear by default: between two pixels in the middle."""
        image = np.float32([[0, 10]])
        np.testing.assert_allclose([[0, 2.5, 7.5, 10]], Resize((1, 4)).augment(image), atol=1e-5)
        np.testing.assert_allclose([[0, 0, 10, 10]], Resize((1, 4), cv2.INTER_NEAREST).augment(image))

    def test_repr(self):
        """As in tensorpack."""
        assert "imgaug.Resize(shape=(30, 30))" == repr(Resize(30))

    @pytest.mark.parametrize("shape", [0, (3, -1), (1, 2, 3)])
    def test_no_size(self, shape):
        """Positive, and two of them."""
        with pytest.raises(
            ValueError, match=r"Resize: shape takes a size or \(height, width\) in pixels, got"
        ):
            Resize(shape)

    def test_no_integers(self):
        """Another type."""
        with pytest.raises(
            TypeError, match=r"Resize: shape takes a size or \(height, width\) in pixels, got 2.5"
        ):
            Resize(2.5)


@pytest.mark.usefixtures("cv2")
class TestResizeShortestEdge:
    @pytest.mark.parametrize(
        ("shape", "expected"),
        [((4, 6), (10, 15)), ((6, 4), (15, 10)), ((5, 5), (10, 10)), ((3, 4), (10, 13))],
    )
    def test_the_other_side_follows(self, shape, expected):
        """Rounded: 10 * 4 / 3 = 13.3."""
        assert expected == ResizeShortestEdge(10).augment(np.zeros(shape, np.uint8)).shape


@pytest.mark.usefixtures("cv2")
class TestRandomResize:
    def sizes(self, augmentor, shape=(100, 200), count=200):
        """(height, width) of many draws, as an array."""
        draws = [augmentor.get_transform(ImagePlaceholder(shape)) for _ in range(count)]
        return np.array([(tfm.new_h, tfm.new_w) for tfm in draws])

    def test_factors(self):
        """Floats multiply; the shape changes by less than the threshold."""
        sizes = self.sizes(RandomResize((0.5, 1.5), (0.5, 1.5)))
        assert (50 <= sizes[:, 0]).all()
        assert (sizes[:, 0] <= 150).all()
        assert (np.abs(sizes[:, 1] / sizes[:, 0] / 2 - 1) < 0.15 + 1e-5).all()
        assert np.ptp(sizes[:, 0]) > 50

    def test_yrange_is_xrange_by_default(self):
        """Upstream failed there, unless the threshold was 0."""
        sizes = self.sizes(RandomResize((0.5, 1.5)))
        assert (np.abs(sizes[:, 1] / sizes[:, 0] / 2 - 1) < 0.15 + 1e-5).all()
        assert len(np.unique(sizes[:, 1] / sizes[:, 0])) > 10

    def test_pixels(self):
        """Integers are sizes."""
        sizes = self.sizes(RandomResize((150, 250), (80, 120), aspect_ratio_thres=10))
        assert (80 <= sizes[:, 0]).all()
        assert (sizes[:, 0] <= 120).all()
        assert (150 <= sizes[:, 1]).all()
        assert (sizes[:, 1] <= 250).all()

    @pytest.mark.parametrize("xrange", [(0.5, 1.5), (100, 300)])
    def test_keeping_the_ratio(self, xrange):
        """Threshold 0: height follows width, to the rounding."""
        sizes = self.sizes(RandomResize(xrange, aspect_ratio_thres=0))
        assert (np.abs(sizes[:, 1] - 2 * sizes[:, 0]) <= 1).all()
        assert (100 <= sizes[:, 1]).all()
        assert (sizes[:, 1] <= 300).all()

    def test_minimum(self):
        """(width, height)."""
        sizes = self.sizes(RandomResize((0.1, 0.2), minimum=(40, 20), aspect_ratio_thres=0))
        assert (20, 40) == tuple(sizes.min(axis=0))

    def test_never_nothing(self):
        """At least one pixel."""
        assert (1, 1) == tuple(self.sizes(RandomResize((0.001, 0.002), aspect_ratio_thres=0)).max(axis=0))

    def test_what_cannot_be(self):
        """After fifty sizes that change the shape too much the image stays."""
        augmentor = RandomResize((2.0, 2.1), (1.0, 1.1))
        assert isinstance(augmentor.get_transform(IMAGE), NoOpTransform)
        assert IMAGE is augmentor.augment(IMAGE)

    def test_mixed_ranges(self):
        """Factors and pixels do not go together."""
        with pytest.raises(TypeError, match="RandomResize: xrange and yrange are both factors"):
            RandomResize((0.5, 1.5), (100, 200))

    def test_ratio_with_two_ranges(self):
        """Height cannot follow the width and a range of its own."""
        with pytest.raises(ValueError, match="with aspect_ratio_thres=0 the height follows the width"):
            RandomResize((0.5, 1.5), (0.5, 1.0), aspect_ratio_thres=0)

    @pytest.mark.parametrize(
        ("xrange", "error"), [(3, TypeError), ((1, 2, 3), TypeError), ((2, 1), ValueError)]
    )
    def test_no_range(self, xrange, error):
        """A pair, the lower end first."""
        with pytest.raises(error, match=r"RandomResize: xrange takes \(low, high\)"):
            RandomResize(xrange)

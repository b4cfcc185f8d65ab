"""Tests of crops and cutouts."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import (
    CenterCrop,
    GoogleNetRandomCropAndResize,
    RandomCrop,
    RandomCropRandomShape,
    RandomCutout,
)
from tensorpack_lite.dataflow.imgaug.base import ImagePlaceholder
from tensorpack_lite.dataflow.imgaug.transform import CropTransform, ResizeTransform
from tensorpack_lite.utils.utils import fix_rng_seed

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)


def draws(augmentor, shape, count=300):
    """Draw many transforms."""
    fix_rng_seed(0)
    augmentor.reset_state()
    return [augmentor.get_transform(ImagePlaceholder(shape)) for _ in range(count)]


class TestRandomCrop:
    def test_all_positions_occur(self):
        """All positions occur, including the last row and column."""
        places = {(tfm.y0, tfm.x0) for tfm in draws(RandomCrop((2, 4)), (4, 6))}
        assert {(y, x) for y in range(3) for x in range(3)} == places

    def test_position(self, drawing):
        """The first number drawn is the row, the second is the column."""
        np.testing.assert_array_equal(IMAGE[1:3, 2:6], drawing(RandomCrop((2, 4)), 1, 2).augment(IMAGE))

    def test_as_large_as_the_image(self):
        """A crop as large as the image has one position."""
        np.testing.assert_array_equal(IMAGE, RandomCrop((4, 6)).augment(IMAGE))


class TestCenterCrop:
    @pytest.mark.parametrize(
        ("shape", "expected"), [((2, 2), IMAGE[1:3, 2:4]), ((3, 3), IMAGE[0:3, 1:4]), (4, IMAGE[:, 1:5])]
    )
    def test_the_middle(self, shape, expected):
        """The crop starts at half of the spare pixels, rounded down."""
        np.testing.assert_array_equal(expected, CenterCrop(shape).augment(IMAGE))


class TestRandomCropRandomShape:
    def test_sizes_and_positions(self):
        """All sizes from minimum to maximum and all positions occur."""
        tfms = draws(RandomCropRandomShape(2, 3, wmax=4), (5, 5), 1000)
        assert {2, 3, 4} == {tfm.w for tfm in tfms}
        assert {3, 4, 5} == {tfm.h for tfm in tfms}
        assert {0, 1, 2, 3} == {tfm.x0 for tfm in tfms if tfm.w == 2}
        assert {0, 1, 2} == {tfm.y0 for tfm in tfms if tfm.h == 3}
        assert all(tfm.x0 + tfm.w <= 5 and tfm.y0 + tfm.h <= 5 for tfm in tfms)

    def test_maximum_beyond_the_image(self):
        """The size of the image limits the maximum."""
        assert {4, 5} == {tfm.w for tfm in draws(RandomCropRandomShape(4, 4, 100, 100), (5, 5))}


@pytest.mark.usefixtures("cv2")
class TestGoogleNet:
    def test_area_and_aspect_ratio(self):
        """Area and aspect ratio are within their ranges, and the result is a square."""
        for tfm in draws(GoogleNetRandomCropAndResize((0.2, 0.5), (0.75, 1.333), target_shape=32), (200, 200)):
            crop, resize = tfm.tfms
            assert isinstance(crop, CropTransform)
            assert 0.2 - 0.02 <= crop.h * crop.w / 200**2 <= 0.5 + 0.02
            assert 0.75 - 0.02 <= min(crop.h / crop.w, crop.w / crop.h)
            assert (crop.h, crop.w, 32, 32) == (resize.h, resize.w, resize.new_h, resize.new_w)

    def test_wide_and_high(self):
        """Half of the rectangles are wide and half are high, also if the range contains only wide ones."""
        tfms = draws(GoogleNetRandomCropAndResize((0.2, 0.2), (2, 2)), (100, 100), 400)
        wide = sum(tfm.tfms[0].w > tfm.tfms[0].h for tfm in tfms)
        assert 200 == pytest.approx(wide, abs=40)

    def test_nothing_fits(self):
        """If no rectangle fits, the shorter side is resized and the middle is cropped."""
        (tfm,) = draws(GoogleNetRandomCropAndResize((1, 1), (1, 1), target_shape=8), (20, 40), 1)
        resize, crop = tfm.tfms
        assert isinstance(resize, ResizeTransform)
        assert (8, 16) == (resize.new_h, resize.new_w)
        assert (0, 4, 8, 8) == (crop.y0, crop.x0, crop.h, crop.w)

    def test_one_pixel(self):
        """A rectangle that rounds to zero pixels is not used."""
        assert (4, 4, 3) == GoogleNetRandomCropAndResize(target_shape=4).augment(np.zeros((1, 1, 3), np.uint8)).shape


class TestRandomCutout:
    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    def test_a_number(self, drawing, channels):
        """Only the pixels of the rectangle change, and the input does not."""
        image = np.full((4, 6) + channels, 9, np.uint8)
        covered = drawing(RandomCutout(2, 3, fill=5), 2, 3, 1, 2).augment(image)
        expected = image.copy()
        expected[1:3, 2:5] = 5
        np.testing.assert_array_equal(expected, covered)
        assert (image == 9).all()

    def test_ranges(self):
        """Sides are drawn with low <= side < high, and the rectangle is inside the image."""
        fix_rng_seed(0)
        augmentor, sizes = RandomCutout((1, 3), (2, 5)), set()
        for _ in range(300):
            rows, columns = np.nonzero(augmentor.augment(np.ones((4, 6), np.float32)) == 0)
            height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
            assert height * width == len(rows)
            sizes.add((int(height), int(width)))
        assert {(h, w) for h in (1, 2) for w in (2, 3, 4)} == sizes

    def test_color(self):
        """`fill` can be one value for each channel."""
        covered = RandomCutout(4, 6, fill=(1, 2, 3)).augment(np.zeros((4, 6, 3), np.uint8))
        assert [1, 2, 3] == covered[2, 2].tolist()

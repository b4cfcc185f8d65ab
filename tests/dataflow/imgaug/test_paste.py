"""Tests of pasting images onto backgrounds."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.imgaug import (
    BackgroundFiller,
    CenterPaste,
    ConstantBackgroundFiller,
    RandomPaste,
)

IMAGE = np.arange(1, 7, dtype=np.uint8).reshape(2, 3)


class TestFiller:
    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32])
    def test_constant(self, channels, dtype):
        """The background has the channels and the type of the image, and the requested size."""
        background = ConstantBackgroundFiller(7).fill((4, 5), np.zeros((2, 2) + channels, dtype))
        assert ((4, 5) + channels, dtype) == (background.shape, background.dtype)
        assert (background == 7).all()

    def test_color(self):
        """The color can be one value for each channel."""
        assert [1, 2, 3] == ConstantBackgroundFiller((1, 2, 3)).fill([2, 2], np.zeros((1, 1, 3)))[0, 0].tolist()

    def test_undefined_fill(self):
        """A filler that does not define `_fill` raises NotImplementedError."""
        with pytest.raises(NotImplementedError, match=r"BackgroundFiller: does not define _fill"):
            BackgroundFiller().fill((2, 2), IMAGE)


class TestCenterPaste:
    def test_middle(self):
        """The image is in the middle, rounded down, and surrounded by black."""
        expected = np.zeros((5, 6), np.uint8)
        expected[1:3, 1:4] = IMAGE
        np.testing.assert_array_equal(expected, CenterPaste((5, 6)).augment(IMAGE))

    def test_custom_filler(self):
        """A custom filler receives the image."""

        class Mean(BackgroundFiller):
            def _fill(self, background_shape, img):
                return np.full(background_shape, img.mean(), img.dtype)

        pasted = CenterPaste(4, Mean()).augment(IMAGE)
        assert 3 == pasted[0, 0]
        np.testing.assert_array_equal(IMAGE, pasted[1:3, 0:3])


class TestRandomPaste:
    def test_all_positions_occur(self):
        """All positions occur, including the last row and column, without a call of `reset_state`."""
        augmentor, places = RandomPaste((4, 5)), set()
        for _ in range(200):
            rows, columns = np.nonzero(augmentor.augment(IMAGE))
            places.add((int(rows.min()), int(columns.min())))
        assert {(y, x) for y in range(3) for x in range(3)} == places

    def test_as_large_as_the_background(self):
        """A background as large as the image has one position."""
        np.testing.assert_array_equal(IMAGE, RandomPaste((2, 3)).augment(IMAGE))

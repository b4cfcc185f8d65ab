"""Images on backgrounds."""

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
        """Channels and type of the image, height and width as asked."""
        background = ConstantBackgroundFiller(7).fill((4, 5), np.zeros((2, 2) + channels, dtype))
        assert ((4, 5) + channels, dtype) == (background.shape, background.dtype)
        assert (background == 7).all()

    def test_colour(self):
        """One value for each channel."""
        assert [1, 2, 3] == ConstantBackgroundFiller((1, 2, 3)).fill([2, 2], np.zeros((1, 1, 3)))[
            0, 0
        ].tolist()

    def test_nothing_defined(self):
        """A filler of one's own defines _fill."""
        with pytest.raises(NotImplementedError, match=r"BackgroundFiller: does not define _fill"):
            BackgroundFiller().fill((2, 2), IMAGE)


class TestCenterPaste:
    def test_the_middle(self):
        """Half of what is left over, rounded down, is before it; black around it."""
        expected = np.zeros((5, 6), np.uint8)
        expected[1:3, 1:4] = IMAGE
        np.testing.assert_array_equal(expected, CenterPaste((5, 6)).augment(IMAGE))

    def test_a_filler_of_ones_own(self):
        """It sees the image."""

        class Mean(BackgroundFiller):
            def _fill(self, background_shape, img):
                return np.full(background_shape, img.mean(), img.dtype)

        pasted = CenterPaste(4, Mean()).augment(IMAGE)
        assert 3 == pasted[0, 0]
        np.testing.assert_array_equal(IMAGE, pasted[1:3, 0:3])

    @pytest.mark.parametrize("kind", [CenterPaste, RandomPaste])
    def test_too_small_a_background(self, kind):
        """Of one side alone too."""
        with pytest.raises(
            ValueError, match=rf"{kind.__name__}: the background of \(2, 2\) .* smaller than the image of 2x3"
        ):
            kind(2).augment(IMAGE)

    def test_no_filler(self):
        """Refused when built."""
        with pytest.raises(TypeError, match="CenterPaste: takes a BackgroundFiller, got int"):
            CenterPaste(4, 3)


class TestRandomPaste:
    def test_every_place_comes(self):
        """The last ones too; upstream never got there, and without reset_state not at all."""
        augmentor, places = RandomPaste((4, 5)), set()
        for _ in range(200):
            rows, columns = np.nonzero(augmentor.augment(IMAGE))
            places.add((int(rows.min()), int(columns.min())))
        assert {(y, x) for y in range(3) for x in range(3)} == places

    def test_as_large_as_the_background(self):
        """One place."""
        np.testing.assert_array_equal(IMAGE, RandomPaste((2, 3)).augment(IMAGE))

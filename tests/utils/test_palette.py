"""Colors for boxes and masks."""

from __future__ import annotations

import numpy as np

from tensorpack_lite.utils.palette import PALETTE_RGB


def test_type_and_range():
    """The palette is float32 [80, 3] in [0, 255]."""
    assert ((80, 3), np.float32) == (PALETTE_RGB.shape, PALETTE_RGB.dtype)
    assert (0, 255) == (PALETTE_RGB.min(), PALETTE_RGB.max())


def test_no_two_are_alike():
    """Any two colors differ by a fifth of the range in some channel."""
    differences = np.abs(PALETTE_RGB[:, None] - PALETTE_RGB[None]).max(axis=2)
    assert 51 <= differences[~np.eye(80, dtype=bool)].min()


def test_no_greys():
    """No color is gray."""
    assert 102 <= np.ptp(PALETTE_RGB, axis=1).min()


def test_the_first_ones_are_the_furthest_apart():
    """The first colors differ at least as much as a longer list of them."""

    def nearest(count):
        distances = np.linalg.norm(PALETTE_RGB[:count, None] - PALETTE_RGB[None, :count], axis=2)
        return distances[~np.eye(count, dtype=bool)].min()

    assert nearest(6) > nearest(20) > nearest(80)
    np.testing.assert_array_equal([255, 0, 0], PALETTE_RGB[0])

"""
Position of a rectangle inside a larger one.

`space` is the number of spare rows and columns (>= 0); the result is (first row, first column).
"""

from __future__ import annotations

import numpy as np

__all__ = ["draw_position", "middle_position"]


def middle_position(space: tuple[int, int]) -> tuple[int, int]:
    """Return the position in the middle, rounded down."""
    return space[0] // 2, space[1] // 2


def draw_position(space: tuple[int, int], rng: np.random.RandomState) -> tuple[int, int]:
    """Draw the row, then the column; all positions are equally likely."""
    return int(rng.randint(space[0] + 1)), int(rng.randint(space[1] + 1))

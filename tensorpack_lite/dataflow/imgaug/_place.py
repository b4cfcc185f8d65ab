"""Where a rectangle goes inside a larger one: as (first row, first column), given how many of each there are to spare."""

from __future__ import annotations

import numpy as np

__all__ = ["anywhere", "in_the_middle"]


def in_the_middle(space: tuple[int, int]) -> tuple[int, int]:
    """
    Find the middle.

    Args:
        space: rows and columns to spare; >= 0.
    """
    return space[0] // 2, space[1] // 2


def anywhere(space: tuple[int, int], rng: np.random.RandomState) -> tuple[int, int]:
    """
    Draw a place; each is as probable as the others.

    Args:
        space: rows and columns to spare; >= 0.
        rng: draws the row, then the column.
    """
    return int(rng.randint(space[0] + 1)), int(rng.randint(space[1] + 1))

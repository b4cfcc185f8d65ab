"""Colors that are easy to tell apart, for boxes and masks."""

from __future__ import annotations

import numpy as np

_NUM_COLORS = 80
_LEVELS = (0, 51, 102, 153, 204, 255)
_WEIGHTS = (2, 4, 3)  # visibility of a difference in red, green and blue
_MIN_SATURATION = 102  # no grays, which are hard to see on photographs


def _spread(num_colors: int) -> np.ndarray:
    """Choose colors one by one, each with the largest distance from those before it."""
    cube = np.stack(np.meshgrid(_LEVELS, _LEVELS, _LEVELS, indexing="ij"), axis=-1).reshape(-1, 3)
    candidates = cube[cube.max(axis=1) - cube.min(axis=1) >= _MIN_SATURATION]
    chosen = [np.array([255, 0, 0])]
    distances = np.full(len(candidates), np.iinfo(np.int64).max)
    while len(chosen) < num_colors:
        squares = (candidates - chosen[-1]).astype(np.int64) ** 2
        distances = np.minimum(distances, squares @ np.array(_WEIGHTS))
        chosen.append(candidates[np.argmax(distances)])
    return np.stack(chosen).astype(np.float32)


PALETTE_RGB = _spread(_NUM_COLORS)
"""Colors as float32 [80, 3], RGB in [0, 255]. All differ, none is gray, and the first ones differ most."""

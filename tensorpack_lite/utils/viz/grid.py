"""Grids of images."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .images import as_bgr, to_uint8
from .window import interactive_imshow

_BORDER = 0.05  # of the smaller side of a patch


def stack_patches(
    patch_list: np.ndarray | Sequence[np.ndarray],
    nr_row: int,
    nr_col: int,
    border: int | None = None,
    pad: bool = False,
    bgcolor: int | Sequence[int] = 255,
    viz: bool = False,
    lclick_cb: Callable[[np.ndarray, int], object] | None = None,
) -> np.ndarray:
    """
    Arrange images in a grid, row by row.

    Args:
        patch_list: `[N, H, W]` or `[N, H, W, C]` with C = 1 or 3, or a list of such images; values in [0, 255].
        nr_row, nr_col: rows and columns of the grid.
        border: pixels between two images. Default: 5 % of their smaller side.
        pad: allow images of different sizes, which are centered in the largest height and width.
        bgcolor: background color, a number or three (BGR). Three numbers convert gray images to three channels.
        viz: show the grid with `interactive_imshow`, which waits for a key.
        lclick_cb: with `viz`, called as `f(image, index)` for each clicked image.

    Returns:
        uint8 `[H', W', C]`, H' = nr_row * H + (nr_row - 1) * border.

    Raises:
        ValueError: there are no images, too many images, or images of different sizes without `pad`, or the number of
            channels is not 1 or 3.

    Example:
        >>> stack_patches(np.zeros([5, 28, 28]), nr_row=2, nr_col=3).shape  # a border of one pixel
        (57, 86, 1)
    """
    patches = _equal_patches("stack_patches", patch_list, pad, bgcolor)
    if len(patches) > nr_row * nr_col:
        raise ValueError(
            f"stack_patches: too many images (expected at most {nr_row} x {nr_col}, got {len(patches)}). "
            "Use gen_stack_patches for several grids."
        )
    grid = _Grid(patches, nr_row, nr_col, border)
    canvas = grid.draw(patches, bgcolor)
    if viz:
        _show_grid(canvas, grid, patches, lclick_cb)
    return canvas


def gen_stack_patches(  # noqa: PLR0913 (upstream's arguments)
    patch_list: np.ndarray | Sequence[np.ndarray],
    nr_row: int | None = None,
    nr_col: int | None = None,
    border: int | None = None,
    max_width: int = 1000,
    max_height: int = 1000,
    bgcolor: int | Sequence[int] = 255,
    viz: bool = False,
    lclick_cb: Callable[[np.ndarray, int], object] | None = None,
) -> Iterator[np.ndarray]:
    """
    Arrange images in one or more grids; see `stack_patches`.

    Args:
        patch_list, border, bgcolor, viz: as in `stack_patches`.
        nr_row, nr_col: rows and columns of each grid. Default: as many as `max_height` and `max_width` allow.
        max_width, max_height: maximum size of a grid in pixels. A larger image gets a grid of its size.
        lclick_cb: as in `stack_patches`. The index is the position in `patch_list`.

    Yields:
        uint8 `[H', W', C]`, a new array each time. The last grid may be incomplete.

    Raises:
        ValueError: as in `stack_patches`.
    """
    patches = _equal_patches("gen_stack_patches", patch_list, False, bgcolor)
    cell = _Grid(patches, 1, 1, border)
    nr_row = nr_row or max(1, (max_height + cell.border) // (cell.height + cell.border))
    nr_col = nr_col or max(1, (max_width + cell.border) // (cell.width + cell.border))
    grid = _Grid(patches, nr_row, nr_col, border)
    for start in range(0, len(patches), nr_row * nr_col):
        shown = patches[start : start + nr_row * nr_col]
        canvas = grid.draw(shown, bgcolor)
        if viz:
            _show_grid(canvas, grid, shown, lclick_cb, start)
        yield canvas


class _Grid:
    """Positions of images of one size in a grid."""

    def __init__(self, patches: np.ndarray, num_rows: int, num_columns: int, border: int | None) -> None:
        self.height, self.width = patches.shape[1:3]
        self.border = int(_BORDER * min(self.height, self.width)) if border is None else border
        self.num_rows, self.num_columns = num_rows, num_columns

    def draw(self, patches: np.ndarray, bgcolor: int | Sequence[int]) -> np.ndarray:
        """Return a canvas with the images."""
        rows = self.num_rows * (self.height + self.border) - self.border
        columns = self.num_columns * (self.width + self.border) - self.border
        canvas = np.empty([rows, columns, patches.shape[3]], dtype=np.uint8)
        canvas[:] = bgcolor
        for index, patch in enumerate(patches):
            row, column = divmod(index, self.num_columns)
            top, left = row * (self.height + self.border), column * (self.width + self.border)
            canvas[top : top + self.height, left : left + self.width] = patch
        return canvas

    def index_at(self, x: int, y: int) -> int | None:
        """Return the index of the image at a pixel, or None on a border."""
        column, right = divmod(x, self.width + self.border)
        row, down = divmod(y, self.height + self.border)
        return row * self.num_columns + column if right < self.width and down < self.height else None


def _show_grid(
    canvas: np.ndarray, grid: _Grid, patches: np.ndarray, lclick_cb: Callable[..., Any] | None, start: int = 0
) -> None:
    def on_click(_: np.ndarray, x: int, y: int) -> None:
        index = grid.index_at(x, y)
        if lclick_cb is not None and index is not None and index < len(patches):
            lclick_cb(patches[index], start + index)

    interactive_imshow(canvas, lclick_cb=on_click)


def _equal_patches(
    who: str, patch_list: np.ndarray | Sequence[np.ndarray], pad: bool, bgcolor: int | Sequence[int]
) -> np.ndarray:
    """Return images as uint8 [N, H, W, C]. C is 3 if the background has a color."""
    patches = [np.asarray(patch) for patch in patch_list]
    patches = [to_uint8(patch[:, :, None] if patch.ndim == 2 else patch) for patch in patches]
    channels = {patch.shape[2] if patch.ndim == 3 else None for patch in patches}
    if channels not in ({1}, {3}):
        shapes = sorted({str(patch.shape) for patch in patches})
        raise ValueError(
            f"{who}: wrong images (expected [H, W], [H, W, 1] or [H, W, 3], got {', '.join(shapes) or 'none'})."
        )
    if np.ndim(bgcolor):
        patches = [as_bgr(patch) for patch in patches]
    if pad:
        patches = _pad_to_largest(patches, bgcolor)
    if len({patch.shape for patch in patches}) > 1:
        raise ValueError(f"{who}: the images have different sizes. Pass pad=True, or resize them first.")
    return np.stack(patches)


def _pad_to_largest(patches: list[np.ndarray], bgcolor: int | Sequence[int]) -> list[np.ndarray]:
    height, width = (max(patch.shape[axis] for patch in patches) for axis in (0, 1))
    padded = []
    for patch in patches:
        whole = np.empty([height, width, patch.shape[2]], dtype=np.uint8)
        whole[:] = bgcolor
        top, left = (height - patch.shape[0]) // 2, (width - patch.shape[1]) // 2
        whole[top : top + patch.shape[0], left : left + patch.shape[1]] = patch
        padded.append(whole)
    return padded

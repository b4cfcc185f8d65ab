"""Writing and showing the images of a DataFlow."""

from __future__ import annotations

import itertools
import os
from typing import Any, Iterator

import numpy as np

from ..fs import mkdir_p
from ..optional import load_optional
from .grid import stack_patches
from .images import to_uint8, write_image


def dump_dataflow_images(  # noqa: PLR0913 (upstream's arguments)
    df: Any,
    index: int = 0,
    batched: bool = True,
    number: int = 1000,
    output_dir: str | None = None,
    scale: float = 1,
    resize: tuple[int, int] | None = None,
    viz: tuple[int, int] | None = None,
    flipRGB: bool = False,  # noqa: N803 (upstream's name)
) -> None:
    """
    Write the images of a DataFlow as `001.jpg`, `002.jpg` ..., or show them.

    The DataFlow is reset once and iterated until there are enough images.

    Args:
        df: a DataFlow.
        index: the component with images, an index or a key.
        batched: whether the component is `[N, H, W]` or `[N, H, W, C]`; otherwise it is `[H, W]` or `[H, W, C]`.
        number: the number of images.
        output_dir: directory of the files. None: write no files.
        scale: factor for all values, e.g. 255 for images in [0, 1].
        resize: new `(height, width)`. None: do not resize.
        viz: `(rows, columns)` of the grids to show. None: show nothing.
        flipRGB: whether the images are RGB.

    Raises:
        ValueError: the DataFlow yielded no image in one pass.
        OSError: a file cannot be written.
    """
    cv2 = load_optional("cv2", "dump_dataflow_images")
    if output_dir:
        mkdir_p(output_dir)
    waiting: list[np.ndarray] = []
    for count, image in enumerate(itertools.islice(_images_of(df, index, batched), number), 1):
        ready = to_uint8(image * scale)
        if flipRGB:
            ready = np.ascontiguousarray(ready[:, :, ::-1])
        if resize is not None:
            ready = cv2.resize(ready, tuple(resize)[::-1])
        if output_dir:
            write_image(os.path.join(output_dir, f"{count:03d}.jpg"), ready)
        if viz is None:
            continue
        waiting.append(ready)
        if len(waiting) == viz[0] * viz[1] or count == number:
            stack_patches(waiting, viz[0], viz[1], viz=True)
            waiting = []


def _images_of(df: Any, index: int | str, batched: bool) -> Iterator[np.ndarray]:
    """Yield the images [H, W, C] of a DataFlow, pass after pass."""
    df.reset_state()
    while True:
        count = 0
        for datapoint in df:
            component = np.asarray(datapoint[index])
            for image in component if batched else [component]:
                count += 1
                yield image[:, :, None] if image.ndim == 2 else image
        if count == 0:
            raise ValueError(
                f"dump_dataflow_images: {type(df).__name__} yielded no image in component {index!r} in one pass."
            )

"""
Image visualization: grids, boxes, text, heat maps, windows, and the images of a DataFlow.

**In:** arrays with values in [0, 255], or a DataFlow with such arrays. Colors are BGR, as in OpenCV, unless
stated otherwise. **Out:** arrays, files, windows. **Next:** none; examples and users' scripts call it.

Grids need NumPy only. OpenCV (`pip install "tensorpack_lite[image]"`) and matplotlib (`"tensorpack_lite[plot]"`) are
imported on first use.
"""

from __future__ import annotations

from .drawing import draw_boxes, draw_text, intensity_to_rgb
from .dump import dump_dataflow_images
from .grid import gen_stack_patches, stack_patches
from .window import interactive_imshow

__all__ = [
    "draw_boxes", "draw_text", "dump_dataflow_images", "gen_stack_patches", "intensity_to_rgb",
    "interactive_imshow", "stack_patches",
]  # fmt: skip

"""Functions that matplotlib has removed, with the meaning that they had."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ..startup.sitecustomize import replacement
from .said import say


def get_cmap(name: Any = None, lut: int | None = None) -> Any:
    """Return a color map by its name, optionally with `lut` colors (`matplotlib.cm.get_cmap`)."""
    import matplotlib

    if isinstance(name, matplotlib.colors.Colormap):
        return name
    found = matplotlib.colormaps[name or matplotlib.rcParams["image.cmap"]]
    return found if lut is None else found.resampled(lut)


def register_cmap(name: str | None = None, cmap: Any = None, **kwargs: Any) -> None:
    """Add a color map (`matplotlib.cm.register_cmap`)."""
    import matplotlib

    matplotlib.colormaps.register(cmap, name=name, force=True)


def hold(b: bool | None = None) -> None:
    """Do nothing: each plot is added to its axes (`matplotlib.pyplot.hold`)."""
    if b is False:
        raise ValueError("matplotlib.pyplot.hold(False) does not exist any more. Call cla() before each plot.")


def ishold() -> bool:
    """Return True: each plot is added to its axes (`matplotlib.pyplot.ishold`)."""
    return True


def complete(module: ModuleType) -> None:
    """Give the canvas of Agg the method `tostring_rgb`."""
    canvas: Any = module.FigureCanvasAgg
    if hasattr(canvas, "tostring_rgb"):
        return

    def tostring_rgb(self: Any) -> bytes:
        """Return the pixels of the figure as bytes, in three channels."""
        text = "matplotlib's FigureCanvasAgg.tostring_rgb, which was removed, is made of buffer_rgba."
        say("FigureCanvasAgg.tostring_rgb", text)
        return np.asarray(self.buffer_rgba())[:, :, :3].tobytes()

    replacement.add(canvas, "tostring_rgb", tostring_rgb)

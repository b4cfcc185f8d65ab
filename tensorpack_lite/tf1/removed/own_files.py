"""Files of the script, as opposed to those of installed packages."""

from __future__ import annotations

import os
import sysconfig
from types import FrameType

_STANDARD = tuple({os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("stdlib", "platstdlib")})


def own_path(path: str) -> bool:
    """Return whether a file belongs to the script rather than to Python or an installed package."""
    if "site-packages" in path or "dist-packages" in path or path.startswith(_STANDARD):
        return False
    from tensorpack_lite.tf1.startup.sitecustomize import is_library_file

    return not is_library_file(path)


def is_own_file(frame: FrameType | None) -> bool:
    """Return whether a frame is in a file of the script."""
    if frame is None:
        return False
    file = frame.f_globals.get("__file__") or frame.f_code.co_filename
    return not file.startswith("<") and own_path(file)

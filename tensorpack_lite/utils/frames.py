"""The Python frames that threads are executing."""

from __future__ import annotations

import gc
import sys
from types import FrameType

__all__ = ["frame_of_thread"]


def frame_of_thread(ident: int) -> FrameType | None:
    """
    Return the frame that a thread is executing.

    `sys._current_frames()` deadlocks if it starts a garbage collection while another thread is being started
    (https://github.com/python/cpython/issues/106883, CPython before 3.12). The collector is therefore off during that call.

    Args:
        ident: the thread's `ident`.

    Returns:
        The frame, or None if there is no such thread.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(ident)
    finally:
        if was_enabled:
            gc.enable()

"""The Python frames that threads are executing, and the directory of this library."""

from __future__ import annotations

import gc
import os
import sys
from types import FrameType
from typing import Dict

LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The directory of this library."""


def frame_of_thread(ident: int) -> FrameType | None:
    """
    Return the frame that a thread is executing; None if there is no such thread.

    Args:
        ident: the thread's `ident`.
    """
    return frames_of_threads().get(ident)


def frames_of_threads() -> Dict[int, FrameType]:
    """
    Return the frame that each thread of this process is executing, by the thread's `ident`.

    `sys._current_frames()` deadlocks if it starts a garbage collection while another thread is being started
    (https://github.com/python/cpython/issues/106883, CPython before 3.12). The collector is therefore off during that call.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if was_enabled:
            gc.enable()

"""The log of TensorFlow's Python part, whose lines hide those of a training."""

from __future__ import annotations

import logging
import sys
from functools import lru_cache


@lru_cache(maxsize=None)
def silence_python_log() -> None:
    """
    Let TensorFlow's Python logger show only errors, unless its level was set. Only the first call does anything.

    Entry points that build a graph call it; importing the library does not. The log of the C++ part is the user's:
    TensorFlow reads `TF_CPP_MIN_LOG_LEVEL` while it is imported.
    """
    logger = logging.getLogger("tensorflow")
    is_interactive = hasattr(sys, "ps1") or sys.flags.interactive  # TensorFlow then sets the level itself
    if logger.level == (logging.INFO if is_interactive else logging.NOTSET):
        logger.setLevel(logging.ERROR)

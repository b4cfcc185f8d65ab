"""
TensorFlow's own log lines, which hide those of a training.

TensorFlow has two logs. That of its C++ part is turned off while TensorFlow is imported, unless the user has set
`TF_CPP_MIN_LOG_LEVEL`: it reads this variable only once. That of its Python part shows only errors from the first entry
point that builds a graph on, unless the user has set its level. Errors of TensorFlow that matter are exceptions as well.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from functools import lru_cache
from typing import Iterator

from .onednn import load_without_message

__all__ = ["silence_python_log", "silent_cpp_log"]

_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
_NOTHING = "3"  # neither information nor warnings nor errors
_WITHOUT_INFORMATION = ("1", "2", "3")


@contextmanager
def silent_cpp_log() -> Iterator[None]:
    """
    Context for the first import of TensorFlow, which then writes nothing to stderr later on.

    The environment is the same afterwards. If the user has set the variable, only a message that ignores it is hidden. On
    TensorFlow 2, nothing changes if TensorFlow has been imported before.
    """
    level = os.environ.get(_VARIABLE)
    if level is not None:
        if level in _WITHOUT_INFORMATION:
            load_without_message()
        yield
        return
    os.environ[_VARIABLE] = _NOTHING
    try:
        load_without_message()
        yield
        _read_level()
    finally:
        os.environ.pop(_VARIABLE, None)


@lru_cache(maxsize=None)
def silence_python_log() -> None:
    """Let TensorFlow's Python logger show only errors, unless its level was set. Only the first call does anything."""
    logger = logging.getLogger("tensorflow")
    is_interactive = hasattr(sys, "ps1") or sys.flags.interactive  # TensorFlow then sets the level itself
    if logger.level == (logging.INFO if is_interactive else logging.NOTSET):
        logger.setLevel(logging.ERROR)


def _read_level() -> None:
    """
    Make TensorFlow 1.15 read the level, by an error that it logs. TensorFlow 2 has read it while it was imported.

    Why private: no public function logs anything before a session exists. Tried on 1.15.
    """
    if not sys.modules["tensorflow"].__version__.startswith("1."):
        return
    from tensorflow.python import pywrap_tensorflow
    from tensorflow.python.framework.errors import raise_exception_on_not_ok_status

    with raise_exception_on_not_ok_status() as status:
        pywrap_tensorflow.PyRecordReader_New(os.devnull.encode(), 0, b"unknown compression", status).Close()

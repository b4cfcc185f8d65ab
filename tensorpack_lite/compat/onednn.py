"""oneDNN: whether TensorFlow uses it, and the message about it that newer versions print whatever the level of their log is."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Iterator

__all__ = ["has_bfloat16_products", "load_without_message"]

# Each prints the message while it is loaded, before it reads the level, seen in 2.21. They are in the order in which
# TensorFlow loads them. TensorFlow 2.15 lacks the second one, and obeys the level.
_LIBRARIES = ("libtensorflow_cc.so.2", "python/profiler/internal/_pywrap_profiler_plugin.so")
# Unless the user decides, TensorFlow uses oneDNN only on CPUs with one of these instructions. Such a CPU has all that
# TensorFlow needs, so a message that it lacks some is not lost.
_INSTRUCTIONS = r"\b(avx512_vnni|avx512_bf16|avx_vnni|amx_\w+)\b"


def load_without_message() -> None:
    """Load the libraries that print the message, with stderr discarded. An import of TensorFlow then finds them loaded."""
    if "tensorflow" in sys.modules or not _has_instructions(_INSTRUCTIONS):
        return
    spec = importlib.util.find_spec("tensorflow")
    paths = [Path(spec.origin).parent / name for name in _LIBRARIES] if spec and spec.origin else []
    if not all(path.exists() for path in paths):
        return
    # if a library cannot be loaded, the import of TensorFlow says so
    with suppress(OSError), _discarded_stderr():
        for path in paths:
            ctypes.CDLL(str(path))


def has_bfloat16_products() -> bool:
    """
    Return whether TensorFlow 2.9 or newer computes products in bfloat16 on this CPU by oneDNN, which adds up in float32.

    TensorFlow's other kernels for CPUs add up gradients of convolutions in bfloat16.
    """
    chosen = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "").lower()
    is_used = chosen in ("1", "true") or (chosen not in ("0", "false") and _has_instructions(_INSTRUCTIONS))
    return is_used and _has_instructions(r"\b(avx512f|avx_ne_convert)\b")


@lru_cache(maxsize=None)
def _has_instructions(pattern: str) -> bool:
    """Return whether this CPU has one of some instructions; False on systems other than Linux."""
    try:
        return re.search(pattern, Path("/proc/cpuinfo").read_text()) is not None
    except OSError:
        return False


@contextmanager
def _discarded_stderr() -> Iterator[None]:
    """Context in which what is written to file descriptor 2, also by C++ code, is discarded."""
    before, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nothing)

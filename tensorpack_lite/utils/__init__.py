"""
Tools that do not depend on TensorFlow: logging, threads, processes, statistics, files.

**In:** nothing; the Python standard library and NumPy.
**Out:** `logger` and the other modules. None of them imports TensorFlow at its top.
**Next:** dataflow and tfutils, and every other package.

The names here are part of `from tensorpack_lite import *`. Import all others from their modules, e.g.
`from tensorpack_lite.utils.concurrency import StoppableThread`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import logger
from .missing_names import explain_missing_names
from .random_streams import fix_rng_seed, get_rng
from .utils import change_env, execute_only_once, get_tqdm, humanize_time_delta

__all__ = [
    "change_env", "execute_only_once", "fix_rng_seed", "get_rng", "get_tqdm", "humanize_time_delta", "logger",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)

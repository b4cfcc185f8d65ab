"""
Small tools that know nothing of graphs: logging, threads, processes, statistics, files.

**In:** nothing; the Python standard library and NumPy.
**Out:** `logger`, and the modules below it; none of them imports TensorFlow when it is imported.
**Next:** dataflow and tfutils, and with them every other package.

The names here are those that `from tensorpack_lite import *` brings; everything else is imported from its module,
e.g. `from tensorpack_lite.utils.concurrency import StoppableThread`.
"""

from __future__ import annotations

from . import logger
from .utils import change_env, execute_only_once, fix_rng_seed, get_rng, get_tqdm, humanize_time_delta

__all__ = [
    "change_env",
    "execute_only_once",
    "fix_rng_seed",
    "get_rng",
    "get_tqdm",
    "humanize_time_delta",
    "logger",
]

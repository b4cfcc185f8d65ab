"""The behavior of TensorFlow 1, which `tensorpack-lite run` gives to its script on every TensorFlow."""

from __future__ import annotations

import os
from functools import lru_cache

from ..compat import cpu_layout, pretended_gpu, tf1_names, tf1_tensors, value_names
from ..compat.private import behave_like_tf1


@lru_cache(maxsize=None)
def prepare_tf1() -> None:
    """Make TensorFlow behave like TensorFlow 1. The first call in a process does all the work."""
    behave_like_tf1()
    value_names.install()
    tf1_tensors.install()
    tf1_names.install()
    if os.environ.get("TENSORPACK_LITE_PRETEND_GPU"):
        pretended_gpu.install(int(os.environ["TENSORPACK_LITE_PRETEND_GPU"]))
    if os.environ.get("TENSORPACK_LITE_CPU_LAYOUT") == "on":
        cpu_layout.install()

"""Detection of oneDNN, which TensorFlow uses on some CPUs."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

# Unless the user decides, TensorFlow uses oneDNN only on CPUs with one of these instructions.
_INSTRUCTIONS = r"\b(avx512_vnni|avx512_bf16|avx_vnni|amx_\w+)\b"


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

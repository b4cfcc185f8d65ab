"""Address: these names live in `base`, `remap` and `tfutils.placeholder`."""

from __future__ import annotations

from ..tfutils.placeholder import build_or_reuse_placeholder
from .base import InputSource, ProxyInputSource
from .remap import get_sublist_by_names, get_tensors_inputs, remap_input_source

__all__ = ["InputSource", "ProxyInputSource", "build_or_reuse_placeholder", "get_sublist_by_names", "get_tensors_inputs", "remap_input_source"]  # fmt: skip

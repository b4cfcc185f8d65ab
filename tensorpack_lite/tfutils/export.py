"""Address: ModelExporter lives in `predict/export.py`."""

from __future__ import annotations

from ..predict.export import ModelExporter

__all__ = ["ModelExporter"]

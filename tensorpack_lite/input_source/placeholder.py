"""Placeholders as input: somebody else feeds them."""

from __future__ import annotations

from typing import Any, Sequence

from ..tfutils.placeholder import build_or_reuse_placeholder
from .base import InputSource

__all__ = ["PlaceholderInput"]


class PlaceholderInput(InputSource):
    """
    One placeholder for each input, named like it; nobody feeds them unless you do.

    Predictors are built on it. All towers get the same placeholders.

    tensorpack: same.
    """

    def _setup(self, input_signature: Sequence[Any]) -> None:
        self._placeholders = [build_or_reuse_placeholder(spec) for spec in input_signature]

    def _get_input_tensors(self) -> list[Any]:
        return self._placeholders

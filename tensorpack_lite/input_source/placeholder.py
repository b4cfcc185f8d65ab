"""Input of placeholders that the caller feeds."""

from __future__ import annotations

from typing import Sequence

from ..compat import tfv1 as tf
from ..tfutils.placeholder import build_or_reuse_placeholder
from .base import InputSource


class PlaceholderInput(InputSource):
    """
    One placeholder for each of the model's inputs, with its name. The caller has to feed them.

    All towers get the same placeholders.
    """

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self.flow.no_position = "its caller feeds it"
        self._placeholders = [build_or_reuse_placeholder(spec) for spec in input_signature]

    def _get_input_tensors(self) -> list[tf.Tensor]:
        return self._placeholders

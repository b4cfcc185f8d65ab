"""Inferencer that keeps the validation samples with the largest loss, for the report."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..report.samples import WORST, write_samples
from ..utils import logger
from ..utils.checks import check_at_least
from .inference import Inferencer
from .kept_samples import KeptSamples


class WorstSamples(Inferencer):
    """
    Callback that writes the samples with the largest loss to `samples/worst.npz` in the logger's directory, for the report.

    A wrong label is often among them. A loss that is NaN counts as the largest. Each round replaces the file.

    Args:
        loss: name of a tensor `[N]` with the loss of each sample.
        names: names of tensors `[N, ...]` to keep: inputs of the model, such as the image and the label, and outputs.
        num_samples: how many samples to keep.

    Raises:
        ValueError: `num_samples` is not positive; at the first datapoint: a tensor has the wrong shape.

    Example:
        >>> InferenceRunner(df, [ScalarStats("cost"), WorstSamples("loss", ["image", "label", "prob"])])

    Note: without a logger directory, nothing is written. A disk error is logged.
    """

    def __init__(self, loss: str, names: Sequence[str], num_samples: int = 16) -> None:
        check_at_least("WorstSamples: num_samples", num_samples, 1)
        self.loss = loss
        self.names = list(names)
        self.num_samples = num_samples
        self._worst = KeptSamples(num_samples)

    def _before_inference(self) -> None:
        self._worst.clear()

    def _get_fetches(self) -> list[str]:
        return [self.loss, *self.names]

    def _on_fetches(self, results: list[Any]) -> None:
        arrays = [np.asarray(result) for result in results]
        if arrays[0].ndim != 1:
            raise ValueError(
                f"WorstSamples: expected the losses of the samples, of shape [N], got '{self.loss}' of shape "
                f"{arrays[0].shape}. Name the tensor before its mean is taken."
            )
        for name, array in zip(self.names, arrays[1:]):
            if array.ndim < 1 or len(array) != len(arrays[0]):
                raise ValueError(
                    f"WorstSamples: expected {len(arrays[0])} samples, got '{name}' of shape {array.shape}."
                )
        self._worst.feed(arrays[0], lambda chosen: [array[chosen] for array in arrays[1:]])

    def _after_inference(self) -> dict[str, Any] | None:
        directory = logger.get_logger_dir()
        if directory is not None and len(self._worst.scores):
            arrays = dict(zip([*self.names, self.loss], [*self._worst.columns, self._worst.scores]))
            try:
                write_samples(directory, WORST, arrays, self.global_step)
            except OSError as error:
                logger.error(f"WorstSamples: cannot write the samples: {error}")
        return None

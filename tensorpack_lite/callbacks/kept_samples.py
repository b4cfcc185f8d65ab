"""The samples with the largest scores of a round of inference."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np


class KeptSamples:
    """
    The samples with the largest scores, the largest first. A score that is NaN counts as the largest.

    Args:
        number: how many samples to keep.

    Attributes:
        scores: their scores `[N]`.
        columns: other values of the samples, each `[N, ...]`; empty if there are no samples.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.clear()

    def clear(self) -> None:
        """Forget all samples."""
        self.scores = np.zeros([0])
        self.columns: list[np.ndarray] = []

    def feed(self, scores: np.ndarray, take: Callable[[np.ndarray], Sequence[np.ndarray]]) -> None:
        """
        Take the samples of a batch. Of equal scores, the earlier ones are kept.

        Args:
            scores: the scores `[N]`.
            take: returns the columns of some samples, given their indices. It is not called if none of the batch is kept.
        """
        chosen = _order(scores)[: self.number]
        if len(self.scores) == self.number:
            chosen = chosen[_ranks(scores[chosen]) > _ranks(self.scores[-1:])]
        if not len(chosen):
            return
        columns, merged = list(take(chosen)), scores[chosen]
        if len(self.scores):
            columns = [np.concatenate(both) for both in zip(self.columns, columns)]
            merged = np.concatenate([self.scores, merged])
        order = _order(merged)[: self.number]
        self.scores, self.columns = merged[order], [column[order] for column in columns]


def _ranks(scores: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(scores), np.inf, scores)


def _order(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-_ranks(scores), kind="stable")

"""Statistics of numbers that come one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Accuracy", "BinaryStatistics", "OnlineMoments", "RatioCounter", "StatCounter"]


class StatCounter:
    """
    Keeps numbers and gives their count, sum, average and extremes.

    Raises:
        ValueError: (by `average`, `sum`, `max` and `min`) nothing was fed.

    Example:
        >>> counter = StatCounter()
        >>> counter.feed(1.0); counter.feed(3.0)
        >>> float(counter.average)
        2.0

    tensorpack: same; there an empty one raises AssertionError.
    """

    def __init__(self) -> None:
        self.reset()

    def feed(self, v: float) -> None:
        """Add a number (or an array; all of one shape)."""
        self._values.append(v)

    def reset(self) -> None:
        """Forget everything."""
        self._values: list[Any] = []

    @property
    def count(self) -> int:
        """How many were fed."""
        return len(self._values)

    @property
    def average(self) -> Any:
        """Their mean."""
        return np.mean(self._some(), axis=0)

    @property
    def sum(self) -> Any:
        """Their sum."""
        return np.sum(self._some(), axis=0)

    @property
    def max(self) -> Any:
        """The largest of them."""
        return max(self._some())

    @property
    def min(self) -> Any:
        """The smallest of them."""
        return min(self._some())

    def samples(self) -> list[Any]:
        """All of them, in the order they were fed."""
        return self._values

    def _some(self) -> list[Any]:
        if not self._values:
            raise ValueError("StatCounter: nothing was fed yet. Call feed() first, or look at count.")
        return self._values


class RatioCounter:
    """
    Counts a part of a whole.

    tensorpack: same.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._total = 0
        self._count = 0

    def feed(self, count: int, total: int = 1) -> None:
        """
        Add to both.

        Args:
            count: to the part.
            total: to the whole.
        """
        self._total += total
        self._count += count

    @property
    def ratio(self) -> float:
        """Part / whole; 0 when nothing was fed."""
        return self._count / self._total if self._total else 0

    @property
    def total(self) -> int:
        """The whole."""
        return self._total

    @property
    def count(self) -> int:
        """The part."""
        return self._count


class Accuracy(RatioCounter):
    """
    A `RatioCounter` of correct answers.

    tensorpack: same.
    """

    @property
    def accuracy(self) -> float:
        """Correct answers / all answers; 0 when nothing was fed."""
        return self.ratio


class BinaryStatistics:
    """
    Precision and recall of yes-or-no decisions.

    tensorpack: same; there bad arguments are AssertionErrors.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.nr_pos = 0  # positive label
        self.nr_neg = 0  # negative label
        self.nr_pred_pos = 0
        self.nr_pred_neg = 0
        self.corr_pos = 0  # correctly predicted positive
        self.corr_neg = 0  # correctly predicted negative

    def feed(self, pred: Any, label: Any) -> None:
        """
        Add decisions.

        Args:
            pred: 0s and 1s: an array or a list.
            label: the truth, of the same shape.

        Raises:
            ValueError: the shapes differ, or there is something besides 0 and 1.
        """
        pred, label = np.asarray(pred), np.asarray(label)
        if pred.shape != label.shape:
            raise ValueError(
                f"BinaryStatistics: pred and label must have one shape, got {pred.shape} and {label.shape}."
            )
        for name, values in (("pred", pred), ("label", label)):
            if not np.all((values == 0) | (values == 1)):
                raise ValueError(f"BinaryStatistics: {name} must hold only 0 and 1. Use e.g. (score > 0.5).")
        pred, label = pred.astype(bool), label.astype(bool)
        self.nr_pos += int(label.sum())
        self.nr_neg += int((~label).sum())
        self.nr_pred_pos += int(pred.sum())
        self.nr_pred_neg += int((~pred).sum())
        self.corr_pos += int((pred & label).sum())
        self.corr_neg += int((~pred & ~label).sum())

    @property
    def precision(self) -> float:
        """Correct positives / predicted positives; 0 when there are none."""
        return self.corr_pos / self.nr_pred_pos if self.nr_pred_pos else 0

    @property
    def recall(self) -> float:
        """Correct positives / positive labels; 0 when there are none."""
        return self.corr_pos / self.nr_pos if self.nr_pos else 0

    @property
    def false_positive(self) -> float:
        """1 - precision; 0 when nothing was predicted positive."""
        return 1 - self.precision if self.nr_pred_pos else 0

    @property
    def false_negative(self) -> float:
        """1 - recall; 0 when there are no positive labels."""
        return 1 - self.recall if self.nr_pos else 0


class OnlineMoments:
    """
    Mean and variance of numbers that are not kept.

    With each x: n += 1, d = x - mean, mean += d / n, M2 += d * (x - mean); the variance is M2 / (n - 1).

    Source: Welford 1962, "Note on a method for calculating corrected sums of squares and products".
    tensorpack: same; there the variance of a single number is a ZeroDivisionError.
    """

    def __init__(self) -> None:
        self._mean: Any = 0
        self._sum_of_squares: Any = 0
        self._count = 0

    def feed(self, x: Any) -> None:
        """Add a number or an array; all of one shape."""
        self._count += 1
        delta = x - self._mean
        self._mean = self._mean + delta / self._count
        self._sum_of_squares = self._sum_of_squares + delta * (x - self._mean)

    @property
    def mean(self) -> Any:
        """The mean; 0 when nothing was fed."""
        return self._mean

    @property
    def variance(self) -> Any:
        """
        The sample variance.

        Raises:
            ValueError: fewer than two numbers were fed.
        """
        if self._count < 2:
            raise ValueError(f"OnlineMoments: a variance takes at least two numbers, got {self._count}.")
        return self._sum_of_squares / (self._count - 1)

    @property
    def std(self) -> Any:
        """The square root of the variance."""
        return np.sqrt(self.variance)

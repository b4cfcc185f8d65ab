"""Statistics of a sequence of numbers."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .checks import check_at_least

__all__ = ["Accuracy", "BinaryStatistics", "OnlineMoments", "RatioCounter", "StatCounter"]


class StatCounter:
    """
    Counter of numbers, with their sum, average, minimum and maximum.

    Raises:
        ValueError: (in `average`, `sum`, `max` and `min`) no number was fed.

    Example:
        >>> counter = StatCounter()
        >>> counter.feed(1.0); counter.feed(3.0)
        >>> float(counter.average)
        2.0
    """

    def __init__(self) -> None:
        self.reset()

    def feed(self, v: float) -> None:
        """Add a number or an array. All arrays have the same shape."""
        self._values.append(v)

    def reset(self) -> None:
        """Remove all numbers."""
        self._values: list[Any] = []

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self._values)

    @property
    def average(self) -> np.floating | np.ndarray:
        """The mean."""
        return np.mean(self._some(), axis=0)

    @property
    def sum(self) -> np.number | np.ndarray:
        """The sum."""
        return np.sum(self._some(), axis=0)

    @property
    def max(self) -> float:
        """The maximum."""
        return max(self._some())

    @property
    def min(self) -> float:
        """The minimum."""
        return min(self._some())

    def samples(self) -> list[Any]:
        """Return all values, in the order in which they were fed."""
        return self._values

    def _some(self) -> list[Any]:
        if not self._values:
            raise ValueError("StatCounter: no value was fed yet. Call feed() first, or check count.")
        return self._values


class RatioCounter:
    """Ratio of two counts."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set all counts to 0."""
        self._total = 0
        self._count = 0

    def feed(self, count: int, total: int = 1) -> None:
        """
        Add to both counts.

        Args:
            count: increase of the numerator.
            total: increase of the denominator.
        """
        # the sum of a Python number and one of NumPy 2 has the type of the latter, e.g. float32
        self._total += as_python_number(total)
        self._count += as_python_number(count)

    @property
    def ratio(self) -> float:
        """`count / total`, or 0 if `total` is 0."""
        return self._count / self._total if self._total else 0

    @property
    def total(self) -> int:
        """The denominator."""
        return self._total

    @property
    def count(self) -> int:
        """The numerator."""
        return self._count


class Accuracy(RatioCounter):
    """A `RatioCounter` of correct predictions."""

    @property
    def accuracy(self) -> float:
        """The fraction of correct predictions, or 0 if none was fed."""
        return self.ratio


class BinaryStatistics:
    """Precision and recall of binary predictions."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set all counts to 0."""
        self.nr_pos = 0  # positive label
        self.nr_neg = 0  # negative label
        self.nr_pred_pos = 0
        self.nr_pred_neg = 0
        self.corr_pos = 0  # correctly predicted positive
        self.corr_neg = 0  # correctly predicted negative

    def feed(self, pred: np.ndarray | Sequence[int], label: np.ndarray | Sequence[int]) -> None:
        """
        Add predictions.

        Args:
            pred: an array or a list of 0 and 1.
            label: the correct values, of the same shape.

        Raises:
            ValueError: the shapes differ, or a value is neither 0 nor 1.
        """
        pred, label = np.asarray(pred), np.asarray(label)
        if pred.shape != label.shape:
            raise ValueError(
                f"BinaryStatistics.feed: pred and label have different shapes (got {pred.shape} and {label.shape})."
            )
        for name, values in (("pred", pred), ("label", label)):
            if not np.all((values == 0) | (values == 1)):
                raise ValueError(
                    f"BinaryStatistics.feed: {name} has other values than 0 and 1. Use e.g. (score > 0.5)."
                )
        pred, label = pred.astype(bool), label.astype(bool)
        self.nr_pos += int(label.sum())
        self.nr_neg += int((~label).sum())
        self.nr_pred_pos += int(pred.sum())
        self.nr_pred_neg += int((~pred).sum())
        self.corr_pos += int((pred & label).sum())
        self.corr_neg += int((~pred & ~label).sum())

    @property
    def precision(self) -> float:
        """True positives / predicted positives, or 0 if none was predicted."""
        return self.corr_pos / self.nr_pred_pos if self.nr_pred_pos else 0

    @property
    def recall(self) -> float:
        """True positives / positive labels, or 0 if there are no positive labels."""
        return self.corr_pos / self.nr_pos if self.nr_pos else 0

    @property
    def false_positive(self) -> float:
        """1 - precision, or 0 if no positive was predicted."""
        return 1 - self.precision if self.nr_pred_pos else 0

    @property
    def false_negative(self) -> float:
        """1 - recall, or 0 if there are no positive labels."""
        return 1 - self.recall if self.nr_pos else 0


class OnlineMoments:
    """
    Mean and variance of numbers, without storing them.

    With each x: n += 1, d = x - mean, mean += d / n, M2 += d * (x - mean); the variance is M2 / (n - 1).

    Source: Welford 1962, "Note on a method for calculating corrected sums of squares and products".
    """

    def __init__(self) -> None:
        self._mean: Any = 0
        self._sum_of_squares: Any = 0
        self._count = 0

    def feed(self, x: float | np.ndarray) -> None:
        """Add a number or an array. All arrays have the same shape."""
        x = _as_float64(x)
        self._count += 1
        delta = x - self._mean
        self._mean = self._mean + delta / self._count
        self._sum_of_squares = self._sum_of_squares + delta * (x - self._mean)

    @property
    def mean(self) -> float | np.ndarray:
        """The mean, or 0 if no number was fed."""
        return self._mean

    @property
    def variance(self) -> float | np.ndarray:
        """
        The sample variance.

        Raises:
            ValueError: fewer than two numbers were fed.
        """
        check_at_least("OnlineMoments.variance: the number of values", self._count, 2)
        return self._sum_of_squares / (self._count - 1)

    @property
    def std(self) -> np.floating | np.ndarray:
        """The square root of the variance."""
        return np.sqrt(self.variance)


def as_python_number(value: Any) -> Any:
    """Return the number in a scalar of NumPy, and other values as they are."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0 else value


def _as_float64(value: Any) -> Any:
    """Return a number or an array of NumPy in float64, whose sums of many values are exact enough; others as they are."""
    return np.asarray(value, "float64")[()] if isinstance(value, (np.generic, np.ndarray)) else value

"""Functions and classes that scikit-learn has removed, with the meaning that they had."""

from __future__ import annotations

from typing import Any

import numpy as np


def linear_assignment(X: Any) -> Any:
    """Return the pairs (row, column) of the assignment with the smallest cost, `(n, 2)`, sorted by row."""
    from scipy.optimize import linear_sum_assignment

    return np.stack(linear_sum_assignment(X), axis=1)


def Imputer(
    missing_values: Any = "NaN", strategy: str = "mean", axis: int = 0, verbose: int = 0, copy: bool = True
) -> Any:
    """
    Return a transformation that replaces missing values by a statistic of their column.

    Raises:
        ValueError: `axis` is 1. Today's class only has columns.
    """
    from sklearn.impute import SimpleImputer

    if axis != 0:
        raise ValueError("Imputer: expected axis=0, got 1. Transpose the data.")
    missing = np.nan if missing_values == "NaN" else missing_values
    return SimpleImputer(missing_values=missing, strategy=strategy, copy=copy)

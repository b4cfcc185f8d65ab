"""
Columns of CSV files and of scikit-learn's data sets, their preparation for a network, folds and scores.

tabular.py imports this module, which has all that scikit-learn does for it.
"""

from __future__ import annotations

import contextlib
import csv

import numpy as np
from sklearn import compose, datasets, ensemble, impute, metrics, model_selection, pipeline, preprocessing


def read_columns(path: str, categorical=()) -> dict:
    """Return the columns of a CSV file, or of a data set in scikit-learn: objects that are floats, or words."""
    if path in ("diabetes", "breast_cancer"):
        data = getattr(datasets, f"load_{path}")()
        target = data.target_names[data.target] if "target_names" in data else data.target
        return dict(zip(data.feature_names, data.data.T.astype(object)), target=target.astype(object))
    with open(path, newline="", encoding="utf-8") as file:
        columns = {name: np.array(values, object) for name, *values in zip(*csv.reader(file))}
    for name in columns.keys() - set(categorical):
        with contextlib.suppress(ValueError):  # words remain
            missing = np.isin(columns[name].astype(str), ["", "?", "NA"])
            columns[name] = np.where(missing, "nan", columns[name]).astype(float).astype(object)
    return columns


def split_target(columns: dict, name: str) -> tuple:
    """
    Return the rows without the target [N, D], the target [N], and the classes.

    If the target consists of words, or of two different numbers, it becomes the numbers of their classes.
    Otherwise, it is a float, and there are no classes.
    """
    rows = np.stack([values for key, values in columns.items() if key != name], axis=1)
    target = columns[name]
    if isinstance(target[0], str) or len(set(target)) == 2:
        classes, numbers = np.unique(target, return_inverse=True)
        return rows, numbers, classes
    return rows, target.astype(float), []


def find_words(rows: np.ndarray) -> list:
    """Return the positions of the columns with words."""
    return [k for k, value in enumerate(rows[0]) if isinstance(value, str)]


def make_preparation(rows: np.ndarray) -> compose.ColumnTransformer:
    """Return a transformer: standardizes numbers, replaces missing ones by the mean, and makes a column of each word."""
    words = find_words(rows)
    numbers = [k for k in range(rows.shape[1]) if k not in words]
    standardize = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    one_hot = preprocessing.OneHotEncoder(handle_unknown="ignore")
    return compose.make_column_transformer((standardize, numbers), (one_hot, words), sparse_threshold=0)


def make_folds(num_classes: int, count: int, seed: int) -> model_selection.BaseCrossValidator:
    """Return a splitter into random folds, which all have the same part of each class."""
    if num_classes:
        return model_selection.StratifiedKFold(count, shuffle=True, random_state=seed)
    return model_selection.KFold(count, shuffle=True, random_state=seed)


def score(y: np.ndarray, predicted: np.ndarray, num_classes: int) -> float:
    """Return the AUC of probabilities [N, C], the mean over the classes; without classes, the R2 of numbers [N]."""
    if num_classes:
        return metrics.roc_auc_score(np.eye(num_classes)[y], predicted)
    return metrics.r2_score(y, predicted)


def score_trees(x: np.ndarray, y: np.ndarray, num_classes: int, folds, seed: int) -> np.ndarray:
    """Return the scores of scikit-learn's boosted trees on the same folds."""
    trees = ensemble.HistGradientBoostingClassifier if num_classes else ensemble.HistGradientBoostingRegressor
    model = pipeline.make_pipeline(make_preparation(x), trees(random_state=seed))
    scoring = "roc_auc_ovr" if num_classes else "r2"
    return model_selection.cross_val_score(model, x, y, scoring=scoring, cv=folds)

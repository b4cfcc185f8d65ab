"""
Columns of CSV files and of scikit-learn's data sets, their preparation for a network, folds and scores.

tabular.py imports this module, which has all that scikit-learn does for it.
"""

from __future__ import annotations

import contextlib
import csv

import numpy as np
from sklearn import compose, datasets, ensemble, impute, linear_model, metrics, model_selection, pipeline, preprocessing

NAMED = ["breast_cancer", "diabetes", "friedman", "iris", "wine"]
MAX_NUMBERS = 10  # a target with so many different whole numbers may be a class,
MIN_ROWS = 5  # if each of them has so many rows on average


def load_named(name: str) -> dict:
    """Return the columns of a data set of scikit-learn."""
    if name == "friedman":  # Friedman 1991: a smooth function of five of the ten columns, with noise of variance 1
        rows, target = datasets.make_friedman1(3000, noise=1.0, random_state=0)
        names = [f"x{k}" for k in range(rows.shape[1])]
    else:
        data = getattr(datasets, f"load_{name}")()
        rows, target, names = data.data, data.target, data.feature_names
        if "target_names" in data:
            target = data.target_names[target]
    return dict(zip(names, rows.T.astype(object)), target=target.astype(object))


def read_columns(path: str, categorical=()) -> dict:
    """Return the columns of a CSV file, or of a data set in NAMED: arrays of objects that are floats, or words."""
    if path in NAMED:
        return load_named(path)
    with open(path, newline="", encoding="utf-8") as file:
        columns = {}
        for name, *values in zip(*csv.reader(file)):  # the columns, each with its name first
            columns[name] = np.array(values, object)
    for name in categorical:
        find_column(columns, name, path)
    for name in columns.keys() - set(categorical):
        missing = np.isin(columns[name].astype(str), ["", "?", "NA"])
        with contextlib.suppress(ValueError):  # words remain
            columns[name] = np.where(missing, "nan", columns[name]).astype(float).astype(object)
    return columns


def find_column(columns: dict, name: str, path: str) -> np.ndarray:
    """Return a column; if there is none of that name, end the program with a message that lists the names."""
    if name not in columns:
        raise SystemExit(f"{path} has no column {name!r}. Its columns are: {', '.join(columns)}.")
    return columns[name]


def is_classes(target: np.ndarray) -> bool:
    """Return whether a column consists of words, of two different values, or of few different whole numbers."""
    if isinstance(target[0], str):
        return True
    values = set(target)
    if len(values) == 2:
        return True
    is_whole = all(float(value).is_integer() for value in values)
    return is_whole and len(values) <= MAX_NUMBERS and len(target) >= MIN_ROWS * len(values)


def split_target(columns: dict, name: str, task: str = "auto") -> tuple:
    """
    Return the rows without the target [N, D], the target [N], and the classes.

    Classes are numbered from 0. Without classes, the target is a float.

    Args:
        columns: as of `read_columns`.
        name: that of the target.
        task: "classification", "regression", or "auto", which decides by `is_classes`.
    """
    rows = np.stack([values for key, values in columns.items() if key != name], axis=1)
    target = columns[name]
    if task == "classification" or (task == "auto" and is_classes(target)):
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
    return score_model(trees(random_state=seed), x, y, num_classes, folds)


def score_linear(x: np.ndarray, y: np.ndarray, num_classes: int, folds) -> np.ndarray:
    """Return the scores of logistic regression, or of ridge regression, on the same folds."""
    model = linear_model.LogisticRegression(max_iter=1000) if num_classes else linear_model.RidgeCV()
    return score_model(model, x, y, num_classes, folds)


def score_model(model, x: np.ndarray, y: np.ndarray, num_classes: int, folds) -> np.ndarray:
    """Return the score of a model of scikit-learn on each fold."""
    whole = pipeline.make_pipeline(make_preparation(x), model)
    scoring = "roc_auc_ovr" if num_classes else "r2"
    return model_selection.cross_val_score(whole, x, y, scoring=scoring, cv=folds)

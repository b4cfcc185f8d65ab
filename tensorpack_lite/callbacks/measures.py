"""Inferencers that compare predictions with labels: the usual measures of classification and regression, over all samples."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Iterator, Sequence

import numpy as np

from ..utils import logger
from ..utils.checks import check_at_least, check_type
from ..utils.naming import list_names
from .inference import Inferencer

_MAX_CLASSES = 20000  # of a confusion matrix, which then has 3 GB


class _Measure(Inferencer):
    """
    Base class for inferencers that compare predictions with labels.

    Subclasses set `_measures`, the names of the statistics, and `names`, the names of the classes or outputs that are
    also reported separately.
    """

    _measures: Sequence[str] = ()

    def __init__(self, prediction: str, label: str, names: Sequence[object], prefix: str) -> None:
        self.prediction, self.label, self.prefix = prediction, label, prefix
        self.names = [str(name) for name in names]
        if len({*self.names} - {""}) < len(self.names):
            raise ValueError(
                f"{type(self).__name__}: names are empty or equal (expected distinct names, got {self.names})."
            )
        self._num_values, self._num_columns = 0, 0
        self._seen: list[Any] = []  # of the round, for measures that need all samples at once

    @property
    def reported_names(self) -> list[str]:
        """The names of the reported statistics."""
        return [self._full_name(measure, name) for name in ["", *self.names] for measure in self._measures]

    def _full_name(self, measure: str, name: str = "") -> str:
        return "_".join(filter(None, [self.prefix, name, measure]))

    def _before_inference(self) -> None:
        self._num_values, self._num_columns = 0, 0
        self._seen = []

    def _get_fetches(self) -> list[str]:
        return [self.prediction, self.label]

    def _is_empty(self) -> bool:
        return self._num_values == 0

    def _error(self, what: str) -> ValueError:
        return ValueError(f"{self}: {what}")

    def _check_columns(self, kind: str, number: int) -> None:
        if self._num_columns not in (0, number):
            raise self._error(
                f"the number of {kind} differs between datapoints ({self._num_columns} and {number}). To leave out padding, "
                "use tf.boolean_mask in the model."
            )
        self._num_columns = number
        if self.names and number != len(self.names):
            raise self._error(
                f"wrong number of names (expected {number}, the number of {kind}, got {len(self.names)})."
            )

    def _class_numbers(self, name: str, values: np.ndarray, num_classes: int | None) -> np.ndarray:
        """Return the class numbers of a tensor as a vector of integers."""
        if values.dtype.kind in "OSU":
            raise self._error(f"'{name}' is not a tensor of class numbers (expected integers, got {values.dtype}).")
        with np.errstate(invalid="ignore"):  # NaN
            numbers = values.astype("int64").ravel()
        if numbers.size and (numbers.min() < 0 or np.any(numbers != values.ravel())):
            raise self._error(f"'{name}' is not a tensor of class numbers, which are 0, 1, 2, ...")
        if num_classes is not None and numbers.size and numbers.max() >= num_classes:
            raise self._error(
                f"expected class numbers below {num_classes}, got {numbers.max()} in '{name}'. To leave out samples, use "
                "tf.boolean_mask in the model."
            )
        return numbers

    def _split_classes(self, results: list[Any]) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return the scores [N, C] or predicted classes [N], the labels [N], and whether there are scores."""
        prediction, label = map(np.asarray, results)
        self._num_values += label.size
        if prediction.shape == label.shape and prediction.dtype.kind in "biu":
            predicted = self._class_numbers(self.prediction, prediction, None)
            return predicted, self._class_numbers(self.label, label, None), False
        if prediction.shape[:-1] == label.shape and prediction.ndim and prediction.shape[-1] > 1:
            num_classes = prediction.shape[-1]
            self._check_columns("classes", num_classes)
            scores = prediction.reshape([-1, num_classes]).astype("float64")
            return scores, self._class_numbers(self.label, label, num_classes), True
        raise self._error(
            "expected labels [N], and either scores [N, C] with C >= 2 or predicted classes [N] of an integer type, "
            f"got '{self.prediction}', {prediction.dtype}{list(prediction.shape)}, and '{self.label}', "
            f"{label.dtype}{list(label.shape)}. To convert one score per sample to a class, use "
            "tf.cast(score > 0.5, tf.int32)."
        )


class Accuracy(_Measure):
    """
    Fraction of correct predictions over all samples.

    Args:
        prediction: name of a tensor: scores `[N, C]` such as logits or probabilities, or predicted classes `[N]`,
            integers. With more dimensions, for example `[N, T, C]`, each element counts.
        label: name of a tensor `[N]` of class numbers.
        k: a prediction is correct if its label is among the `k` classes with the largest scores. Pass a list to report
            several values of `k`. Among equal scores, the smaller class number comes first, as in `argmax`. A
            prediction with a NaN counts as wrong.
        prefix: the fraction is reported as `<prefix>_accuracy`, or with `k=5` as `<prefix>_top5_accuracy`.

    Raises:
        ValueError: `k` is not positive; at a datapoint: `k` is larger than C, or the tensors have the wrong shape or
            type.

    Example:
        >>> InferenceRunner(df, Accuracy("logits", "label", k=[1, 5]))   # validation_accuracy, validation_top5_accuracy
    """

    def __init__(self, prediction: str, label: str, k: int | Sequence[int] = 1, prefix: str = "validation") -> None:
        super().__init__(prediction, label, [], prefix)
        several: Any = [k] if isinstance(k, Integral) else check_type("Accuracy: k", k, (list, tuple))
        self.k = [int(number) for number in several]
        check_at_least("Accuracy: k", min(self.k, default=0), 1)
        self._measures = ["accuracy" if each == 1 else f"top{each}_accuracy" for each in self.k]
        self._num_right = np.zeros(len(self.k), "int64")

    def _before_inference(self) -> None:
        super()._before_inference()
        self._num_right = np.zeros(len(self.k), "int64")

    def _on_fetches(self, results: list[Any]) -> None:
        prediction, label, has_scores = self._split_classes(results)
        num_classes = prediction.shape[1] if has_scores else 1
        if max(self.k) > num_classes:
            raise self._error(f"k is larger than the number of scores for each sample ({max(self.k)} > {num_classes}).")
        place = _place_of_label(prediction, label) if has_scores else (prediction != label)
        self._num_right += [np.count_nonzero(place < k) for k in self.k]

    def _after_inference(self) -> dict[str, Any]:
        return dict(zip(self.reported_names, self._num_right / self._num_values))


def _place_of_label(scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the place of each label in the descending order of the scores, 0 for the first one."""
    own, num_classes = np.take_along_axis(scores, label[:, np.newaxis], axis=1), scores.shape[1]
    with np.errstate(invalid="ignore"):  # NaN
        is_before = (scores > own) | ((scores == own) & (np.arange(num_classes) < label[:, np.newaxis]))
    return np.where(np.isnan(scores).any(axis=1), num_classes, is_before.sum(axis=1))


class ConfusionMatrix(_Measure):
    """
    Confusion matrix over all samples, with precision, recall and F1.

    Each statistic is reported as `<prefix>_precision`, `<prefix>_recall` or `<prefix>_f1`, and is the mean over the
    classes that occur among labels or predictions (`average="macro"` in scikit-learn). The ratio 0/0 counts as 0.

    Args:
        prediction, label: as in `Accuracy`. A prediction with a NaN counts as wrong and is not in the matrix.
        class_names: names of the classes. If given, each class that occurs is also reported separately, such as
            `<prefix>_cat_f1`.
        prefix: see above.

    Raises:
        ValueError: at a datapoint: the tensors have the wrong shape or type, or the number of classes differs from the
            number of names.

    Attributes:
        matrix: array `[C, C]` of the last round. Entry `[i, j]` is the number of samples of class i that are predicted
            as j. With several ranks, only the chief has the matrix.

    Example:
        >>> InferenceRunner(df, ConfusionMatrix("logits", "label", class_names=["cat", "dog"]))
    """

    _measures = ("precision", "recall", "f1")

    def __init__(
        self, prediction: str, label: str, class_names: Sequence[object] = (), prefix: str = "validation"
    ) -> None:
        super().__init__(prediction, label, class_names, prefix)
        self.matrix = np.zeros([len(self.names)] * 2, "int64")
        self._num_failed = np.zeros(len(self.names), "int64")  # predictions with a NaN

    def _before_inference(self) -> None:
        super()._before_inference()
        self.matrix = np.zeros([len(self.names)] * 2, "int64")
        self._num_failed = np.zeros(len(self.names), "int64")

    def _on_fetches(self, results: list[Any]) -> None:
        prediction, label, has_scores = self._split_classes(results)
        if not label.size:
            return
        is_valid = np.full(label.shape, True)
        num_classes = int(max(label.max(), prediction.max())) + 1
        if has_scores:
            num_classes, is_valid = prediction.shape[1], ~np.isnan(prediction).any(axis=1)
            prediction = prediction.argmax(axis=1)
        if num_classes > _MAX_CLASSES:
            raise self._error(
                f"the largest class number is {num_classes - 1} (expected at most {_MAX_CLASSES} classes)."
            )
        if self.names:
            self._check_columns("classes", max(num_classes, len(self.names)))
        missing = max(0, num_classes - len(self.matrix))
        self.matrix = np.pad(self.matrix, (0, missing), "constant")
        self._num_failed = np.pad(self._num_failed, (0, missing), "constant")
        np.add.at(self.matrix, (label[is_valid], prediction[is_valid]), 1)
        np.add.at(self._num_failed, label[~is_valid], 1)

    def _after_inference(self) -> dict[str, Any]:
        num_right = np.diag(self.matrix)
        num_predicted, num_labels = self.matrix.sum(axis=0), self.matrix.sum(axis=1) + self._num_failed
        totals = {"precision": num_predicted, "recall": num_labels, "f1": (num_predicted + num_labels) / 2}
        occurs = num_predicted + num_labels > 0
        numbers = {}
        for measure, total in totals.items():
            ratios = num_right / np.maximum(total, 0.5)
            numbers[self._full_name(measure)] = ratios[occurs].mean()
            for name, ratio in zip(np.array(self.names)[occurs] if self.names else (), ratios[occurs]):
                numbers[self._full_name(measure, name)] = ratio
        return numbers


class AUC(_Measure):
    """
    Area under the ROC curve over all samples: how often a positive sample has a larger score than a negative one.

    The area is reported as `<prefix>_auc`. With several classes, `<prefix>_auc` is the mean of the one-vs-rest areas.

    Args:
        score: name of a tensor: scores `[N]` for two classes, or `[N, C]`, such as logits or probabilities.
        label: name of a tensor. For scores `[N]`: `[N]`, 0 or 1. For scores `[N, C]`: class numbers `[N]`; or `[N, C]`,
            0 or 1, if a sample may belong to several classes.
        class_names: names of the classes. If given, each class is also reported separately, such as `<prefix>_cat_auc`.
        prefix: see above.

    Raises:
        ValueError: at a datapoint: the tensors have the wrong shape, a label is not valid, or the number of classes
            differs from the number of names.

    Example:
        >>> InferenceRunner(df, AUC("probability", "label"))

    Note: all scores and labels of a round are kept in memory. If all labels of a class are equal, its area is
    undefined: the class is omitted from the mean, and a warning is logged. If a score is NaN, the area is NaN.
    """

    _measures = ("auc",)

    def __init__(self, score: str, label: str, class_names: Sequence[object] = (), prefix: str = "validation") -> None:
        super().__init__(score, label, class_names, prefix)
        self._warned_of: list[str] = []

    def _on_fetches(self, results: list[Any]) -> None:
        score, label = map(np.asarray, results)
        self._num_values += score.size
        if score.shape == label.shape and score.ndim in (1, 2):
            self._class_numbers(self.label, label, 2)
            is_positive = (label[:, np.newaxis] if label.ndim == 1 else label).astype(bool)
        elif score.ndim == 2 and score.shape[:1] == label.shape and score.shape[1] > 1:
            numbers = self._class_numbers(self.label, label, score.shape[1])
            is_positive = numbers[:, np.newaxis] == np.arange(score.shape[1])
        else:
            raise self._error(
                f"expected scores and labels of the shape [N] or [N, C], or scores [N, C] and labels [N], got '{self.prediction}' "
                f"of shape {score.shape} and '{self.label}' of shape {label.shape}."
            )
        self._check_columns("classes", is_positive.shape[1])
        self._seen.append((score.reshape(is_positive.shape), is_positive))

    def _after_inference(self) -> dict[str, Any]:
        scores, labels = (np.concatenate(parts) for parts in zip(*self._seen))
        names = self.names or [str(number) for number in range(scores.shape[1])]
        areas = dict(zip(names, map(_area_under_curve, scores.T, labels.T)))
        undefined = [name for name, area in areas.items() if area is None]
        if undefined and undefined != self._warned_of:
            self._warned_of = undefined
            logger.warning(
                f"{self}: the area is undefined for class {list_names(undefined)}, because all labels are equal. "
                f"'{self._full_name('auc')}' is the mean of the other classes."
            )
        numbers = {name: area for name, area in areas.items() if area is not None}
        own = {self._full_name("auc", name): numbers[name] for name in self.names if name in numbers}
        return {self._full_name("auc"): np.mean(list(numbers.values())), **own} if numbers else {}


def _area_under_curve(scores: np.ndarray, is_positive: np.ndarray) -> float | None:
    """Return the area under the ROC curve from the sum of the ranks of the positive samples; None if it is not defined."""
    num_positive = np.count_nonzero(is_positive)
    num_pairs = num_positive * (len(scores) - num_positive)
    if not num_pairs:
        return None
    values, places, counts = np.unique(scores.astype("float64"), return_inverse=True, return_counts=True)
    if np.isnan(values).any():
        return float("nan")
    ranks = np.cumsum(counts) - (counts - 1) / 2  # equal scores share the mean of their ranks
    rank_sum = ranks[places.ravel()][is_positive].sum()
    return float((rank_sum - num_positive * (num_positive + 1) / 2) / num_pairs)


class RegressionErrors(_Measure):
    """
    Mean absolute error, root mean squared error and coefficient of determination over all samples.

    The statistics are reported as `<prefix>_mae`, `<prefix>_rmse` and `<prefix>_r2`. With several outputs, each
    statistic is the mean over the outputs, as in scikit-learn.

    Args:
        prediction: name of a tensor `[N]`, or `[N, D]` with D outputs.
        label: name of a tensor of the same shape.
        output_names: names of the outputs. If given, each output is also reported separately, such as
            `<prefix>_width_mae`.
        prefix: see above.

    Raises:
        ValueError: at a datapoint: the shapes differ, or the number of outputs differs from the number of names.

    Example:
        >>> InferenceRunner(df, RegressionErrors("price", "label"))

    Note: `r2` is not reported for fewer than two samples. If all labels are equal, `r2` is 1 if all predictions are
    exact, and 0 otherwise.
    """

    _measures = ("mae", "rmse", "r2")

    def __init__(
        self, prediction: str, label: str, output_names: Sequence[object] = (), prefix: str = "validation"
    ) -> None:
        super().__init__(prediction, label, output_names, prefix)

    def _on_fetches(self, results: list[Any]) -> None:
        prediction, label = map(np.asarray, results)
        self._num_values += label.size
        if prediction.shape != label.shape or prediction.ndim not in (1, 2):
            raise self._error(
                f"expected predictions and labels of the same shape, [N] or [N, D], got '{self.prediction}' of shape "
                f"{prediction.shape} and '{self.label}' of shape {label.shape}. Use tf.reshape(x, [-1]), or tf.squeeze(x, 1)."
            )
        num_outputs = prediction.shape[1] if prediction.ndim == 2 else 1
        self._check_columns("outputs", num_outputs)
        both = np.stack([prediction.astype("float64"), label.astype("float64")])
        self._seen.append(both.reshape([2, len(label), num_outputs]))

    def _after_inference(self) -> dict[str, Any]:
        prediction, label = np.concatenate(self._seen, axis=1)
        return dict(self._numbers(prediction - label, label))

    def _numbers(self, errors: np.ndarray, label: np.ndarray) -> Iterator[tuple[str, float]]:
        squares, deviations = (errors**2).sum(axis=0), ((label - label.mean(axis=0)) ** 2).sum(axis=0)
        found = {"mae": np.abs(errors).mean(axis=0), "rmse": np.sqrt(squares / len(label))}
        if len(label) > 1:
            is_constant = (label == label[0]).all(axis=0)
            ratio = squares / np.where(is_constant, 1.0, deviations)
            found["r2"] = np.where(is_constant, squares == 0, 1 - ratio)
        for measure, values in found.items():
            yield self._full_name(measure), values.mean()
            yield from zip([self._full_name(measure, name) for name in self.names], values)

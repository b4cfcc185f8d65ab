"""Inferencers: statistics of a model's outputs over a data set."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, Sequence

import numpy as np

from ..loop.callback import Callback
from ..tfutils.common import get_op_tensor_name
from ..tfutils.tower.handle import TowerTensorHandle
from ..utils import logger
from ..utils.checks import check_at_least, check_type
from ..utils.stats import BinaryStatistics, RatioCounter


class Inferencer(Callback):
    """
    Base class for the statistics of an `InferenceRunner`: override the methods with an underscore.

    Each round calls `_before_inference` once, `_on_fetches` with the values of `_get_fetches` for each datapoint, and
    `_after_inference` once, and reports the returned numbers to `trainer.monitors`. Datapoints without samples are
    skipped. If a round has no others, a warning is logged, `_after_inference` is not called, and nothing is reported.
    Of a callback's other methods, only `_setup_graph`, `state_dict` and `load_state_dict` are called.

    Attributes:
        datapoint_size: number of samples of the datapoint in `_on_fetches`: the first dimension of the model's inputs.
        is_size_certain: False if `datapoint_size` is a guess: the inputs disagree, or the inputs could be one sample
            without a batch dimension.

    Example:
        >>> class Largest(Inferencer):
        ...     def _before_inference(self): self.largest = -np.inf
        ...     def _get_fetches(self): return ["logits"]
        ...     def _on_fetches(self, outputs): self.largest = max(self.largest, outputs[0].max())
        ...     def _after_inference(self): return {"largest_logit": self.largest}
    """

    _datapoint = (1, True)
    _num_fetched = 0  # datapoints of the round

    @property
    def datapoint_size(self) -> int:
        """Number of samples of the current datapoint."""
        return self._datapoint[0]

    @property
    def is_size_certain(self) -> bool:
        """Whether `datapoint_size` is not a guess."""
        return self._datapoint[1]

    def begin_datapoint(self, size: int, is_certain: bool) -> None:
        """Take the number of samples of the datapoint whose values follow; called by the runner."""
        self._datapoint = (size, is_certain)

    @property
    def reported_names(self) -> list[str]:
        """The names of the numbers that `_after_inference` returns, if they are known before; otherwise empty."""
        return []

    def get_fetches(self) -> list[str]:
        """Return the names of the tensors to evaluate, each with `:0`."""
        return [get_op_tensor_name(name)[1] for name in self._get_fetches()]

    def _find_tensors(self, tower: TowerTensorHandle) -> list[Any]:
        """Return the tensors of a tower to evaluate."""
        return tower.get_tensors(self.get_fetches())

    def on_fetches(self, results: list[Any]) -> None:
        """Process the values of one datapoint."""
        self._num_fetched += 1
        self._on_fetches(results)

    def _before_epoch(self) -> None:
        self._num_fetched = 0
        self._before_inference()

    def get_numbers(self) -> dict[str, float]:
        """End the round and return the numbers to report, which are none if the data was empty."""
        if self._is_empty():
            logger.warning("%s: the data is empty, so nothing is reported.", self)
            return {}
        numbers = {}
        for name, value in (self._after_inference() or {}).items():
            try:
                numbers[name] = float(value)
            except (TypeError, ValueError):
                logger.warning("%s: '%s' is not reported (expected a number, got %r).", self, name, value)
        return numbers

    def _trigger_epoch(self) -> None:
        for name, number in self.get_numbers().items():
            self.trainer.monitors.put_scalar(name, number)

    def _is_empty(self) -> bool:
        """Return whether the round has had no sample."""
        return self._num_fetched == 0

    def _before_inference(self) -> None:
        """Prepare for a new round."""

    @abstractmethod
    def _get_fetches(self) -> Sequence[str]:
        """Return the names of the tensors to evaluate, without the tower's name."""
        raise NotImplementedError

    @abstractmethod
    def _on_fetches(self, results: list[Any]) -> None:
        """
        Process one datapoint.

        Args:
            results: the values of `_get_fetches`, in this order.
        """
        raise NotImplementedError

    def _after_inference(self) -> dict[str, Any] | None:
        """End a round and return the numbers to report, by name, or None."""
        return None


class WithGuests:
    """Base class for runners of the inferencers `infs`, and of guests, which extensions add."""

    infs: list[Any]
    _guests: Sequence[Inferencer] = ()

    def add_guest(self, inf: Inferencer) -> None:
        """Add an inferencer that is not a setting, has no state and reports nothing. Call it before `setup_graph`."""
        self._guests = [*self._guests, inf]

    @property
    def _all_infs(self) -> list[Any]:
        return [*self.infs, *self._guests]


class ScalarStats(Inferencer):
    """
    Mean of scalar tensors over the samples. Each tensor is the mean over a datapoint, and the datapoint is weighted by
    its number of samples.

    The result is therefore right for batches of different sizes. The sizes are uncertain if the inputs of the model
    disagree, if an input is a scalar, if the first dimension of some inputs is fixed and that of others may vary, or if
    all inputs have further dimensions that may vary, as in [None, None, 3]. If uncertain sizes differ, all datapoints
    have the same weight, and a warning is logged.

    Args:
        names: name of a scalar tensor, or a list of names.
        prefix: the mean is reported as `<prefix>_<name>`, or as `<name>` if `prefix` is empty.
        weight: weight of a datapoint. None uses its number of samples, the first dimension of the model's inputs; 1
            uses equal weights; a string names a scalar tensor, such as the number of words that are not padding.

    Raises:
        TypeError: `weight` has another type.
        ValueError: `weight` is negative; at the first datapoint: a tensor is not a scalar.

    Example:
        >>> InferenceRunner(df, ScalarStats(["cost", "accuracy"]))       # validation_cost, validation_accuracy

    Note: a sum over the samples depends on the batch size. In the model, divide the sum by the number of samples. A
    ratio such as F1 cannot be averaged over batches: use `ConfusionMatrix` or `AUC`.

    Difference from tensorpack: in tensorpack 0.11, all datapoints have the same weight.
    """

    weight: str | float | None = None  # also in subclasses that do not call __init__
    _has_warned = False

    def __init__(
        self, names: str | Sequence[str], prefix: str = "validation", weight: str | float | None = None
    ) -> None:
        self.names = [names] if isinstance(names, str) else list(names)
        self.prefix = prefix
        self.weight = check_type("ScalarStats: weight", weight, (str, Real, type(None)))
        if not isinstance(weight, str) and weight is not None:
            check_at_least("ScalarStats: weight", weight, 0)
        self._reset()

    @property
    def reported_names(self) -> list[str]:
        """The names of the means."""
        labels = [get_op_tensor_name(name)[0] for name in self.names]
        return [f"{self.prefix}_{label}" if self.prefix else label for label in labels]

    def _reset(self) -> None:
        self._sums, self._weighted_sums = np.zeros([2, len(self.names)])
        self._num_datapoints, self._total_weight = 0, 0.0
        self._weights: set[float] = set()
        self._is_certain = True

    def _before_inference(self) -> None:
        self._reset()

    def _get_fetches(self) -> list[str]:
        return [*self.names, self.weight] if isinstance(self.weight, str) else self.names

    def _on_fetches(self, results: list[Any]) -> None:
        for name, result in zip(self._get_fetches(), results):
            if np.ndim(result) != 0:
                raise ValueError(
                    f"ScalarStats: expected a scalar, got '{name}' of shape {np.shape(result)}. Take its mean."
                )
        values = np.asarray(results[: len(self.names)], dtype="float64")
        weight = float(results[-1]) if isinstance(self.weight, str) else self._given_weight()
        if weight < 0:
            raise ValueError(f"ScalarStats: the weight of a datapoint is negative (expected >= 0, got {weight:g}).")
        if weight == 0:
            return  # the mean of nothing is often NaN
        self._sums += values
        self._num_datapoints += 1
        self._weighted_sums += weight * values
        self._total_weight += weight
        self._weights.add(weight)

    def _given_weight(self) -> float:
        """Return the weight of a datapoint if `weight` does not name a tensor."""
        if not isinstance(self.weight, str) and self.weight is not None:
            return self.weight
        self._is_certain = self._is_certain and self.is_size_certain
        return self.datapoint_size

    def _after_inference(self) -> dict[str, Any]:
        if not self._weights:
            logger.warning("%s: the weight of all datapoints is 0, so nothing is reported.", self)
            return {}
        are_equal = len(self._weights) == 1  # then the mean has no further rounding
        if not are_equal and not self._is_certain and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "ScalarStats: all datapoints have the same weight in the mean, because the inputs do not show whether "
                "their first dimension is the number of samples. Pass weight=1 to confirm equal weights, or the name "
                "of a scalar tensor that holds the number of samples."
            )
        if are_equal or not self._is_certain:
            means = self._sums / self._num_datapoints
        else:
            means = self._weighted_sums / self._total_weight
        return dict(zip(self.reported_names, means))


class ClassificationError(Inferencer):
    """
    Fraction of wrong predictions over all examples.

    Args:
        wrong_tensor_name: name of a tensor [N], 1 for each wrong example and 0 for each right one.
        summary_name: name under which the fraction is reported.

    Raises:
        ValueError: at the first datapoint: the tensor is not a vector.

    Attributes:
        err_stat: a `RatioCounter` of the last round.

    Example:
        >>> wrong = tf.logical_not(tf.nn.in_top_k(logits, label, 1))
        >>> tf.cast(wrong, tf.float32, name="wrong-top1")
        >>> InferenceRunner(df, ClassificationError("wrong-top1"))
    """

    def __init__(self, wrong_tensor_name: str = "incorrect_vector", summary_name: str = "validation_error") -> None:
        self.wrong_tensor_name = wrong_tensor_name
        self.summary_name = summary_name
        self.err_stat = RatioCounter()

    def _before_inference(self) -> None:
        self.err_stat = RatioCounter()

    def _get_fetches(self) -> list[str]:
        return [self.wrong_tensor_name]

    def _on_fetches(self, results: list[Any]) -> None:
        wrong = np.asarray(results[0])
        if wrong.ndim != 1:
            raise ValueError(
                "ClassificationError: expected a vector [N] with 1 for each wrong example, got "
                f"'{self.wrong_tensor_name}' of shape {wrong.shape}."
            )
        is_whole = wrong.dtype.kind in "biu"
        self.err_stat.feed(np.sum(wrong if is_whole else wrong.astype("float64")), len(wrong))

    def _is_empty(self) -> bool:
        return self.err_stat.total == 0

    @property
    def reported_names(self) -> list[str]:
        """The name of the error."""
        return [self.summary_name]

    def _after_inference(self) -> dict[str, Any]:
        return {self.summary_name: self.err_stat.ratio}


class BinaryClassificationStats(Inferencer):
    """
    Precision and recall of binary predictions over all examples.

    Args:
        pred_tensor_name: name of the predictions, 0 or 1, of any shape.
        label_tensor_name: name of the labels, 0 or 1, of the same shape.
        prefix: the results are reported as `<prefix>_precision` and `<prefix>_recall`. The default, "val", is tensorpack's, so
            monitors in its scripts find the names; other inferencers have "validation".

    Raises:
        ValueError: at a datapoint: the shapes differ, or a value is neither 0 nor 1.
    """

    def __init__(self, pred_tensor_name: str, label_tensor_name: str, prefix: str = "val") -> None:
        self.pred_tensor_name = pred_tensor_name
        self.label_tensor_name = label_tensor_name
        self.prefix = prefix
        self.stat = BinaryStatistics()

    def _before_inference(self) -> None:
        self.stat = BinaryStatistics()

    def _get_fetches(self) -> list[str]:
        return [self.pred_tensor_name, self.label_tensor_name]

    def _on_fetches(self, results: list[Any]) -> None:
        pred, label = results
        self.stat.feed(pred, label)

    def _is_empty(self) -> bool:
        return self.stat.nr_pos + self.stat.nr_neg == 0

    @property
    def reported_names(self) -> list[str]:
        """The names of precision and recall."""
        return [f"{self.prefix}_precision", f"{self.prefix}_recall"]

    def _after_inference(self) -> dict[str, Any]:
        return dict(zip(self.reported_names, (self.stat.precision, self.stat.recall)))

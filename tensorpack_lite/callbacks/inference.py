"""What to compute from the outputs of a model over a data set."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Sequence

import numpy as np

from ..loop.callback import Callback
from ..tfutils.common import get_op_tensor_name
from ..utils import logger
from ..utils.stats import BinaryStatistics, RatioCounter

__all__ = ["BinaryClassificationStats", "ClassificationError", "Inferencer", "ScalarStats"]


class Inferencer(Callback):
    """
    Base class of what an `InferenceRunner` computes: override the methods with an underscore.

    In each round: `_before_inference`; for each datapoint, `_on_fetches` with the values of `_get_fetches`;
    `_after_inference`, whose numbers go to `trainer.monitors`. Of the moments of a callback only `_setup_graph` is used.

    Example:
        >>> class Largest(Inferencer):
        ...     def _before_inference(self): self.largest = -np.inf
        ...     def _get_fetches(self): return ["logits"]
        ...     def _on_fetches(self, outputs): self.largest = max(self.largest, outputs[0].max())
        ...     def _after_inference(self): return {"largest_logit": self.largest}

    tensorpack: same.
    """

    def get_fetches(self) -> list[str]:
        """Give the names of the tensors to evaluate, each with `:0`."""
        return [get_op_tensor_name(name)[1] for name in self._get_fetches()]

    def on_fetches(self, results: list[Any]) -> None:
        """Take in the values of one datapoint."""
        self._on_fetches(results)

    def _before_epoch(self) -> None:
        self._before_inference()

    def get_numbers(self) -> dict[str, float]:
        """End the round: give the numbers to report."""
        numbers = {}
        for name, value in (self._after_inference() or {}).items():
            try:
                numbers[name] = float(value)
            except (TypeError, ValueError):
                logger.warning("%s: '%s' is %r, which is no number, and is not reported.", self, name, value)
        return numbers

    def _trigger_epoch(self) -> None:
        for name, number in self.get_numbers().items():
            self.trainer.monitors.put_scalar(name, number)

    def _before_inference(self) -> None:
        """Called at the beginning of a round."""

    @abstractmethod
    def _get_fetches(self) -> Sequence[str]:
        """Give the names of the tensors to evaluate, without the tower's name."""
        raise NotImplementedError

    @abstractmethod
    def _on_fetches(self, results: list[Any]) -> None:
        """
        Take in one datapoint.

        Args:
            results: the values of `_get_fetches`, in this order.
        """
        raise NotImplementedError

    def _after_inference(self) -> dict[str, Any] | None:
        """Called at the end of a round; gives the numbers to report, by name, or None."""
        return None


class ScalarStats(Inferencer):
    """
    The mean of scalar tensors over the datapoints, each datapoint counting the same.

    Args:
        names: names of tensors, each a scalar; one or a list.
        prefix: reported as `<prefix>_<name>`, or as `<name>` if it is empty.

    Raises:
        ValueError: at the first datapoint, a tensor is no scalar.

    Example:
        >>> InferenceRunner(df, ScalarStats(["cost", "accuracy"]))       # validation_cost, validation_accuracy

    Note: the mean over batches is not that over examples if the last batch is smaller.

    tensorpack: same.
    """

    def __init__(self, names: str | Sequence[str], prefix: str = "validation") -> None:
        self.names = [names] if isinstance(names, str) else list(names)
        self.prefix = prefix
        self._sums = np.zeros(len(self.names))
        self._num_datapoints = 0

    def _before_inference(self) -> None:
        self._sums = np.zeros(len(self.names))
        self._num_datapoints = 0

    def _get_fetches(self) -> list[str]:
        return self.names

    def _on_fetches(self, results: list[Any]) -> None:
        for name, result in zip(self.names, results):
            if np.ndim(result) != 0:
                raise ValueError(
                    f"ScalarStats: '{name}' has shape {np.shape(result)}, wanted a scalar. Take its mean."
                )
        self._sums += np.asarray(results, dtype="float64")
        self._num_datapoints += 1

    def _after_inference(self) -> dict[str, Any]:
        if self._num_datapoints == 0:
            logger.warning("ScalarStats: there was no datapoint, so nothing is reported.")
            return {}
        labels = [get_op_tensor_name(name)[0] for name in self.names]
        if self.prefix:
            labels = [f"{self.prefix}_{label}" for label in labels]
        return dict(zip(labels, self._sums / self._num_datapoints))


class ClassificationError(Inferencer):
    """
    The share of wrong answers over all examples.

    Args:
        wrong_tensor_name: a tensor [N], 1 for each wrong example and 0 for each right one.
        summary_name: reported under this name.

    Raises:
        ValueError: at the first datapoint, the tensor is no vector.

    Attributes:
        err_stat: a `RatioCounter` of the last round.

    Example:
        >>> wrong = tf.logical_not(tf.nn.in_top_k(logits, label, 1))
        >>> tf.cast(wrong, tf.float32, name="wrong-top1")
        >>> InferenceRunner(df, ClassificationError("wrong-top1"))

    tensorpack: same.
    """

    def __init__(
        self, wrong_tensor_name: str = "incorrect_vector", summary_name: str = "validation_error"
    ) -> None:
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
                f"ClassificationError: '{self.wrong_tensor_name}' has shape {wrong.shape}, wanted a vector [N] with 1 for "
                "each wrong example."
            )
        self.err_stat.feed(np.sum(wrong), len(wrong))

    def _after_inference(self) -> dict[str, Any]:
        return {self.summary_name: self.err_stat.ratio}


class BinaryClassificationStats(Inferencer):
    """
    Precision and recall of yes-or-no answers over all examples.

    Args:
        pred_tensor_name: the answers, 0 or 1, of any shape.
        label_tensor_name: the truth, 0 or 1, of the same shape.
        prefix: reported as `<prefix>_precision` and `<prefix>_recall`.

    Raises:
        ValueError: at a datapoint, the shapes differ, or a value is neither 0 nor 1.

    tensorpack: same.
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

    def _after_inference(self) -> dict[str, Any]:
        return {f"{self.prefix}_precision": self.stat.precision, f"{self.prefix}_recall": self.stat.recall}

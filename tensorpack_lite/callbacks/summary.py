"""Callbacks that keep moving averages and evaluate summaries."""

from __future__ import annotations

from collections import deque
from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..compat.private import add_control_inputs
from ..loop.callback import Callback
from ..tfutils.common import get_op_tensor_name
from ..tfutils.dependency import dependency_of_fetches
from ..utils import logger
from ..utils.naming import MOVING_SUMMARY_OPS_KEY, STAGING_OPS_KEY

__all__ = [
    "MergeAllSummaries",
    "MergeAllSummariesRunAlone",
    "MergeAllSummariesRunWithOp",
    "MovingAverageSummary",
    "SimpleMovingAverage",
]


class MovingAverageSummary(Callback):
    """
    Update the moving averages that `summary.add_moving_summary` made, in every step.

    Args:
        collection: the collection with the updates.
        train_op: an operation, a tensor or a name; if given, the updates run before it wherever it runs, instead of along
            with every run of the hooked session.

    Raises:
        TypeError: `train_op` is something else.
        KeyError: in `setup_graph`, there is no operation of that name.

    Runs at: setup_graph, every run.

    tensorpack: same.
    """

    def __init__(self, collection: str = MOVING_SUMMARY_OPS_KEY, train_op: Any = None) -> None:
        if train_op is not None and not isinstance(train_op, (str, tf.Operation, tf.Tensor)):
            raise TypeError(
                f"MovingAverageSummary: train_op is {type(train_op).__name__}, wanted an operation, a tensor or a name."
            )
        self._collection = collection
        self._train_op = train_op
        self._args: Any = None

    def _setup_graph(self) -> None:
        updates = tf.get_collection(self._collection)
        logger.info(
            "MovingAverageSummary: %d operations of collection '%s' run with every step.",
            len(updates),
            self._collection,
        )
        group = tf.group(*updates, name="maintain_moving_average_summary")
        if not updates:
            return
        if self._train_op is None:
            self._args = tf.train.SessionRunArgs([group])
        else:
            add_control_inputs(self._find_train_op(), [group])

    def _before_run(self, ctx: Any) -> Any:
        return self._args

    def _find_train_op(self) -> Any:
        if isinstance(self._train_op, tf.Tensor):
            return self._train_op.op
        if isinstance(self._train_op, str):
            return self.graph.get_operation_by_name(get_op_tensor_name(self._train_op)[0])
        return self._train_op


def MergeAllSummaries(period: int = 0, run_alone: bool = False, key: str | None = None) -> Callback:  # noqa: N802
    """
    Function: returns a callback that evaluates all summaries and hands them to `trainer.monitors`.

    Args:
        period: evaluate every so many steps of an epoch too; 0 means at the end of each epoch only.
        run_alone: evaluate them in a run of their own, not along with the last step of the epoch. Choose it when a
            summary must not influence the step; a summary that needs input data then takes a datapoint of its own.
        key: the collection of summaries; None means `SUMMARIES`.

    Returns:
        A `MergeAllSummariesRunWithOp` or a `MergeAllSummariesRunAlone`.

    Raises:
        ValueError: `period` is negative.

    tensorpack: same.
    """
    if period < 0:
        raise ValueError(f"MergeAllSummaries: period is {period}, wanted 0 or more steps.")
    key = tf.GraphKeys.SUMMARIES if key is None else key
    return (MergeAllSummariesRunAlone if run_alone else MergeAllSummariesRunWithOp)(period, key)


class MergeAllSummariesRunWithOp(Callback):
    """
    Evaluate all summaries along with the last step of each epoch, and with every `period`-th step.

    Args:
        period: as in `MergeAllSummaries`.
        key: the collection of summaries.

    Runs at: setup_graph, and in the steps that are due, every run.

    tensorpack: same.
    """

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._args: Any = None
        self._loop: Any = None

    def _setup_graph(self) -> None:
        merged = _merge_all(self._key)
        self._args = None if merged is None else tf.train.SessionRunArgs(merged)

    def _before_train(self) -> None:
        self._loop = self.trainer.loop

    def _before_run(self, ctx: Any) -> Any:
        if self._args is None:
            return None
        steps = self._loop.local_step + 1
        is_due = steps == self._loop.steps_per_epoch or (self._period > 0 and steps % self._period == 0)
        return self._args if is_due else None

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        if run_values.results is not None:
            self.trainer.monitors.put_summary(run_values.results)


class MergeAllSummariesRunAlone(Callback):
    """
    Evaluate all summaries in a run of their own, at each trigger and after every `period`-th step.

    Such a run also brings in as many staged datapoints as it takes.

    Args:
        period: as in `MergeAllSummaries`.
        key: the collection of summaries.

    Runs at: setup_graph, trigger_step, trigger.

    tensorpack: same; there a step that ends a period and the epoch evaluates twice, here once.
    """

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._merged: Any = None
        self._puts: list[Any] = []
        self._evaluated_at_step = -1

    def _setup_graph(self) -> None:
        self._merged = _merge_all(self._key)
        staging = tf.get_collection(STAGING_OPS_KEY)
        # Without the puts, the areas would be empty afterwards, and the next step would wait for ever.
        self._puts = [
            put for get, put in zip(staging[::2], staging[1::2]) if dependency_of_fetches(self._merged, get)
        ]

    def _trigger_step(self) -> None:
        if self._period > 0 and (self.local_step + 1) % self._period == 0:
            self._evaluated_at_step = self.global_step
            self._evaluate()

    def _trigger(self) -> None:
        if self._evaluated_at_step != self.global_step:
            self._evaluate()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the step of the last evaluation inside an epoch."""
        return {"evaluated_at_step": self._evaluated_at_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take that step, so that an epoch that ends with it evaluates once."""
        self._evaluated_at_step = state["evaluated_at_step"]

    def _evaluate(self) -> None:
        if self._merged is not None:
            self.trainer.monitors.put_summary(self.trainer.sess.run([self._merged, *self._puts])[0])


class SimpleMovingAverage(Callback):
    """
    Report the mean of scalars over windows of runs, as `<name>/SMA`.

    Args:
        tensors: names of tensors, each a scalar; a single name is taken as well.
        window_size: the number of runs in a window, > 0; the mean is reported when `global_step` is a multiple of it.

    Raises:
        ValueError: `window_size` is not positive, or before training, a tensor is no scalar.

    Runs at: before_train, every run, trigger_step.

    tensorpack: same; there a single name is read letter by letter.
    """

    def __init__(self, tensors: Sequence[str], window_size: int) -> None:
        if window_size < 1:
            raise ValueError(f"SimpleMovingAverage: window_size is {window_size}, wanted at least 1.")
        self._names = [tensors] if isinstance(tensors, str) else list(tensors)
        self._labels = [f"{get_op_tensor_name(name)[0]}/SMA" for name in self._names]
        self._window_size = window_size
        self._values: deque[list[float]] = deque(maxlen=window_size)
        self._args: Any = None

    def _before_train(self) -> None:
        tensors = self.get_tensors_maybe_in_tower(self._names)
        for name, tensor in zip(self._names, tensors):
            if tensor.shape.ndims not in (0, None):
                raise ValueError(f"SimpleMovingAverage: '{name}' has shape {tensor.shape}, wanted a scalar.")
        self._args = tf.train.SessionRunArgs(tensors)

    def _before_run(self, ctx: Any) -> Any:
        return self._args

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        self._values.append(run_values.results)

    def _trigger_step(self) -> None:
        if self.global_step % self._window_size == 0 and self._values:
            for label, mean in zip(self._labels, np.mean(self._values, axis=0)):
                self.trainer.monitors.put_scalar(label, mean)


def _merge_all(key: str) -> Any:
    """Merge the summaries of a collection into one tensor; None if it is empty."""
    logger.info("MergeAllSummaries: collection '%s' holds %d summaries.", key, len(tf.get_collection(key)))
    return tf.summary.merge_all(key)

"""Callbacks that update moving averages and evaluate summaries."""

from __future__ import annotations

from collections import deque
from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..compat.private import add_control_inputs
from ..loop.callback import Callback
from ..tfutils.collection import get_collection_to_run
from ..tfutils.common import get_op_tensor_name
from ..tfutils.skipped_steps import update_only_in_applied_steps
from ..utils.checks import check_at_least
from ..utils.naming import MOVING_SUMMARY_OPS_KEY


class MovingAverageSummary(Callback):
    """
    Callback that updates the moving averages of `summary.add_moving_summary` in every step, but not in one that
    `DynamicLossScaleOptimizer` skips.

    Args:
        collection: the collection that holds the updates.
        train_op: an operation, a tensor or a name. If given, the updates run before this operation, wherever it runs,
            instead of along with every run of the hooked session.

    Raises:
        TypeError: `train_op` is something else.
        KeyError: in `setup_graph`: no operation has that name.

    Runs at: setup_graph, every run.
    """

    def __init__(
        self, collection: str = MOVING_SUMMARY_OPS_KEY, train_op: tf.Operation | tf.Tensor | str | None = None
    ) -> None:
        if train_op is not None and not isinstance(train_op, (str, tf.Operation, tf.Tensor)):
            raise TypeError(
                "MovingAverageSummary: train_op is of the wrong type (expected an operation, a tensor or a name, got "
                f"{type(train_op).__name__})."
            )
        self._collection = collection
        self._train_op = train_op
        self._args: tf.train.SessionRunArgs | None = None

    def _setup_graph(self) -> None:
        updates = get_collection_to_run(self._collection, "MovingAverageSummary")
        update_only_in_applied_steps(updates)
        group = tf.group(*updates, name="maintain_moving_average_summary")
        if not updates:
            return
        if self._train_op is None:
            self._args = tf.train.SessionRunArgs(group)
        else:
            op = self._train_op
            if isinstance(op, str):
                op = self.graph.get_operation_by_name(get_op_tensor_name(op)[0])
            add_control_inputs(op if isinstance(op, tf.Operation) else op.op, [group])

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args


def MergeAllSummaries(period: int = 0, run_alone: bool = False, key: str | None = None) -> Callback:  # noqa: N802
    """
    Return a callback that evaluates all summaries and passes them to `trainer.monitors`.

    Args:
        period: also evaluate every `period` steps within an epoch; 0 means only at the end of each epoch.
        run_alone: evaluate the summaries in a separate run instead of along with the last step of the epoch. Use it if
            a summary must not influence the step. A summary that needs input data then takes an extra datapoint,
            except with StagingInput.
        key: the collection of summaries; None means `SUMMARIES`.

    Returns:
        A `MergeAllSummariesRunWithOp` or a `MergeAllSummariesRunAlone`.

    Raises:
        ValueError: `period` is negative.
    """
    check_at_least("MergeAllSummaries: period", period, 0)
    key = tf.GraphKeys.SUMMARIES if key is None else key
    return (MergeAllSummariesRunAlone if run_alone else MergeAllSummariesRunWithOp)(period, key)


class MergeAllSummariesRunWithOp(Callback):
    """
    Callback that evaluates all summaries along with the last step of each epoch, and with every `period`-th step.

    Args:
        period: as in `MergeAllSummaries`.
        key: the collection of summaries.

    Runs at: setup_graph, and every run of the steps that are due.
    """

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._args: tf.train.SessionRunArgs | None = None
        self._loop: Any = None

    def _setup_graph(self) -> None:
        merged = _merge_all(self._key)
        self._args = None if merged is None else tf.train.SessionRunArgs(merged)

    def _before_train(self) -> None:
        self._loop = self.trainer.loop

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if self._args is None:
            return None
        steps = self._loop.local_step + 1
        is_due = steps == self._loop.steps_per_epoch or (self._period > 0 and steps % self._period == 0)
        return self._args if is_due else None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        if run_values.results is not None:
            self.trainer.monitors.put_summary(run_values.results)


class MergeAllSummariesRunAlone(Callback):
    """
    Callback that evaluates all summaries in a separate run, at each trigger and after every `period`-th step.

    With StagingInput, the run sees the datapoints of the next step, and does not take them.

    Args:
        period: as in `MergeAllSummaries`.
        key: the collection of summaries.

    Runs at: setup_graph, trigger_step, trigger.
    """

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._merged: tf.Tensor | None = None
        self._evaluated_at_step = -1

    def _setup_graph(self) -> None:
        self._merged = _merge_all(self._key)

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
        """Restore the step of the last evaluation, so that an epoch that ends with this step evaluates only once."""
        self._evaluated_at_step = state["evaluated_at_step"]

    def _evaluate(self) -> None:
        if self._merged is not None:
            self.trainer.monitors.put_summary(self.trainer.sess.run(self._merged))


class SimpleMovingAverage(Callback):
    """
    Callback that reports the mean of scalars over windows of runs, as `<name>/SMA`.

    Args:
        tensors: names of scalar tensors, or a single name.
        window_size: number of runs in a window, > 0. The mean is reported when `global_step` is a multiple of it.

    Raises:
        ValueError: `window_size` is not positive; before training: a tensor is not a scalar.

    Runs at: before_train, every run, trigger_step. A checkpoint keeps the window.
    """

    def __init__(self, tensors: Sequence[str], window_size: int) -> None:
        check_at_least("SimpleMovingAverage: window_size", window_size, 1)
        self._names = [tensors] if isinstance(tensors, str) else list(tensors)
        self._labels = [f"{get_op_tensor_name(name)[0]}/SMA" for name in self._names]
        self._window_size = window_size
        self._values: deque[list[float]] = deque(maxlen=window_size)
        self._args: tf.train.SessionRunArgs | None = None

    def _before_train(self) -> None:
        tensors = self.get_tensors_maybe_in_tower(self._names)
        for name, tensor in zip(self._names, tensors):
            if tensor.shape.ndims not in (0, None):
                raise ValueError(f"SimpleMovingAverage: expected a scalar, got '{name}' of shape {tensor.shape}.")
        self._args = tf.train.SessionRunArgs(tensors)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        self._values.append(run_values.results)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the values in the window."""
        return {"values": np.array(self._values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the values in the window."""
        self._values.extend(list(values) for values in state["values"])

    @property
    def state_name(self) -> str:
        """The name of the class, and the tensors."""
        return f"{self}({', '.join(self._names)})"

    def _trigger_step(self) -> None:
        if self.global_step % self._window_size == 0 and self._values:
            for label, mean in zip(self._labels, np.mean(self._values, axis=0)):
                self.trainer.monitors.put_scalar(label, mean)


def _merge_all(key: str) -> tf.Tensor | None:
    summaries = get_collection_to_run(key, "MergeAllSummaries")
    return tf.summary.merge(summaries) if summaries else None

"""Callback that ends training when a loss becomes NaN, before the step updates anything."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...loop.state import StopTraining
from ...loop.trainer import find_step_ops
from ...tfutils.update_gate import applied_gradients, let_updates_pass_if, squared_norms
from ...utils import logger
from .autopsy import Incident, examine
from .batch_capture import BatchCapture, tensors_computed_from, training_towers
from .nan_search import is_float

_READS = ("ReadVariableOp", "VariableV2", "Variable")
_NUM_REMEMBERED = 50


class TerminateOnNaN(Callback):
    """
    Callback that ends training when a loss becomes NaN or infinite, and names the tensor where it began. Like
    `TerminateOnNaN` in Keras.

    The losses are checked in every run. If a loss is not finite, the same run, with the same data and
    weights, checks all tensors that the losses depend on, in the order in which the graph was built. The
    error names the step, the values of all losses, and the first tensor that is not finite. If it is a
    variable, an earlier update broke it; if it is an input, the data is wrong; otherwise, look at the layer
    that computes it.

    With `autopsy`, a step whose losses or gradients are not finite updates no variable, so the weights stay
    those that made the NaN. The batch is searched for the sample that makes the loss NaN, and
    `nan-<step>/` in the logger's directory gets a report, the batch, and a checkpoint of these weights.
    `tensorpack-lite nan-replay` runs the step again from these files.

    With several ranks, each one checks its own losses and examines its own batch. Ranks whose batch is finite wait at most
    20 s for the rank that made the gradients NaN, and end with its error.

    Args:
        names: name of a loss, or a list of names, without a tower's prefix.
        fail: raise an error from `train()`; otherwise log it and end training with `StopTraining`.
        autopsy: keep the update of a bad step from the weights, and examine the step. Also checks the losses
            of the other towers, and the gradients.

    Raises:
        ValueError: `names` is empty; in `setup_graph`: a tensor is not of a floating-point type.
        KeyError: in `setup_graph`: a name does not exist.
        FloatingPointError: a loss or a gradient is not finite.

    Runs at: setup_graph, every run. In every process of a distributed training.

    Example:
        >>> TerminateOnNaN(["cost", "regularize_cost"])

    Note: tensors inside `tf.cond` or `tf.while_loop` are not checked. Gradients are not checked if the optimizer
    applies them under a condition, as `DynamicLossScaleOptimizer` does, which skips steps that overflow. They count as not
    finite if a norm is above 1.8e19. They are only checked with a `train_op`; what else a step runs, in the trainer's `step_ops`,
    is held back if a loss is not finite. Updates that the loss itself waits for are not held back, and with
    asynchronous updates (`AsyncMultiGPUTrainer`) nothing is. To check only the variables, use `CheckNumerics`.
    """

    _chief_only = False

    def __init__(self, names: str | Sequence[str] = "cost", fail: bool = True, autopsy: bool = True) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        if not self._names:
            raise ValueError("TerminateOnNaN: names is empty (expected names of losses, e.g. 'cost').")
        self._fail = fail
        self._autopsy = autopsy
        self._gradients: dict[str, tf.Tensor] = {}
        self._suspects: list[tf.Tensor] = []
        self._args: tf.train.SessionRunArgs | None = None
        self._history: Deque[Any] = deque(maxlen=_NUM_REMEMBERED)

    def _setup_graph(self) -> None:
        losses = self.get_tensors_maybe_in_tower(self._names)
        for name, loss in zip(self._names, losses):
            if not isinstance(loss, tf.Tensor) or not is_float(loss):
                raise ValueError(
                    f"TerminateOnNaN: '{name}' is of the wrong type (expected a floating-point tensor, got {loss!r})."
                )
        self._suspects = tensors_computed_from(losses, is_float)
        self._losses = [losses]
        self._capture = BatchCapture(self.trainer)
        if self._autopsy:
            self._losses += self._losses_of_other_towers()
            if self.trainer.train_op is not None and self.trainer.updates_together:
                self._gradients = applied_gradients(self.trainer.train_op)
        values = [loss for of_tower in self._losses for loss in of_tower]
        if self._gradients:
            values.append(squared_norms(list(self._gradients.values())))
        is_good = tf.reduce_all(tf.stack([_is_finite(value) for value in values]), name="is_good")

        def find_first_bad() -> tf.Tensor:
            first_bad = _first_not_finite(self._suspects)
            return self._capture.store(first_bad, values) if self._autopsy else first_bad

        first_bad = tf.cond(is_good, lambda: tf.constant(-1, tf.int64), find_first_bad, name="first_bad")
        if self._autopsy and self.trainer.updates_together:
            self._hold_updates(is_good)
        self._args = tf.train.SessionRunArgs([first_bad, values])

    def _losses_of_other_towers(self) -> list[list[tf.Tensor]]:
        found = []
        for tower in training_towers(self.trainer)[1:]:
            try:
                found.append(tower.get_tensors(self._names))
            except KeyError:  # losses outside of the towers, which all towers share
                return []
        return found

    def _hold_updates(self, is_good: tf.Tensor) -> None:
        targets = [update for update in tf.get_collection(tf.GraphKeys.UPDATE_OPS) if hasattr(update, "graph")]
        if self.trainer.step_ops or self.trainer.train_op is not None:
            targets += find_step_ops(self.trainer)
        let_updates_pass_if(is_good, targets)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        first_bad, values = run_values.results
        self._capture.count_run()
        self._history.append(values)
        if first_bad >= 0:
            raise self._error(int(first_bad), values, self.global_step)

    def background_error(self) -> BaseException | None:
        """Return the error of a run that failed because it fetches the result of an update that was held back."""
        if not self._autopsy or self._capture.result is None:
            return None
        self._capture.count_run()
        self._history.append(self._capture.more)
        return self._error(self._capture.result, self._capture.more, self.global_step + 1)

    def _error(self, first_bad: int, values: Sequence[np.ndarray], step: int) -> Exception:
        num_losses = len(self._names)
        shown = [f"{name} = {_shown(value)}" for name, value in zip(self._names, values)]
        if self._gradients:
            shown.append(f"norm of the gradients = {float(np.sqrt(np.sum(values[-1]))):.5g}")
        suspect = self._suspects[first_bad] if first_bad < len(self._suspects) else None
        is_loss = not all(np.isfinite(value).all() for value in values[:num_losses])
        what = "loss" if is_loss or not self._gradients else "loss or gradient"
        message = (
            f"TerminateOnNaN: {what} is not finite at global_step={step}, epoch {self.epoch_num}: {', '.join(shown)}."
        )
        if suspect is not None:
            num = len(self._suspects)
            message += f" Of {num} tensors, the first with NaN or infinity is {_describe(suspect)}."
        if self._autopsy:
            message = self._examine(message, step, values, suspect)
        return FloatingPointError(message) if self._fail else StopTraining(message)

    def _examine(self, message: str, step: int, values: Sequence[np.ndarray], suspect: tf.Tensor | None) -> str:
        incident = Incident(
            step=step,
            names=self._names,
            losses=self._losses,
            gradients=self._gradients,
            values=list(values),
            suspect=suspect,
            is_variable=suspect is not None and suspect.op.type in _READS,
            history=list(self._history),
            batches=self._capture.batches(),
            is_held=self.trainer.updates_together,
            ranks=self.trainer.ranks,
            fails=self._fail,
        )
        try:
            return examine(incident, message, tf.get_default_session() or self.trainer.sess)
        except Exception as error:  # noqa: BLE001 (the NaN is the error to report)
            logger.exception(f"TerminateOnNaN: the autopsy failed: {error}")
            return message


def _is_finite(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(tensor))


def _first_not_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the index of the first tensor with NaN or infinity; the number of tensors if none has it."""
    finite = [*(_is_finite(tensor) for tensor in tensors), tf.constant(False)]
    return tf.argmin(tf.cast(tf.stack(finite), tf.int32))


def _shown(value: np.ndarray | np.generic) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array:.5g}"
    return f"{int(np.sum(~np.isfinite(array)))} of {array.size} values not finite"


def _describe(tensor: tf.Tensor) -> str:
    op = tensor.op
    if op.type in _READS:
        source = op.inputs[0].op if op.inputs else op
        return f"the variable '{source.name}'"
    if op.type.startswith("Placeholder"):
        return f"the input '{op.name}'"
    return f"'{tensor.name}' ({op.type})"

"""Callbacks about single steps: the counter, the progress bar, printing, a time limit."""

from __future__ import annotations

import time
from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.common import get_global_step_var
from ..tfutils.reads import plain_reads
from ..utils import logger
from ..utils.naming import GLOBAL_STEP_INCR_OP_NAME
from ..utils.utils import get_tqdm
from .graph import ProcessTensors

__all__ = ["MaintainStepCounter", "ProgressBar", "SessionRunTimeout", "TensorPrinter"]


class ProgressBar(Callback):
    """
    Show the progress of each epoch, and the values of scalars beside it.

    Args:
        names: tensors to show, each a scalar; they are evaluated in the first run of each step.

    Raises:
        KeyError: before training, a tensor does not exist.
        ValueError: before training, a tensor is no scalar.

    Runs at: before_epoch, before_run and after_run (with names only), trigger_step, after_epoch, after_train. In every
    process of a distributed training.

    Note: values are formatted only when the bar is drawn again.

    tensorpack: same; there, with one step per epoch, the values stay those of the first step.
    """

    _chief_only = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._labels = [name.split(":")[0].split("/")[-1] for name in self._names]
        self._args: Any = None
        self._step_has_values = False
        self._values: list[Any] | None = None
        self._bar: Any = None

    def _before_train(self) -> None:
        tensors = self.get_tensors_maybe_in_tower(self._names)
        for name, tensor in zip(self._names, tensors):
            if not isinstance(tensor, tf.Tensor) or tensor.shape.ndims not in (0, None):
                raise ValueError(
                    f"ProgressBar: '{name}' is {tensor}, wanted a scalar tensor. Show its mean instead."
                )
        self._args = tf.train.SessionRunArgs(tensors) if tensors else None

    def _before_epoch(self) -> None:
        self._step_has_values = False
        loop = self.trainer.loop
        self._bar = get_tqdm(total=loop.steps_per_epoch, initial=loop.starting_step, leave=True)

    def _before_run(self, ctx: Any) -> Any:
        return None if self._step_has_values else self._args

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        if run_values.results is not None:
            self._values = run_values.results
            self._step_has_values = True

    def _trigger_step(self) -> None:
        if self._step_has_values:
            self._step_has_values = False
            if time.time() - self._bar.last_print_t >= self._bar.mininterval:
                self._show_values()
        self._bar.update()

    def _after_epoch(self) -> None:
        if self._values is not None:
            self._show_values()
        self._close()

    def _after_train(self) -> None:
        self._close()

    def _show_values(self) -> None:
        self._bar.set_postfix(zip(self._labels, self._values or ()), refresh=False)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class MaintainStepCounter(Callback):
    """
    Count the runs of the hooked session: `global_step` in the graph, and `trainer.global_step` in Python.

    Every trainer has one, right after the callbacks of its input. Callbacks before it see the old count in `_after_run`,
    those after it the new one. Whatever reads `global_step` in a step, a decayed learning rate for instance, sees the
    value from before the step's increment: the increment waits for these reads.

    Runs at: setup_graph, before_train, every run. In every process of a distributed training.

    Variables: `global_step`, int64, scalar, not trained, in GLOBAL_VARIABLES.

    Note: the trainer calls `finish_graph` after all callbacks have set up their part of the graph; reads that are created
    even later, reads inside `tf.cond` or `tf.while_loop`, and reads that already wait for something else, are not waited
    for.

    tensorpack: same; there the increment and the reads run in any order.
    """

    _chief_only = False

    def __init__(self) -> None:
        self._args: Any = None
        self._loop: Any = None

    def _setup_graph(self) -> None:
        get_global_step_var()

    def finish_graph(self) -> None:
        """Create `global_step_incr`, the last operation of a step to touch the counter."""
        variable = get_global_step_var()
        with tf.name_scope(None), tf.control_dependencies(plain_reads(variable)):
            increment = variable.assign_add(1, name=GLOBAL_STEP_INCR_OP_NAME, read_value=False)
        self._args = tf.train.SessionRunArgs([increment])

    def _before_train(self) -> None:
        self._loop = self.trainer.loop
        if self.global_step != 0:
            logger.info("Start training with global_step=%d.", self.global_step)

    def _before_run(self, ctx: Any) -> Any:
        return self._args

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        self._loop.global_step += 1


class TensorPrinter(ProcessTensors):
    """
    Log the values of tensors after each run.

    Args:
        names: names of tensors.

    Runs at: before_train, every run.

    Raises:
        TypeError: `names` is no list.
        KeyError: before training, a tensor does not exist.

    Note: slow, and long; for debugging.

    tensorpack: same.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._log)

    def _log(self, *values: Any) -> None:
        for name, value in zip(self._names, values):
            logger.info("%s: %s", name, np.array2string(np.asarray(value)))


class SessionRunTimeout(Callback):
    """
    Give each run of the hooked session a time limit.

    Args:
        timeout_in_ms: the limit in milliseconds, > 0. A run that takes longer ends with a `DeadlineExceededError`.

    Raises:
        ValueError: the limit is not positive.

    Runs at: every run.

    tensorpack: same.
    """

    def __init__(self, timeout_in_ms: int) -> None:
        if timeout_in_ms <= 0:
            raise ValueError(f"SessionRunTimeout: timeout_in_ms is {timeout_in_ms}, wanted more than 0.")
        options = tf.RunOptions(timeout_in_ms=int(timeout_in_ms))
        self._args = tf.train.SessionRunArgs(fetches=[], options=options)

    def _before_run(self, ctx: Any) -> Any:
        return self._args

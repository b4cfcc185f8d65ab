"""Callbacks for single steps: the counter, the progress bar, printing, a time limit."""

from __future__ import annotations

import time
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.common import get_global_step_var
from ..tfutils.early_read import let_updates_wait, plain_reads
from ..utils import logger
from ..utils.checks import check_positive
from ..utils.naming import GLOBAL_STEP_INCR_OP_NAME
from ..utils.utils import ENDLESS, get_tqdm, get_tqdm_kwargs
from .graph import ProcessTensors


class ProgressBar(Callback):
    """
    Callback that shows the progress of each epoch, the time left of the epoch and of the whole training, and the values of
    scalars next to it.

    Without a terminal or notebook, progress is logged as one line every 30 seconds; see `get_tqdm`. The time left of the
    training is an estimate from all time so far, including that between epochs. It is not shown in the last epoch, and if
    the training has no last one.

    Args:
        names: names of scalar tensors to show; `[]` shows none. None means the trainer's cost, if it has one.

    Raises:
        KeyError: before training: a tensor does not exist.
        ValueError: before training: a tensor is not a scalar.

    Runs at: before_train, before_epoch, before_run and after_run (if it shows tensors), trigger_step, after_epoch,
    after_train. In every process of a distributed training.

    Note: the tensors are evaluated only in steps after which the bar is redrawn, and in the last step of an epoch. If lint
    examines the first cost, they are also evaluated in the first step.
    """

    _chief_only = False

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._names = [names] if isinstance(names, str) else names
        self._labels: list[str] = []
        self._args: tf.train.SessionRunArgs | None = None
        self._step_has_values = False
        self._values: list[Any] | None = None
        self._bar: Any = None
        self._interval = get_tqdm_kwargs()["mininterval"]  # seconds between two redraws
        self._due_at = (
            0.0  # when the bar is redrawn; tqdm itself is asked only then, because that costs time in each step
        )
        self._num_new = 0  # steps that the bar does not know
        self._began_at, self._num_done = 0.0, 0  # the first step of this process, and the number of steps since then
        self._on_first_cost: Callable[[float], None] | None = None

    def hang_detector_cost(self, function: Callable[[float], None]) -> None:
        """
        Call a function with the cost of the first step, after that step.

        Args:
            function: takes the cost. It is not called if the bar does not show the trainer's cost.
        """
        self._on_first_cost = function if self._names is None else None

    def _before_train(self) -> None:
        if self._names is None:
            tensors = [] if self.trainer.cost is None else [self.trainer.cost]
        else:
            tensors = self.get_tensors_maybe_in_tower(self._names)
        for tensor in tensors:
            if not isinstance(tensor, tf.Tensor) or tensor.shape.ndims not in (0, None):
                raise ValueError(f"ProgressBar: expected a scalar tensor, got {tensor}. Show its mean instead.")
        names = [tensor.name for tensor in tensors] if self._names is None else self._names
        self._labels = [name.split(":")[0].split("/")[-1] for name in names]
        self._args = tf.train.SessionRunArgs(tensors) if tensors else None

    def _before_epoch(self) -> None:
        self._step_has_values = False
        self._loop = loop = self.trainer.loop
        if self._num_done == 0:
            self._began_at = time.monotonic()
        self._last_step = loop.steps_per_epoch - 1
        self._bar = get_tqdm(
            total=loop.steps_per_epoch,
            initial=loop.starting_step,
            desc=f"Epoch {self.epoch_num}",
            miniters=1,
        )
        self._due_at = 0.0 if self._on_first_cost is not None else time.monotonic() + self._interval

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if self._args is None or self._step_has_values:
            return None
        is_needed = time.monotonic() >= self._due_at or self._loop.local_step == self._last_step
        return self._args if is_needed else None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        if run_values.results is not None:
            self._values = run_values.results
            self._step_has_values = True

    def _trigger_step(self) -> None:
        self._num_new += 1
        if self._step_has_values or (self._args is None and time.monotonic() >= self._due_at):
            self._update()

    def _update(self) -> None:
        has_values, self._step_has_values = self._step_has_values, False
        if time.monotonic() < self._due_at:
            return  # it is the last step of the epoch
        self._show_values()
        if has_values:
            function, self._on_first_cost = self._on_first_cost, None
            if function is not None and self._values:
                function(self._values[0])
        self._count_new()
        self._due_at = time.monotonic() + self._interval

    def _after_epoch(self) -> None:
        self._show_values()
        self._close()

    def _after_train(self) -> None:
        self._close()

    def _show_values(self) -> None:
        self._bar.set_postfix(zip(self._labels, self._values or ()), refresh=False)
        words = [self._bar.postfix, self._time_left()]
        self._bar.set_postfix_str(", ".join(filter(None, words)), refresh=False)

    def _time_left(self) -> str:
        """Return the time left of the whole training; "" if it is that of the epoch, or not known."""
        loop, max_epoch, num_done = self._loop, self.trainer.max_epoch, self._num_done + self._num_new
        if max_epoch >= ENDLESS or loop.epoch_num >= max_epoch or num_done == 0:
            return ""
        steps = loop.steps_per_epoch * (max_epoch - loop.epoch_num + 1) - loop.num_done
        seconds = (time.monotonic() - self._began_at) / num_done * steps
        return f"all {self._bar.format_interval(seconds)}"

    def _count_new(self) -> None:
        num_new, self._num_new = self._num_new, 0
        self._num_done += num_new
        self._bar.update(num_new)

    def _close(self) -> None:
        if self._bar is not None:
            self._count_new()
            self._bar.close()
            self._bar = None


class MaintainStepCounter(Callback):
    """
    Callback that counts the runs of the hooked session, as `global_step` in the graph and `trainer.global_step` in Python.

    Every trainer has one, right after the callbacks of its input. In `_after_run`, callbacks before it see
    the old count, callbacks after it the new one. Operations that read `global_step` in a step, such as a
    decayed learning rate, see the value from before the increment: the increment waits for these reads.

    Runs at: setup_graph, before_train, every run. In every process of a distributed training.

    Variables: `global_step`, int64, scalar, not trained, in GLOBAL_VARIABLES.

    Before training, it logs if an epoch has no steps, or if there are so many epochs that `max_epoch` was probably not given.

    Note: the trainer calls `finish_graph` after all callbacks have set up their part of the graph. The
    increment does not wait for reads that are created later, that are inside `tf.cond` or `tf.while_loop`, or
    that have control inputs.

    Difference from tensorpack: in tensorpack 0.11 the increment and the reads run in any order.
    """

    _chief_only = False

    def __init__(self) -> None:
        self._args: tf.train.SessionRunArgs | None = None
        self._loop: Any = None

    def _setup_graph(self) -> None:
        get_global_step_var()

    def finish_graph(self) -> None:
        """Create `global_step_incr`, which runs after all reads of the counter in a step, and let other updates wait, too."""
        variable = get_global_step_var()
        with tf.name_scope(None), tf.control_dependencies(plain_reads(variable)):
            increment = variable.assign_add(1, name=GLOBAL_STEP_INCR_OP_NAME, read_value=False)
        self._args = tf.train.SessionRunArgs(increment)
        let_updates_wait()

    def _before_train(self) -> None:
        self._loop = self.trainer.loop
        if self.global_step != 0:
            logger.info("Start training with global_step=%d.", self.global_step)
        if self.trainer.is_chief:
            self._warn_of_length(self._loop.steps_per_epoch, self._loop.max_epoch)

    def _warn_of_length(self, steps_per_epoch: int, max_epoch: int) -> None:
        if steps_per_epoch == 0:
            logger.warning(
                "steps_per_epoch is 0: an epoch has no steps, so nothing is trained. Only callbacks are called."
            )
        if max_epoch >= ENDLESS:
            logger.info(
                f"Training ends after epoch {max_epoch}. Pass max_epoch=... to end it earlier, or add EarlyStopping(...). Ctrl-C ends "
                "it, too."
            )

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        self._loop.global_step += 1


class TensorPrinter(ProcessTensors):
    """
    Callback that logs the values of tensors after each run.

    Args:
        names: names of tensors.

    Runs at: before_train, every run.

    Raises:
        TypeError: `names` is not a list.
        KeyError: before training: a tensor does not exist.

    Note: slow and verbose; meant for debugging.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._log)

    def _log(self, *values: np.ndarray) -> None:
        for name, value in zip(self._names, values):
            logger.info("%s: %s", name, np.array2string(np.asarray(value)))


class SessionRunTimeout(Callback):
    """
    Callback that gives each run of the hooked session a time limit.

    Args:
        timeout_in_ms: the limit in milliseconds, > 0. A run that takes longer raises a `DeadlineExceededError`.

    Raises:
        ValueError: the limit is not positive.

    Runs at: every run.
    """

    def __init__(self, timeout_in_ms: int) -> None:
        check_positive("SessionRunTimeout: timeout_in_ms", timeout_in_ms)
        options = tf.RunOptions(timeout_in_ms=int(timeout_in_ms))
        self._args = tf.train.SessionRunArgs(None, options=options)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

"""The state of the loop: its ranges and counters, its outcome, and the exception that ends it."""

from __future__ import annotations

from contextlib import ExitStack
from enum import Enum
from typing import Iterator

from ..compat import tfv1 as tf
from ..utils.checks import check_count


class StopTraining(Exception):
    """Exception that ends training without an error. Raise it in a callback, a hook or `run_step`."""


QUIET_ENDS = (StopTraining, tf.errors.OutOfRangeError)  # exceptions that end training without being errors


class Outcome(Enum):
    """The ways in which a training can end."""

    FINISHED = "finished"
    """All epochs are done."""
    STOPPED = "stopped"
    """`StopTraining`, `request_stop` or the end of the data ended training early, without an error."""
    INTERRUPTED = "interrupted"
    """Ctrl-C (KeyboardInterrupt), `sys.exit` (SystemExit), or SIGTERM with `exact` (Preempted) ended training."""
    FAILED = "failed"
    """An error ended training."""


def check_steps(name: str, value: object) -> int:
    """
    Return the number of steps in an epoch of a training that is to run steps.

    Args:
        name: the class or function, and its argument.
        value: any whole number.

    Raises:
        ValueError: the number is negative, 0 or not whole.
        TypeError: `value` is not a number.
    """
    steps = check_count(name, value)
    if steps == 0:
        raise ValueError(
            f"{name} is 0, so nothing would be trained (expected at least 1). If it was computed, a batch may be larger than the "
            "data. To call only the callbacks, call the phases of the trainer: setup_callbacks(callbacks, monitors), "
            "initialize(session_creator, session_init), main_loop(0, 1, max_epoch)."
        )
    return steps


class TrainLoop:
    """
    The ranges and counters of the loop over epochs and steps.

    Epochs run from `starting_epoch` to `max_epoch`, both included; each has `steps_per_epoch` steps. An epoch is the
    period of callbacks, not a pass over the data.

    Attributes:
        epoch_num: the current epoch, from 1; before training, `starting_epoch - 1`; before `config`, 0. In `after_train`,
            an epoch that training has left without an error before its first step does not count.
        global_step: the number of runs of the hooked session, including those before a restored checkpoint.
        local_step: the number of the latest step within its epoch, from 0; -1 before the first step.
        num_done: the number of steps of the epoch that are done. While a step runs, it is equal to `local_step`; afterwards, 1 larger.
        has_triggers_left: whether the checkpoint that training resumes from was saved while callbacks were being
            triggered, so that some of them are triggered before the next step.
        outcome: how training ended, an `Outcome`; None until then. It is set before `after_train`, where a callback
            reads `self.trainer.loop.outcome`. An error in `after_train` does not change it.
        error: the exception that ended training, `StopTraining` included; None if all epochs are done.
        at_end: functions to call when training has ended, after `after_train` of all callbacks and the end of the session.
        heartbeats: how many times callbacks have called `end_if_preempted`.
    """

    def __init__(self) -> None:
        self.epoch_num = 0
        self.global_step = 0
        self.local_step = -1
        self.num_done = 0
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.at_end = ExitStack()
        self.heartbeats = 0
        self._ranges: tuple[int, int, int] | None = None
        self._resumed: tuple[int, int] | None = None
        self.has_triggers_left = False
        self._first_global_step: int | None = None
        self._step_began_at = 0
        self._epoch_began_at: int | None = None  # None before the first epoch

    def config(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """
        Set the ranges; the loop calls it once.

        Args:
            steps_per_epoch: the number of steps in an epoch, >= 0.
            starting_epoch: the first epoch, from 1.
            max_epoch: the last epoch, >= 0.

        Raises:
            ValueError: a number is negative or not whole.
        """
        steps_per_epoch = check_count("Trainer: steps_per_epoch", steps_per_epoch)
        starting_epoch = check_count("Trainer: starting_epoch", starting_epoch)
        self._ranges = (steps_per_epoch, starting_epoch, check_count("Trainer: max_epoch", max_epoch))
        self.epoch_num = starting_epoch - 1

    def resume_at(self, epoch_num: int, num_steps: int, has_triggers_left: bool = False) -> None:
        """
        Continue inside an epoch; the trainer calls it between `config` and `before_train`.

        `epochs()` then starts with this epoch. It may precede `starting_epoch`, if only its callbacks are left.

        Args:
            epoch_num: the epoch.
            num_steps: the number of its steps that are done.
            has_triggers_left: see the attribute.
        """
        self._resumed = (epoch_num, num_steps)
        self.has_triggers_left = has_triggers_left
        self.local_step, self.num_done = num_steps - 1, num_steps

    @property
    def is_resumed(self) -> bool:
        """Whether the training resumes at the place in a checkpoint; known from `before_train` on."""
        return self._resumed is not None

    @property
    def starting_step(self) -> int:
        """The number of the first step of the current epoch: 0, unless the training resumes inside that epoch."""
        return self._resumed[1] if self._resumed is not None and self._resumed[0] == self.epoch_num else 0

    def end(self, error: BaseException | None) -> Outcome:
        """
        Set the outcome of training; the loop calls it once, before `after_train`.

        Args:
            error: the exception that ended it; None if all epochs are done.

        Returns:
            The outcome.
        """
        if error is None:
            self.outcome = Outcome.FINISHED
        elif isinstance(error, QUIET_ENDS):
            self.outcome = Outcome.STOPPED
            if self.global_step == self._epoch_began_at and 0 == self.num_done < self.steps_per_epoch:
                self.epoch_num -= 1
                self.local_step = -1 if self.epoch_num < self.starting_epoch else self.steps_per_epoch - 1
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.outcome = Outcome.INTERRUPTED
        else:
            self.outcome = Outcome.FAILED
        self.error = error
        return self.outcome

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in an epoch."""
        return self._configured()[0]

    @property
    def starting_epoch(self) -> int:
        """The first epoch."""
        return self._configured()[1]

    @property
    def max_epoch(self) -> int:
        """The last epoch."""
        return self._configured()[2]

    def _configured(self) -> tuple[int, int, int]:
        if self._ranges is None:
            raise AttributeError(
                "TrainLoop: steps_per_epoch, starting_epoch and max_epoch are known from before_train on, not while the graph is built."
            )
        return self._ranges

    def epochs(self) -> Iterator[int]:
        """Iterate over the epochs, and set `epoch_num`."""
        first = self.starting_epoch if self._resumed is None else self._resumed[0]
        for epoch in range(first, self.max_epoch + 1):
            self.epoch_num, self._epoch_began_at = epoch, self.global_step
            self.num_done = self.starting_step
            yield epoch

    def steps(self) -> Iterator[int]:
        """Iterate over the steps of the current epoch, and set `local_step`. The loop adds 1 to `num_done` when a step is done."""
        if self._first_global_step is None:
            self._first_global_step = self.global_step
        for step in range(self.starting_step, self.steps_per_epoch):
            self.local_step = step
            self._step_began_at = self.global_step
            yield step

    @property
    def has_stepped(self) -> bool:
        """Whether this process has run the hooked session."""
        return self._first_global_step is not None and self.global_step > self._first_global_step

    @property
    def is_partly_done(self) -> bool:
        """Whether the current step consists of several runs, and some of them are done."""
        return self.num_done == self.local_step and self.global_step != self._step_began_at

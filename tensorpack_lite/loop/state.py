"""The state of the loop: its ranges and counters, how it ended, and the exception that ends it from inside."""

from __future__ import annotations

from enum import Enum
from typing import Iterator

from ..compat import tfv1 as tf

__all__ = ["QUIET_ENDS", "Outcome", "StopTraining", "TrainLoop"]


class StopTraining(Exception):
    """
    Raise it anywhere inside training to end it as if it were done: in a callback, a hook or `run_step`.
    """


QUIET_ENDS = (StopTraining, tf.errors.OutOfRangeError)  # exceptions that end training without being errors


class Outcome(Enum):
    """How a training ended."""

    FINISHED = "finished"
    """All epochs are done."""
    STOPPED = "stopped"
    """Training ended early without an error: by `StopTraining`, `request_stop` or the end of the data."""
    INTERRUPTED = "interrupted"
    """Somebody ended the process: by Ctrl-C (KeyboardInterrupt) or `sys.exit` (SystemExit)."""
    FAILED = "failed"
    """An error ended training."""


class TrainLoop:
    """
    The double loop's ranges and counters.

    Epochs run from `starting_epoch` to `max_epoch`, both included; each has `steps_per_epoch` steps. An epoch is the
    period of callbacks, not a pass over the data.

    Attributes:
        epoch_num: the epoch that runs, from 1; before training, the one before the first; 0 before `config`.
        global_step: how many times the hooked session has run, restored values included.
        local_step: the number of the step within its epoch, from 0; -1 before the first.
        outcome: how training ended, an `Outcome`; None until then. It is set before `after_train` is called, so a
            callback reads `self.trainer.loop.outcome` there. An error in `after_train` does not change it.
        error: the exception that ended training, `StopTraining` included; None if all epochs are done.
    """

    def __init__(self) -> None:
        self.epoch_num = 0
        self.global_step = 0
        self.local_step = -1
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self._ranges: tuple[int, int, int] | None = None
        self._resumed: tuple[int, int] | None = None

    def config(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> None:
        """
        Set the ranges; the loop calls it once.

        Args:
            steps_per_epoch: steps in an epoch, >= 0.
            starting_epoch: the first epoch, from 1.
            max_epoch: the last epoch, >= 0.

        Raises:
            ValueError: one of them is out of range.
        """
        steps_per_epoch, starting_epoch, max_epoch = int(steps_per_epoch), int(starting_epoch), int(max_epoch)
        if steps_per_epoch < 0 or max_epoch < 0:
            raise ValueError(
                f"Trainer: steps_per_epoch is {steps_per_epoch} and max_epoch is {max_epoch}, wanted both >= 0."
            )
        self._ranges = (steps_per_epoch, starting_epoch, max_epoch)
        self.epoch_num = starting_epoch - 1

    def resume_at(self, epoch_num: int, num_steps: int) -> None:
        """
        Continue an epoch behind its first steps; the trainer calls it between `config` and `before_train`.

        `epochs()` then begins with this epoch, also if it is the one before `starting_epoch`, of which only callbacks are left.

        Args:
            epoch_num: the epoch.
            num_steps: how many of its steps are done.
        """
        self._resumed = (epoch_num, num_steps)
        self.local_step = num_steps - 1

    @property
    def is_resumed(self) -> bool:
        """Whether the loop continues a training that a checkpoint describes; known from `before_train` on."""
        return self._resumed is not None

    @property
    def starting_step(self) -> int:
        """Number of the current epoch's first step: 0, except in an epoch that is resumed behind some of its steps."""
        return self._resumed[1] if self._resumed is not None and self._resumed[0] == self.epoch_num else 0

    def end(self, error: BaseException | None) -> Outcome:
        """
        Note how training ended; the loop calls it once, before `after_train`.

        Args:
            error: the exception that ended it; None if all epochs are done.

        Returns:
            The outcome.
        """
        if error is None:
            self.outcome = Outcome.FINISHED
        elif isinstance(error, QUIET_ENDS):
            self.outcome = Outcome.STOPPED
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.outcome = Outcome.INTERRUPTED
        else:
            self.outcome = Outcome.FAILED
        self.error = error
        return self.outcome

    @property
    def steps_per_epoch(self) -> int:
        """Steps in an epoch."""
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
                "The loop's ranges are known from before_train on, not while the graph is being built."
            )
        return self._ranges

    def epochs(self) -> Iterator[int]:
        """Go through the epochs; `epoch_num` follows."""
        first = self.starting_epoch if self._resumed is None else self._resumed[0]
        for epoch in range(first, self.max_epoch + 1):
            self.epoch_num = epoch
            yield epoch

    def steps(self) -> Iterator[int]:
        """Go through the steps of an epoch; `local_step` follows."""
        for step in range(self.starting_step, self.steps_per_epoch):
            self.local_step = step
            yield step

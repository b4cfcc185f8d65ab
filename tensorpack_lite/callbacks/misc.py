"""Callbacks for watching a training: time left, shell commands, an interactive shell."""

from __future__ import annotations

import os
import pdb
import time
from collections import deque
from typing import Sequence

import numpy as np

from ..loop.callback import Callback
from ..utils import logger
from ..utils.checks import check_at_least, check_choice
from ..utils.optional import load_optional
from ..utils.utils import humanize_time_delta


class EstimatedTimeLeft(Callback):
    """
    Callback that logs the estimated time left after each epoch.

    The estimate is the typical time of the last epochs, including their triggers, times the number of epochs
    left. An epoch that a resumed training continues does not count.

    Args:
        last_k_epochs: number of epochs to measure, >= 1.
        median: use the median of their times, otherwise the mean.

    Raises:
        ValueError: `last_k_epochs` is not positive.

    Runs at: before_train, trigger_epoch.
    """

    def __init__(self, last_k_epochs: int = 5, median: bool = True) -> None:
        check_at_least("EstimatedTimeLeft: last_k_epochs", last_k_epochs, 1)
        self._seconds: deque[float] = deque(maxlen=last_k_epochs)
        self._average = np.median if median else np.mean
        self._last_time = 0.0

    def _before_train(self) -> None:
        self._last_time = time.perf_counter()

    def _trigger_epoch(self) -> None:
        now = time.perf_counter()
        if self.trainer.loop.starting_step == 0:
            self._seconds.append(now - self._last_time)
        self._last_time = now
        epochs_left = self.trainer.max_epoch - self.epoch_num
        if epochs_left > 0 and self._seconds:
            seconds = float(self._average(self._seconds)) * epochs_left
            logger.info("Estimated time left: %s", humanize_time_delta(seconds))


class SendStat(Callback):
    """
    Callback that runs a shell command that contains the latest values of scalars.

    Args:
        command: the command, a format string with the scalars' names as fields.
        names: names of the scalars, or one name.

    Raises:
        KeyError: at a trigger: a scalar has not been reported.

    Runs at: trigger.

    Example:
        >>> SendStat("curl -d value={validation_error} http://board.example", "validation_error")

    Note: the shell interprets the command. Do not build it from untrusted input.
    """

    def __init__(self, command: str, names: str | Sequence[str]) -> None:
        self.command = command
        self.names = [names] if isinstance(names, str) else list(names)

    def _trigger(self) -> None:
        monitors = self.trainer.monitors
        command = self.command.format(**{name: monitors.get_latest(name) for name in self.names})
        status = os.system(command)
        if status != 0:
            logger.error("SendStat: the command failed with status %d: %s", status, command)


class InjectShell(Callback):
    """
    Callback that opens an interactive shell during training, at the next trigger after a certain file was created.

    In the shell, `self` is this callback and `trainer` the trainer. The file is removed after training.

    Args:
        file: path of the file, relative to the working directory.
        shell: "ipython" or "pdb".

    Raises:
        ValueError: `shell` is unknown.
        ImportError: at the trigger: IPython is not installed.

    Runs at: trigger, after_train.

    Example:
        >>> InjectShell()           # then: touch INJECT_SHELL.tmp
    """

    def __init__(self, file: str = "INJECT_SHELL.tmp", shell: str = "ipython") -> None:
        self._file = file
        self._shell = check_choice("InjectShell: shell", shell, ("ipython", "pdb"))
        logger.info("InjectShell: to open a %s shell at the next trigger, run: touch %s", shell, file)

    def _trigger(self) -> None:
        if os.path.isfile(self._file):
            logger.info("'%s' exists, opening a %s shell.", self._file, self._shell)
            trainer = self.trainer  # noqa: F841 (for the user at the prompt)
            if self._shell == "pdb":
                pdb.set_trace()
            else:
                load_optional("IPython", "InjectShell", ", or use shell='pdb'").embed()

    def _after_train(self) -> None:
        if os.path.isfile(self._file):
            os.unlink(self._file)

"""Small conveniences for whoever watches a training."""

from __future__ import annotations

import os
import pdb
import time
from collections import deque
from typing import Sequence

import numpy as np

from ..loop.callback import Callback
from ..utils import logger
from ..utils.optional import load_optional
from ..utils.utils import humanize_time_delta

__all__ = ["EstimatedTimeLeft", "InjectShell", "SendStat"]


class EstimatedTimeLeft(Callback):
    """
    Log after each epoch how long training will still take.

    The time from one trigger to the next, taken over the last epochs, times the number of epochs that are left.

    Args:
        last_k_epochs: how many epochs to take, >= 1.
        median: take their median; otherwise their mean.

    Raises:
        ValueError: `last_k_epochs` is not positive.

    Runs at: before_train, trigger_epoch.

    tensorpack: same.
    """

    def __init__(self, last_k_epochs: int = 5, median: bool = True) -> None:
        if last_k_epochs < 1:
            raise ValueError(f"EstimatedTimeLeft: last_k_epochs is {last_k_epochs}, wanted at least 1.")
        self._seconds: deque[float] = deque(maxlen=last_k_epochs)
        self._average = np.median if median else np.mean
        self._last_time = 0.0

    def _before_train(self) -> None:
        self._last_time = time.perf_counter()

    def _trigger_epoch(self) -> None:
        now = time.perf_counter()
        self._seconds.append(now - self._last_time)
        self._last_time = now
        epochs_left = self.trainer.max_epoch - self.epoch_num
        if epochs_left > 0:
            seconds = float(self._average(self._seconds)) * epochs_left
            logger.info("Estimated time left: %s", humanize_time_delta(seconds))


class SendStat(Callback):
    """
    Run a command of the shell with the latest values of scalars in it.

    Args:
        command: the command, a format string with the scalars' names as fields.
        names: the scalars.

    Raises:
        KeyError: at a trigger, nobody has reported one of them.

    Runs at: trigger.

    Example:
        >>> SendStat("curl -d value={validation_error} http://board.example", "validation_error")

    Note: the text goes to the shell as it is; put nothing into it that comes from others.

    tensorpack: same.
    """

    def __init__(self, command: str, names: str | Sequence[str]) -> None:
        self.command = command
        self.names = [names] if isinstance(names, str) else list(names)

    def _trigger(self) -> None:
        monitors = self.trainer.monitors
        command = self.command.format(**{name: monitors.get_latest(name) for name in self.names})
        status = os.system(command)
        if status != 0:
            logger.error("SendStat: the command ended with status %d: %s", status, command)


class InjectShell(Callback):
    """
    Open a shell in the middle of training: create a file, and at the next trigger there is a prompt.

    In the shell, `self` is this callback and `trainer` the trainer. The file is removed after training.

    Args:
        file: the file, relative to where training was started.
        shell: "ipython" or "pdb".

    Raises:
        ValueError: another shell.
        ImportError: at the trigger, IPython is not installed.

    Runs at: trigger, after_train.

    Example:
        >>> InjectShell()           # then: touch INJECT_SHELL.tmp

    tensorpack: same.
    """

    def __init__(self, file: str = "INJECT_SHELL.tmp", shell: str = "ipython") -> None:
        if shell not in ("ipython", "pdb"):
            raise ValueError(f"InjectShell: shell is '{shell}', wanted 'ipython' or 'pdb'.")
        self._file = file
        self._shell = shell
        logger.info("To open a %s shell at the next trigger: touch %s", shell, file)

    def _trigger(self) -> None:
        if os.path.isfile(self._file):
            logger.info("'%s' exists, opening a %s shell.", self._file, self._shell)
            self._open_shell()

    def _after_train(self) -> None:
        if os.path.isfile(self._file):
            os.unlink(self._file)

    def _open_shell(self) -> None:
        trainer = self.trainer  # noqa: F841 (for whoever sits at the prompt)
        if self._shell == "pdb":
            pdb.set_trace()
            return
        load_optional("IPython", "InjectShell", ", or use shell='pdb'").embed()

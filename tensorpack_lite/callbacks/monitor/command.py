"""Scalars handed to a command of the shell."""

from __future__ import annotations

import os
from typing import Sequence

from ...utils import logger
from .base import MonitorBase

__all__ = ["SendMonitorData"]


class SendMonitorData(MonitorBase):
    """
    Run a command of the shell with scalars in it, whenever all of them have arrived.

    Args:
        command: the command, a format string with the scalars' names as fields.
        names: the scalars to wait for.

    Runs at: trigger_step and trigger: once every name has arrived since the last command, the command runs and
    training waits for it. If it fails, that is logged.

    Raises:
        TypeError: `command` is no string, or `names` is no list.

    Example:
        >>> SendMonitorData("curl -d value={validation_error} http://board.example", ["validation_error"])

    Note: the text goes to the shell as it is; put nothing into it that comes from others.

    tensorpack: same.
    """

    def __init__(self, command: str, names: Sequence[str]) -> None:
        if not isinstance(command, str) or not isinstance(names, (list, tuple)):
            raise TypeError(
                "SendMonitorData: takes a command (str) and a list of names, got "
                f"{type(command).__name__} and {type(names).__name__}."
            )
        self.command = command
        self.names = list(names)
        self._values: dict[str, float] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the number if the command needs it."""
        if name in self.names:
            self._values[name] = val

    def _trigger_step(self) -> None:
        self._send_if_complete()

    def _trigger(self) -> None:
        self._send_if_complete()

    def _send_if_complete(self) -> None:
        if len(self._values) < len(set(self.names)):
            return
        command = self.command.format(**self._values)
        self._values.clear()
        status = os.system(command)
        if status != 0:
            logger.error("SendMonitorData: the command ended with status %d: %s", status, command)

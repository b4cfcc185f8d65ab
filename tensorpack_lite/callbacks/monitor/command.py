"""Monitor that runs a shell command with scalars."""

from __future__ import annotations

import os
from typing import Any, Sequence

from ...utils import logger
from ...utils.checks import check_type
from ..statistic_reader import StatisticReader
from .base import MonitorBase


class SendMonitorData(MonitorBase):
    """
    Monitor that runs a shell command that contains scalars, whenever all of them have been reported.

    Args:
        command: the command, a format string with the scalars' names as fields.
        names: list of the scalars' names.
        strict: raise a KeyError at the end of an epoch if a name has not been reported; see `EarlyStopping`.

    Runs at: trigger_step, trigger. The command runs once every name has been reported since the last command. Training
    waits for the command; a failure is logged.

    Raises:
        TypeError: `command` is not a string, or `names` is not a list.
        KeyError: at the end of an epoch, see `strict`.

    Example:
        >>> SendMonitorData("curl -d value={validation_error} http://board.example", ["validation_error"])

    Note: the shell interprets the command. Do not build it from untrusted input.
    """

    def __init__(self, command: str, names: Sequence[str], *, strict: bool = True) -> None:
        self.command = check_type("SendMonitorData: command", command, str)
        self.names = list(check_type("SendMonitorData: names", names, (list, tuple)))
        self._values: dict[str, float] = {}
        self._readers = [StatisticReader(self, name, strict) for name in self.names]

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the scalar if the command needs it."""
        if name in self.names:
            self._values[name] = val

    def state_dict(self) -> dict[str, Any] | None:
        """Return the scalars that were reported since the last command."""
        return {"values": dict(self._values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the scalars that were reported since the last command."""
        self._values = dict(state["values"])

    def _trigger_step(self) -> None:
        self._send()

    def _trigger(self) -> None:
        for reader in self._readers:
            reader.read()
        self._send()

    def _send(self) -> None:
        if len(self._values) < len(set(self.names)):
            return
        command = self.command.format(**self._values)
        self._values.clear()
        status = os.system(command)
        if status != 0:
            logger.error("SendMonitorData: the command failed with status %d: %s", status, command)

"""Scalars on the screen and in the log."""

from __future__ import annotations

import re
from typing import Iterable

from ...utils import logger
from .base import MonitorBase

__all__ = ["ScalarPrinter"]


class ScalarPrinter(MonitorBase):
    """
    Log scalars, one line each, sorted by name.

    Args:
        enable_step: log after each step what the step reported. The last step of an epoch is left to the epoch's lines
            if these are enabled too.
        enable_epoch: log after each epoch what was reported since the last lines, the last value of each name.
        whitelist: regular expressions; a name must match one of them anywhere. None lets all names through.
        blacklist: regular expressions; a name must match none of them. None means none.

    Raises:
        re.error: an expression is malformed.

    Runs at: before_train, trigger_step, trigger.

    Example:
        >>> ScalarPrinter(whitelist=["error$", "^cost$"])

    tensorpack: same.
    """

    def __init__(
        self,
        enable_step: bool = False,
        enable_epoch: bool = True,
        whitelist: Iterable[str] | None = None,
        blacklist: Iterable[str] | None = None,
    ) -> None:
        self._enable_step = enable_step
        self._enable_epoch = enable_epoch
        self._whitelist = None if whitelist is None else _compile(whitelist)
        self._blacklist = _compile(blacklist or ())
        self._values: dict[str, float] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the number until the next lines."""
        self._values[name] = float(val)

    def _before_train(self) -> None:
        self._log_lines()

    def _trigger_step(self) -> None:
        if not self._enable_step:
            return
        is_last = self.local_step == self.trainer.steps_per_epoch - 1
        if not (is_last and self._enable_epoch):
            self._log_lines()

    def _trigger(self) -> None:
        if self._enable_epoch:
            self._log_lines()

    def _log_lines(self) -> None:
        for name in sorted(filter(self._is_wanted, self._values)):
            logger.info("%s: %.5g", name, self._values[name])
        self._values.clear()

    def _is_wanted(self, name: str) -> bool:
        if self._whitelist is not None and not any(regex.search(name) for regex in self._whitelist):
            return False
        return not any(regex.search(name) for regex in self._blacklist)


def _compile(expressions: Iterable[str]) -> list[re.Pattern[str]]:
    if isinstance(expressions, str):
        expressions = [expressions]
    return [re.compile(expression) for expression in expressions]

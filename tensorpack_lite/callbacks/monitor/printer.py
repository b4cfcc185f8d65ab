"""Monitor that logs scalars, one per line."""

from __future__ import annotations

import re
from typing import Any, Iterable

from ...utils import logger
from .base import MonitorBase


class ScalarPrinter(MonitorBase):
    """
    Monitor that logs scalars, one line each, sorted by name.

    Args:
        enable_step: log after each step the scalars of that step. With `enable_epoch`, the last step of an
            epoch is logged with the epoch.
        enable_epoch: log after each epoch the last value of each scalar that was reported since the last log.
        whitelist: regular expressions; log only names in which one of them is found. None means all names.
        blacklist: regular expressions; do not log names in which one of them is found. None means no names.

    Raises:
        re.error: an expression is malformed.

    Runs at: before_train, trigger_step, trigger.

    Example:
        >>> ScalarPrinter(whitelist=["error$", "^cost$"])
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
        """Keep the scalar until the next log."""
        self._values[name] = float(val)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the scalars that were reported since the last log."""
        return {"values": dict(self._values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the scalars that were reported since the last log."""
        self._values = dict(state["values"])

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

"""Reader of one statistic, for callbacks that act on its values."""

from __future__ import annotations

from ..loop.callback import Callback
from ..utils import logger
from ..utils.checks import check_type

__all__ = ["StatisticReader"]


class StatisticReader:
    """
    Reader of the newest value of a statistic for a callback, which warns if there is none.

    Args:
        callback: the callback; its `trainer.monitors` are read, and it is named in messages.
        name: the name of the statistic.
        strict: raise a KeyError instead of a warning if the statistic has never been reported.

    Attributes:
        last_step: the step of the value that `read_new` returned last; -1 if there is none. The callback
            keeps it in its state.
    """

    def __init__(self, callback: Callback, name: str, strict: bool) -> None:
        self._callback = callback
        self._name = check_type(f"{type(callback).__name__}: the name of the statistic", name, str)
        self._strict = strict
        self.last_step = -1

    def read(self) -> tuple[int, float] | None:
        """
        Return the newest `(global_step, value)`, or None with a warning.

        Raises:
            KeyError: `strict` is set, and the statistic has never been reported.
        """
        monitors = self._callback.trainer.monitors
        history = monitors.get_history(self._name)
        if history:
            return history[-1]
        message = f"{self._callback}: statistic {monitors.describe_missing(self._name)}"
        if self._strict:
            raise KeyError(message)
        logger.warning(message)
        return None

    def read_new(self) -> tuple[int, float] | None:
        """Like `read`, but return None, with a warning, if the newest value was returned before."""
        newest = self.read()
        if newest is None:
            return None
        if newest[0] == self.last_step:
            logger.warning(f"{self._callback}: '{self._name}' has no new value since step {newest[0]}.")
            return None
        self.last_step = newest[0]
        return newest

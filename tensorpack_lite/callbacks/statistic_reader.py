"""Reader of one statistic, for callbacks that act on its values."""

from __future__ import annotations

from typing import Any

from ..loop.callback import Callback
from ..utils import logger
from ..utils.checks import check_type


class StatisticReader:
    """
    Reader of the newest value of a statistic for a callback, which warns if there is none.

    If the callback is called on several ranks, all of them get the chief's value, so that they make the same decisions. All must
    read at the same steps.

    Args:
        callback: the callback; its `trainer.monitors` are read, and it is named in messages.
        name: the name of the statistic.
        strict: raise a KeyError instead of a warning if the statistic has still not been reported at the end of the epoch,
            and no callback may report it later; see `Monitors.expect`. Processes that are not the chief get the warning.

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
        Return the newest `(global_step, value)`, or None, with a warning or, if `strict` is set, an error at the end of
        the epoch.
        """
        ranks = self._callback.trainer.ranks
        if ranks.size == 1 or self._callback.chief_only:
            return self._read_own()
        newest = self._read_own() if ranks.rank == 0 else None
        mine = None if newest is None else [newest[0], float(newest[1]).hex()]
        told = ranks.channel.all_gather(f"the statistic of {self._callback}", mine)[0]
        return None if told is None else (int(told[0]), float.fromhex(told[1]))

    def _read_own(self) -> tuple[int, float] | None:
        """Read the statistic of this process."""
        monitors: Any = self._callback.trainer.monitors  # the class is above this module
        history = monitors.get_history(self._name)
        if history:
            return history[-1]
        if self._strict and self._callback.trainer.is_chief:
            monitors.expect(self._name, self._callback)
        else:
            missing = monitors.describe_missing(self._name, self._callback)
            logger.warning(f"{self._callback}: statistic {missing}")
        return None

    def read_new(self) -> tuple[int, float] | None:
        """Like `read`, but also return None, with a warning, if the newest value was returned before."""
        newest = self.read()
        if newest is None:
            return None
        if newest[0] == self.last_step:
            logger.warning(f"{self._callback}: '{self._name}' has no new value since step {newest[0]}.")
            return None
        self.last_step = newest[0]
        return newest

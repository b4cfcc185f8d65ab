"""Times of the callbacks in a step, measured in some steps only."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Sequence

from ...loop.callback import Call


class CallTimes:
    """
    Measurement of each call of a callback in a step, from now on until `stop`.

    Args:
        callers: objects with a method `replace_calls(replace)`, which calls `replace(call, method)` for each method of a
            callback that they call in a step, and uses the result instead.

    Attributes:
        seconds: of all calls together, by "<callback>, <moment>".
    """

    def __init__(self, callers: Sequence[Any]) -> None:
        self._callers = callers
        self.seconds: dict[str, float] = {}
        for caller in callers:
            caller.replace_calls(self._measured)

    def stop(self) -> None:
        """Measure no more."""
        for caller in self._callers:
            caller.replace_calls(lambda _, method: method.method if isinstance(method, _Measured) else method)

    def _measured(self, call: Call, method: Any) -> _Measured:
        return _Measured(f"{call.callback}, {call.moment[1:]}", method, self.seconds)


class _Measured:
    def __init__(self, name: str, method: Any, seconds: dict[str, float]) -> None:
        self.method, self.__self__ = method, getattr(method, "__self__", method)
        self._name, self._seconds = name, seconds

    def __call__(self, *args: Any) -> Any:
        begin = perf_counter()
        result = self.method(*args)
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + perf_counter() - begin
        return result

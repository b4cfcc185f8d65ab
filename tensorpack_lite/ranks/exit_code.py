"""The exit code of a rank that ends because of another one."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Callable

__all__ = ["FOLLOWED", "end_with_code"]

FOLLOWED = 128
"""
Exit code of a rank that ends because another one failed, died or is silent. It differs from that of a script with an error, and is
the lowest one that schedulers try again.
"""


def end_with_code(kind: type[Exception]) -> None:
    """From now on, let an exception of this type that reaches the end of the script end the process with `FOLLOWED`."""
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook(sys.excepthook, kind)


class _Hook:
    """The hook that shows uncaught errors, and ends the process with another code than 1."""

    def __init__(self, show: Callable[..., object], kind: type[Exception]) -> None:
        self._show, self._kind = show, kind

    def __call__(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        self._show(kind, error, traceback)
        if issubclass(kind, self._kind):
            raise SystemExit(FOLLOWED)

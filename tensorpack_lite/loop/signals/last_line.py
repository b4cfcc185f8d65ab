"""The last line of a script whose training Ctrl-C has ended, instead of a traceback."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from .preemption import Interrupted

__all__ = ["LastLine"]


class LastLine:
    """
    Context manager around a training, or the building of its graph, which Ctrl-C may end.

    The KeyboardInterrupt is raised as usual. If nothing catches it, `sys.excepthook` prints one line, and other errors as before.

    Note: notebooks, debuggers and test runners catch it, so nothing changes there.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, KeyboardInterrupt):
            return
        if not isinstance(error, Interrupted):
            error.exit_code = None  # type: ignore[attr-defined]  # read by the hook
        if not isinstance(sys.excepthook, _Hook):
            sys.excepthook = _Hook(sys.excepthook)


class _Hook:
    """The hook that prints uncaught errors. Each process has at most one."""

    def __init__(self, previous: Any) -> None:
        self._previous = previous

    def __call__(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if not (isinstance(error, KeyboardInterrupt) and hasattr(error, "exit_code")):
            self._previous(kind, error, traceback)
            return
        sys.stdout.flush()
        sys.stderr.write(f"KeyboardInterrupt: {str(error) or 'Ctrl-C ended the training.'}\n")
        if error.exit_code is not None:
            raise SystemExit(error.exit_code)

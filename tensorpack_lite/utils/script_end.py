"""
The one place that replaces `sys.excepthook`, which Python calls when an error ends the script.

It uses only the standard library, because processes of `tensorpack-lite run` load it at their start, without the package. If they
import the package, they have a second hook, which calls the first.
"""

from __future__ import annotations

import sys
from functools import partial
from types import TracebackType
from typing import Any, Callable, List, Optional, Type

Show = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], object]
"""A function with the arguments of `sys.excepthook`."""


def at_error(handler: Callable[..., None]) -> Callable[[], None]:
    """
    From now on, call a function when an error ends the script.

    The errors are raised as usual, so nothing changes where something catches them, as notebooks, debuggers and test runners do.

    Args:
        handler: called with a function that shows the error, and the three arguments of `sys.excepthook`. Handlers that were
            added before, and the hook of before, are called by the function that shows. A handler is added only once.

    Returns:
        A function that removes the handler.
    """
    chain = sys.excepthook
    if not isinstance(chain, _Chain):
        chain = sys.excepthook = _Chain(chain)
    if handler not in chain.handlers:
        chain.handlers.append(handler)
    return partial(chain.remove, handler)


class _Chain:
    """The hook. There is a second one only if the script has replaced the first by another hook."""

    def __init__(self, previous: Any) -> None:
        self._previous = previous
        self.handlers: List[Callable[..., None]] = []

    def __call__(self, kind: Type[BaseException], error: BaseException, traceback: Optional[TracebackType]) -> None:
        show: Show = self._previous
        for handler in self.handlers:
            show = partial(handler, show)
        show(kind, error, traceback)

    def remove(self, handler: Callable[..., None]) -> None:
        """Remove a handler, and the hook itself if it was the last one."""
        if handler in self.handlers:
            self.handlers.remove(handler)
        if not self.handlers and sys.excepthook is self:
            sys.excepthook = self._previous

"""The exit code of a rank that ends because of another one."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Type

from ..utils.script_end import Show, at_error

FOLLOWED = 128
"""
Exit code of a rank that ends because another one failed, died or is silent. It differs from that of a script with an error, and is
the lowest one that schedulers try again.
"""


def end_with_code(kind: type[Exception]) -> None:
    """From now on, let an exception of this type that reaches the end of the script end the process with `FOLLOWED`."""
    at_error(_EndWithCode(kind))


@dataclass(frozen=True)
class _EndWithCode:
    """The function that ends the process with another code than 1, after an exception of a type."""

    kind: Type[Exception]

    def __call__(
        self, show: Show, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        show(kind, error, traceback)
        if issubclass(kind, self.kind):
            raise SystemExit(FOLLOWED)

"""The connection of a process that trains alone, which is the same as that of ranks to each other, with one rank."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Mapping


class AloneChannel:
    """A `RankChannel` without other ranks, and its base class: an exchange returns the value of this process, and nobody fails."""

    rank, size = 0, 1
    failure: str | None = None

    def all_gather(self, name: str, value: object) -> list[Any]:
        """Return the value in a list."""
        return [value]

    def gather(self, name: str, value: object) -> list[Any] | None:
        """Return the value in a list."""
        return [value]

    def describe_with(self, describe: Callable[[], str] | None) -> None:
        """Do nothing: nobody asks."""

    def ask_all(self) -> dict[int, str]:
        """Return nothing."""
        return {}

    def wait_for_failure(self, seconds: float) -> str | None:
        """Return None."""
        return None

    def end_by_itself(self) -> None:
        """Do nothing."""

    def fail(self, text: str) -> None:
        """Do nothing."""


class Alone:
    """A `RankConnection` without other ranks, and its base class."""

    rank, size = 0, 1
    channel = AloneChannel()

    def reporting(self, trainer: object, place: str) -> ContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def compare(self, values: Mapping[str, object]) -> None:
        """Do nothing."""

    def end_data(self) -> None:
        """Do nothing."""

    def explain(self, error: BaseException) -> None:
        """Do nothing."""

    def finish(self, step: int) -> None:
        """Do nothing."""

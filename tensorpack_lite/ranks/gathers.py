"""Values that ranks exchange: the hub collects one from each rank, and answers when the last one has arrived."""

from __future__ import annotations

from typing import Any, Collection, Iterator

from .messages import pack

ALL, CHIEF, EACH = "all", "chief", "each"
"""
Who receives what at the end of a gather.

- ALL: each rank receives the values of all.
- CHIEF: only rank 0 receives them.
- EACH: each rank receives its element of the list that is the value of rank 0.
"""


class Gathers:
    """
    The gathers that some ranks have joined, but not all.

    Args:
        size: the number of ranks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._open: dict[str, dict[int, Any]] = {}  # the values by rank
        self._receivers: dict[str, str] = {}

    def joined(self) -> list[Collection[int]]:
        """Return, for each gather, the ranks that have given their value."""
        return [values.keys() for values in self._open.values()]

    def add(self, rank: int, message: dict[str, Any]) -> Iterator[bytes]:
        """
        Store the value of a rank.

        Args:
            rank: its number.
            message: of the type "gather".

        Returns:
            The lines to send, one for each rank, in order; empty if ranks are still missing.

        Raises:
            ValueError: the message does not fit those of the other ranks.
        """
        name, receivers = message["name"], message["receivers"]
        if any(rank in values for values in self._open.values()):
            raise ValueError("it takes part in a gather already")
        if receivers not in (ALL, CHIEF, EACH) or self._receivers.setdefault(name, receivers) != receivers:
            raise ValueError(f"it expects other receivers of '{name}' than the other ranks")
        is_read = receivers != EACH or rank == 0
        if receivers == EACH and is_read and not self._has_parts(message["value"]):
            raise ValueError(f"'{name}' does not have one value for each rank")
        values = self._open.setdefault(name, {})
        values[rank] = message["value"] if is_read else None
        if len(values) < self._size:
            return iter(())
        del self._open[name], self._receivers[name]
        return self._answers(name, receivers, [values[i] for i in range(self._size)])

    def _has_parts(self, value: object) -> bool:
        return isinstance(value, list) and len(value) == self._size

    def _answers(self, name: str, receivers: str, values: list[Any]) -> Iterator[bytes]:
        if receivers == EACH:
            for part in values[0]:
                yield _answer(name, [part])
            return
        line = _answer(name, values)
        yield line
        line = line if receivers == ALL else _answer(name, None)
        for _ in range(1, self._size):
            yield line


def _answer(name: str, values: list[Any] | None) -> bytes:
    return pack({"type": "gathered", "name": name, "values": values})

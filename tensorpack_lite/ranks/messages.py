"""Messages of the ranks' channel: lines of JSON, bounded in length and checked before use."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

MAX_LINE_VARIABLE = "TENSORPACK_RANKS_MAX_LINE_MB"
"""Environment variable with the longest message that a rank may send, in MB (2**20 bytes)."""

_DEFAULT_MAX_LINE_MB = 64
_MAX_DIGITS = 18  # longer integers take quadratic time to read, and no message needs them

# The fields of each type of message and their types; None stands for any value.
_FIELDS: dict[str, dict[str, Any]] = {
    # from a rank to the hub
    "hello": {"rank": (int,), "size": (int,), "address": (str,)},
    "status": {"status": (dict,)},
    "gather": {"name": (str,), "value": None, "receivers": (str,)},
    "fail": {"text": (str,)},
    "place": {"text": (str,)},
    "bye": {},
    # from the hub to a rank
    "welcome": {},
    "tick": {"chief": (dict,), "signal": (int, type(None)), "all_know_end": (bool,)},
    "ask": {},
    "gathered": {"name": (str,), "values": (list, type(None))},
    "failed": {"text": (str,)},
}
_STATUS_FIELDS = {
    "kind": (str,),
    "step": (int,),
    "where": (str,),
    "signal": (int, type(None)),
    "last_step": (int, type(None)),
}


def max_line_bytes() -> int:
    """
    Return the longest message that a rank may send, in bytes: `$TENSORPACK_RANKS_MAX_LINE_MB`, default 64 MB.

    Raises:
        ValueError: the variable is not a positive integer.
    """
    text = os.environ.get(MAX_LINE_VARIABLE) or str(_DEFAULT_MAX_LINE_MB)
    if not (text.isdecimal() and 0 < len(text) <= 6 and int(text) > 0):
        raise ValueError(f"{MAX_LINE_VARIABLE}: expected a positive number of MB, got '{text}'.")
    return int(text) << 20


class Lines:
    """
    Buffer that splits a stream of bytes into lines.

    Args:
        max_bytes: length of the longest line that is allowed.

    Attributes:
        max_bytes: the limit; may be changed.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """
        Add bytes that have arrived, and return the lines that they complete.

        Raises:
            ValueError: a line is longer than `max_bytes`, whether or not its end has arrived.
        """
        self._rest += data
        lines: list[bytes] = []
        if b"\n" in data:  # otherwise a long line would be copied each time that more of it arrives
            *complete, self._rest = self._rest.split(b"\n")
            lines = [bytes(line) for line in complete]
        if max(map(len, [*lines, self._rest])) > self.max_bytes:
            raise ValueError(f"a line is longer than {self.max_bytes} bytes")
        return lines


def pack(message: Mapping[str, object]) -> bytes:
    """
    Return a message as a line.

    Raises:
        TypeError: JSON cannot represent one of its values.
        ValueError: the message is nested too deeply.
    """
    try:
        return json.dumps(message).encode("utf-8") + b"\n"
    except RecursionError as error:
        raise ValueError("the message is nested too deeply") from error


def parse(line: bytes) -> dict[str, Any]:
    """
    Return the message of a line, after checking its fields and their types.

    Raises:
        ValueError: the line is not a valid message.
    """
    try:
        message = json.loads(line.decode("utf-8"), parse_int=_parse_int)
    except RecursionError as error:
        raise ValueError("the message is nested too deeply") from error
    kind = message.get("type") if isinstance(message, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise ValueError("the line is not a message of the ranks")
    _check(message, _FIELDS[kind])
    if kind == "status":
        _check(message["status"], _STATUS_FIELDS)
    return message


def _check(values: Mapping[str, object], fields: Mapping[str, tuple[type, ...] | None]) -> None:
    for name, types in fields.items():
        if name not in values or (types is not None and type(values[name]) not in types):
            raise ValueError(f"the field '{name}' is missing or has the wrong type")


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("an integer is too long")
    return int(digits)

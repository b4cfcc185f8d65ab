"""
Check of the sizes that a pickle claims, before it is unpickled.

Python's unpickler allocates what a pickle asks for: 9 bytes that put an object into place 2^27 of the memo cost 2 GB. In an
honest pickle a place in the memo is at most the number of bytes before it, and a string ends before the pickle does.
"""

from __future__ import annotations

import pickletools
from functools import lru_cache
from struct import Struct

__all__ = ["check_pickle_sizes"]

_PUT, _LONG_PUT, _STOP = ord("p"), ord("r"), ord(".")
_LENGTHS = {  # how pickletools says that an argument begins with its length
    pickletools.TAKEN_FROM_ARGUMENT1: Struct("<B"),
    pickletools.TAKEN_FROM_ARGUMENT4: Struct("<i"),
    pickletools.TAKEN_FROM_ARGUMENT4U: Struct("<I"),
    pickletools.TAKEN_FROM_ARGUMENT8U: Struct("<Q"),
}


def check_pickle_sizes(packed: bytes) -> None:
    """
    Walk through the opcodes of a pickle without running them.

    Args:
        packed: the pickle; what follows its end is not looked at.

    Raises:
        ValueError: an opcode is unknown, a string ends after the pickle, or a place in the memo is larger than the number of
            bytes before it.
    """
    arguments = _arguments()
    place, end = 0, len(packed)
    while place < end:
        code, start = packed[place], place + 1
        if code == _STOP:
            return
        argument = arguments.get(code)
        if argument is None:
            raise ValueError(f"byte {place} of the pickle is {code}, which is not an opcode")
        size, lines, length = argument
        place = start + size
        if length is not None and place <= end:
            place += length.unpack_from(packed, start)[0]
        for _ in range(lines):
            place = packed.find(b"\n", place) + 1 or end + 1
        if not start + size <= place <= end:  # a length may be negative
            break
        if code in (_PUT, _LONG_PUT):
            _check_memo(packed[start:place], code, start)
    raise ValueError("the pickle is cut off")


def _check_memo(argument: bytes, code: int, start: int) -> None:
    index = int(argument) if code == _PUT else int.from_bytes(argument, "little")
    if index > start:
        raise ValueError(f"the pickle puts an object into place {index} of its memo after only {start} bytes")


@lru_cache(maxsize=1)
def _arguments() -> dict[int, tuple[int, int, Struct | None]]:
    """Return `{opcode: (bytes of the argument, lines of the argument, the length that it begins with)}`."""
    found: dict[int, tuple[int, int, Struct | None]] = {}
    for opcode in pickletools.opcodes:
        argument = opcode.arg
        if argument is None:
            found[ord(opcode.code)] = (0, 0, None)
        elif argument.n == pickletools.UP_TO_NEWLINE:
            found[ord(opcode.code)] = (0, 2 if argument.name.endswith("pair") else 1, None)
        elif argument.n in _LENGTHS:
            length = _LENGTHS[argument.n]
            found[ord(opcode.code)] = (length.size, 0, length)
        else:
            found[ord(opcode.code)] = (argument.n, 0, None)
    return found

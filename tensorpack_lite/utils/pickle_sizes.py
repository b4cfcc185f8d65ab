"""
Check of the sizes in a pickle before it is unpickled.

Python's unpickler allocates whatever a pickle requests: 9 bytes that store an object at index 2^27 of the
memo cost 2 GB. In a regular pickle, an index of the memo is at most the number of bytes before it, and
strings end inside the pickle.
"""

from __future__ import annotations

import pickletools
from functools import lru_cache
from struct import Struct

__all__ = ["check_pickle_sizes"]

_PUT, _LONG_PUT, _STOP = ord("p"), ord("r"), ord(".")
_LENGTHS = {  # pickletools' constants for arguments that begin with their length
    pickletools.TAKEN_FROM_ARGUMENT1: Struct("<B"),
    pickletools.TAKEN_FROM_ARGUMENT4: Struct("<i"),
    pickletools.TAKEN_FROM_ARGUMENT4U: Struct("<I"),
    pickletools.TAKEN_FROM_ARGUMENT8U: Struct("<Q"),
}


def check_pickle_sizes(packed: bytes) -> None:
    """
    Check the opcodes of a pickle without running them.

    Args:
        packed: the pickle. Bytes after its end are ignored.

    Raises:
        ValueError: an opcode is unknown, a string ends after the pickle, or an index of the memo is larger
            than the number of bytes before it.
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
            stored = packed[start:place]
            index = int(stored) if code == _PUT else int.from_bytes(stored, "little")
            if index > start:
                raise ValueError(
                    f"the pickle stores an object at index {index} of its memo after only {start} bytes"
                )
    raise ValueError("the pickle is cut off")


@lru_cache(maxsize=1)
def _arguments() -> dict[int, tuple[int, int, Struct | None]]:
    """Return `{opcode: (bytes of the argument, lines of the argument, format of its length)}`."""
    found: dict[int, tuple[int, int, Struct | None]] = {}
    for opcode in pickletools.opcodes:
        size = 0 if opcode.arg is None else opcode.arg.n
        if opcode.arg is not None and size == pickletools.UP_TO_NEWLINE:
            found[ord(opcode.code)] = (0, 2 if opcode.arg.name.endswith("pair") else 1, None)
        else:
            length = _LENGTHS.get(size)
            found[ord(opcode.code)] = (size if length is None else length.size, 0, length)
    return found

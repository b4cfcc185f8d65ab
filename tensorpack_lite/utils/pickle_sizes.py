"""
Check of the sizes in a pickle before it is unpickled.

Python's unpickler allocates whatever a pickle requests: 9 bytes that store an object at index 2^27 of the
memo cost 2 GB. In a regular pickle, an index of the memo is at most the number of bytes before it, and
strings end inside the pickle.
"""

from __future__ import annotations

import pickletools
from struct import Struct

_PUT, _LONG_PUT, _STOP = ord("p"), ord("r"), ord(".")
_LENGTHS = {  # pickletools' constants for arguments that begin with their length
    pickletools.TAKEN_FROM_ARGUMENT1: Struct("<B"),
    pickletools.TAKEN_FROM_ARGUMENT4: Struct("<i"),
    pickletools.TAKEN_FROM_ARGUMENT4U: Struct("<I"),
    pickletools.TAKEN_FROM_ARGUMENT8U: Struct("<Q"),
}


def _format_of(argument: pickletools.ArgumentDescriptor | None) -> tuple[int, int, Struct | None]:
    """Return the number of bytes of an argument, the number of its lines, and the format of its length."""
    if argument is None:
        return 0, 0, None
    if argument.n == pickletools.UP_TO_NEWLINE:
        return 0, 2 if argument.name.endswith("pair") else 1, None
    length = _LENGTHS.get(argument.n)
    return argument.n if length is None else length.size, 0, length


_ARGUMENTS = {ord(opcode.code): _format_of(opcode.arg) for opcode in pickletools.opcodes}


def check_pickle_sizes(packed: bytes) -> None:
    """
    Check the opcodes of a pickle without running them.

    Args:
        packed: the pickle. Bytes after its end are ignored.

    Raises:
        ValueError: an opcode is unknown, a string ends after the pickle, or an index of the memo is larger
            than the number of bytes before it.
    """
    place, end = 0, len(packed)
    while place < end:
        code, start = packed[place], place + 1
        if code == _STOP:
            return
        argument = _ARGUMENTS.get(code)
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

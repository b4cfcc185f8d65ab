"""
One-way channel that carries datapoints between two processes.

Notifications and small messages use a socket pair; larger messages lie in shared memory. Every message, small or
large, occupies a slot until the reader returns the slot, so the number of slots limits how far the writer runs ahead.
The socket reports at once when the process at the other end has ended, for whatever reason.

The writer allocates shared memory when it first needs it, and larger memory when a datapoint does not fit. It sends the
file descriptor through the socket. Where shared memory is missing or too small, all messages use the socket, which is
slower.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Callable

import numpy as np

from ...utils import logger
from .codec import Encoded, decode, encode, may_stay_in_place, write_arrays
from .errors import raise_described
from .memory import LIMIT_VARIABLE, allocate, limit_bytes, map_memory
from .slots import Lender, aligned, view_slot

MAX_SLOTS = 16
_MIN_SLOT_BYTES = 256 << 10
_INLINE_BYTES = 2048  # smaller messages use the socket
_LEND_BYTES = 64 << 10  # smaller messages are copied out of their slot, which is then free at once

_INLINE, _IN_SLOT, _NEW_MEMORY, _ERROR = b"I", b"S", b"M", b"E"
# kind, generation of the memory modulo 256, slot, bytes of the head, bytes of the arrays
_HEADER = struct.Struct("<cBBQQ")
_MEMORY_HEADER = struct.Struct("<cBBQ")  # kind, generation, number of slots, bytes of a slot
_FREED = struct.Struct("<BB")  # generation, slot


class ChannelClosed(Exception):
    """The process at the other end of a channel has ended or has closed the channel."""


class Writer:
    """
    The sending end of a channel. Only one thread may use it.

    Args:
        connection: one end of `multiprocessing.Pipe()`; the other end belongs to a `Reader`.
        who: name of the stage, for the log.
        num_slots: maximum number of unread messages, 2 to 16.
    """

    def __init__(self, connection: Connection, who: str, num_slots: int = MAX_SLOTS) -> None:
        self._connection = connection
        self._freed = socket.socket(fileno=os.dup(connection.fileno()))
        self._partial = b""
        self._who = who
        self._num_slots = num_slots
        self._free = list(range(num_slots))
        self._generation = 0
        self._memory: Any = None
        self._slot_bytes = 0
        self._limit = limit_bytes()
        self._logged: set[str] = set()

    def fileno(self) -> int:
        """Return a descriptor for selectors: readable when a slot is free again or the reader has ended."""
        return self._connection.fileno()

    def has_room(self) -> bool:
        """
        Return whether `send` would return without waiting.

        Raises:
            ChannelClosed: the reader has ended.
        """
        if not self._free:
            self._receive_freed(socket.MSG_DONTWAIT)
        return bool(self._free)

    def send(self, datapoints: list[Any]) -> None:
        """
        Send datapoints in one message. Wait while no slot is free.

        Args:
            datapoints: one or more; copied before this method returns.

        Raises:
            ChannelClosed: the reader has ended.
            pickle.PicklingError, TypeError, AttributeError: the datapoints cannot be pickled.
        """
        encoded = encode(datapoints)
        while not self.has_room():
            self._receive_freed(0)
        start = aligned(len(encoded.head))  # in a slot, the arrays follow the head
        if start + encoded.num_bytes > _INLINE_BYTES and self._has_memory_for(start + encoded.num_bytes):
            self._send_in_slot(encoded, start)
        else:
            self._send_inline(encoded)

    def send_error(self, description: dict[str, Any]) -> None:
        """
        Send an error of this process. An error needs no slot.

        Args:
            description: result of `errors.describe_error`.

        Raises:
            ChannelClosed: the reader has ended.
        """
        self._write(_ERROR + pickle.dumps(description))

    def close(self) -> None:
        """Close the channel. The reader can still receive what was sent."""
        self._freed.close()
        self._connection.close()

    def _send_in_slot(self, encoded: Encoded, start: int) -> None:
        slot = self._free.pop()
        room = view_slot(self._memory, slot, self._slot_bytes)
        size = len(encoded.head)
        room[:size] = np.frombuffer(encoded.head, np.uint8)
        write_arrays(encoded, room[start:])
        self._write(_HEADER.pack(_IN_SLOT, self._generation, slot, size, encoded.num_bytes))

    def _send_inline(self, encoded: Encoded) -> None:
        arrays = np.empty(encoded.num_bytes, np.uint8)
        write_arrays(encoded, arrays)
        slot = self._free.pop()
        header = _HEADER.pack(_INLINE, self._generation, slot, len(encoded.head), encoded.num_bytes)
        self._write(b"".join((header, encoded.head, arrays.data)))

    def _has_memory_for(self, num_bytes: int) -> bool:
        """Return whether a message fits into a slot, after allocating memory or larger memory if possible."""
        if num_bytes <= self._slot_bytes:
            return True
        if self._limit == 0:
            return False
        slot_bytes = max(num_bytes, _MIN_SLOT_BYTES)
        if self._memory is not None:
            slot_bytes = 1 << (slot_bytes - 1).bit_length()  # the next message may be a little larger again
            if 2 * slot_bytes > self._limit:
                slot_bytes = num_bytes
            self._log_once("growth", logger.info, f"datapoints grew; slots of shared memory now have {_mb(slot_bytes)}")
        slot_bytes = -(-slot_bytes // 4096) * 4096
        num_slots = min(self._num_slots, self._limit // slot_bytes)
        if num_slots < 2:
            megabytes = 2 * slot_bytes // 2**20 + 1
            self._warn_slow("limit", num_bytes, f"Set {LIMIT_VARIABLE} to {megabytes} or more")
            return False
        try:
            self._renew_memory(slot_bytes, num_slots)
        except OSError as error:
            self._limit = 0
            refused = f"The system refused {_mb(slot_bytes * num_slots)} ({error}). Set {LIMIT_VARIABLE} lower"
            self._warn_slow("refused", num_bytes, refused)
            return False
        return True

    def _renew_memory(self, slot_bytes: int, num_slots: int) -> None:
        """Replace the memory. The old memory is released with the last array in it."""
        size = slot_bytes * num_slots
        handle = allocate(size)
        self._generation = (self._generation + 1) % 256
        try:
            self._write(_MEMORY_HEADER.pack(_NEW_MEMORY, self._generation, num_slots, slot_bytes))
            send_handle(self._connection, handle, None)
        except (OSError, ChannelClosed) as error:
            os.close(handle)
            raise ChannelClosed(str(error)) from error
        self._memory = map_memory(handle, size)
        self._slot_bytes = slot_bytes
        self._free = list(range(num_slots))

    def _receive_freed(self, flags: int) -> None:
        try:
            freed = self._freed.recv(4096, flags)
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not freed:
            raise ChannelClosed("the reader has ended")
        freed = self._partial + freed
        whole = len(freed) // _FREED.size * _FREED.size
        self._partial = freed[whole:]
        self._free.extend(
            slot for generation, slot in _FREED.iter_unpack(freed[:whole]) if generation == self._generation
        )

    def _write(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def _warn_slow(self, kind: str, num_bytes: int, advice: str) -> None:
        text = f"a message of {_mb(num_bytes)} uses a socket, several times slower than shared memory. {advice}."
        self._log_once(kind, logger.warning, text)

    def _log_once(self, kind: str, log: Callable[[str], object], sentence: str) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            log(f"{self._who}: {sentence}")


class Reader:
    """
    The receiving end of a channel. Only one thread may use it.

    Args:
        connection: the other end of the writer's connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lender: Lender | None = None

    def fileno(self) -> int:
        """Return a descriptor for selectors: readable when `receive` would not wait."""
        return self._connection.fileno()

    def is_ready(self, timeout: float = 0.0) -> bool:
        """Return whether `receive` would return or raise without waiting, at the latest after `timeout` seconds."""
        return self._connection.poll(timeout)

    def receive(self) -> list[Any]:
        """
        Wait for the next message and return its datapoints.

        Returns:
            The datapoints. The caller may write to their arrays and keep them.

        Raises:
            ChannelClosed: the writer has ended, and every message was received.
            BaseException: the error that `send_error` sent.
        """
        while True:
            message = self._read()
            kind = message[:1]
            if kind in (_INLINE, _IN_SLOT):
                return self._unpack(message)
            if kind == _ERROR:
                raise_described(pickle.loads(message[1:]))
            self._take_memory(message)

    def close(self) -> None:
        """Stop receiving. The writer notices at its next message. Arrays that were returned stay valid."""
        self._connection.close()

    def _unpack(self, message: bytes) -> list[Any]:
        kind, generation, slot, head_bytes, array_bytes = _HEADER.unpack_from(message)
        if kind == _INLINE:
            end = _HEADER.size + head_bytes
            arrays = np.frombuffer(bytearray(memoryview(message)[end:]), np.uint8)
            datapoints, free = decode(message[_HEADER.size : end], arrays, copy=False), [slot]
        else:
            datapoints, free = self._unpack_slot(slot, head_bytes, array_bytes)
        self._give_back(generation, free)
        return datapoints

    def _unpack_slot(self, slot: int, head_bytes: int, array_bytes: int) -> tuple[list[Any], list[int]]:
        """Return the datapoints of a slot and the slots that are free now."""
        lender = self._lender
        assert lender is not None, "bug: a slot arrived before its memory"
        room = lender.view(slot)
        head = room[:head_bytes].tobytes()
        lend = array_bytes >= _LEND_BYTES and may_stay_in_place(head) and lender.can_lend()
        if lend:
            room = lender.lend(slot)
        start = aligned(head_bytes)
        datapoints = decode(head, room[start : start + array_bytes], copy=not lend)
        free = lender.take_returned()
        return datapoints, free if lend else [slot, *free]

    def _give_back(self, generation: int, slots: list[int]) -> None:
        """Tell the writer which slots are free. A writer that has ended does not matter: its messages are still read."""
        if not slots:
            return
        try:
            os.write(self._connection.fileno(), b"".join(_FREED.pack(generation, slot) for slot in slots))
        except (BrokenPipeError, ConnectionResetError):
            return

    def _take_memory(self, message: bytes) -> None:
        _, _, num_slots, slot_bytes = _MEMORY_HEADER.unpack(message)
        try:
            handle = recv_handle(self._connection)
        except (OSError, EOFError) as error:
            raise ChannelClosed(str(error)) from error
        self._lender = Lender(map_memory(handle, num_slots * slot_bytes), slot_bytes, num_slots)

    def _read(self) -> bytes:
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise ChannelClosed(str(error) or "the writer has ended") from error


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MB"

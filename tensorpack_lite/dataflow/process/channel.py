"""
A one-way road of datapoints from one process to another.

News and small messages go through a socket pair; what is larger lies in shared memory. Every message, small or large,
takes a slot, until the reader gives the slot back: that is how far the writer may run ahead. When the process at the
other end is gone, however it went, the socket says so at once.

The writer makes the shared memory when it first needs it, and larger memory when a datapoint does not fit; the file
descriptor goes through the socket. Without shared memory (none there, or not enough of it) everything goes through the
socket, more slowly.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np

from ...utils import logger
from .codec import Encoded, decode, encode, may_stay_in_place, write_arrays
from .errors import raise_described
from .memory import LIMIT_VARIABLE, allocate, limit_bytes, map_memory
from .slots import Lender, aligned, view_slot

__all__ = ["MAX_SLOTS", "ChannelClosed", "Reader", "Writer"]

MAX_SLOTS = 16
_MIN_SLOT_BYTES = 256 << 10
_INLINE_BYTES = 2048  # smaller messages go through the socket
_LEND_BYTES = 64 << 10  # smaller ones are copied out of their slot, which is then free at once

_INLINE, _IN_SLOT, _NEW_MEMORY, _ERROR = b"I", b"S", b"M", b"E"
# kind, generation of the memory modulo 256, slot, bytes of the head and of the arrays
_HEADER = struct.Struct("<cBBQQ")
_MEMORY_HEADER = struct.Struct("<cBBQ")  # kind, generation, number of slots, bytes of a slot
_FREED = struct.Struct("<BB")  # generation, slot


class ChannelClosed(Exception):
    """The process at the other end of a channel is gone, or has closed it."""


class Writer:
    """
    The end of a channel where datapoints go in; one thread uses it.

    Args:
        connection: one end of `multiprocessing.Pipe()`; the other one belongs to a `Reader`.
        who: the stage, for the log.
        num_slots: how many messages may be on their way, 2 to 16.
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
        self._told: set[str] = set()

    def fileno(self) -> int:
        """For a selector: readable when a slot became free, or when the reader is gone."""
        return self._connection.fileno()

    def has_room(self) -> bool:
        """
        Tell whether a message can be sent without waiting.

        Raises:
            ChannelClosed: the reader is gone.
        """
        if not self._free:
            self._learn_freed(socket.MSG_DONTWAIT)
        return bool(self._free)

    def send(self, datapoints: list[Any]) -> None:
        """
        Send datapoints in one message; wait while no slot is free.

        Args:
            datapoints: one or more; copied before this returns.

        Raises:
            ChannelClosed: the reader is gone.
            pickle.PicklingError, TypeError, AttributeError: they cannot be pickled.
        """
        encoded = encode(datapoints)
        while not self.has_room():
            self._learn_freed(0)
        start = aligned(len(encoded.head))  # in a slot the arrays lie behind the head
        if start + encoded.num_bytes > _INLINE_BYTES and self._has_memory_for(start + encoded.num_bytes):
            self._send_in_slot(encoded, start)
        else:
            self._send_inline(encoded)

    def send_error(self, description: dict[str, Any]) -> None:
        """
        Send what went wrong in this process; that needs no slot.

        Args:
            description: of `errors.describe_error`.

        Raises:
            ChannelClosed: the reader is gone.
        """
        self._write(_ERROR + pickle.dumps(description))

    def close(self) -> None:
        """Let the reader come to the end."""
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
        header = _HEADER.pack(
            _INLINE, self._generation, self._free.pop(), len(encoded.head), encoded.num_bytes
        )
        self._write(b"".join((header, encoded.head, arrays.data)))

    def _has_memory_for(self, num_bytes: int) -> bool:
        """Tell whether a message fits a slot; make memory, or larger memory, when that can be had."""
        if num_bytes <= self._slot_bytes:
            return True
        if self._limit == 0:
            return False
        slot_bytes = max(num_bytes, _MIN_SLOT_BYTES)
        if self._memory is not None:
            slot_bytes = 1 << (slot_bytes - 1).bit_length()  # the next one may be a little larger again
            if 2 * slot_bytes > self._limit:
                slot_bytes = num_bytes
            self._tell_once(
                "grows", logger.info, f"datapoints grew; slots of shared memory now have {_mb(slot_bytes)}"
            )
        slot_bytes = -(-slot_bytes // 4096) * 4096
        num_slots = min(self._num_slots, self._limit // slot_bytes)
        if num_slots < 2:
            advice = f"set {LIMIT_VARIABLE} to {2 * slot_bytes // 2**20 + 1} or more"
            self._tell_once("limit", logger.warning, self._slow(num_bytes, advice))
            return False
        try:
            self._renew_memory(slot_bytes, num_slots)
        except OSError as error:
            advice = f"the system refused {_mb(slot_bytes * num_slots)} ({error}); give it more, or set {LIMIT_VARIABLE} lower"
            self._tell_once("refused", logger.warning, self._slow(num_bytes, advice))
            self._limit = 0
            return False
        return True

    def _renew_memory(self, slot_bytes: int, num_slots: int) -> None:
        """Replace the memory. Whatever lies in the old one stays there until its arrays are gone."""
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

    def _learn_freed(self, flags: int) -> None:
        try:
            news = self._freed.recv(4096, flags)
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not news:
            raise ChannelClosed("the reader is gone")
        news = self._partial + news
        whole = len(news) // _FREED.size * _FREED.size
        self._partial = news[whole:]
        self._free.extend(
            slot for generation, slot in _FREED.iter_unpack(news[:whole]) if generation == self._generation
        )

    def _write(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def _slow(self, num_bytes: int, advice: str) -> str:
        return f"a message of {_mb(num_bytes)} goes through a socket, several times slower than shared memory: {advice}"

    def _tell_once(self, what: str, log: Any, sentence: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log(f"{self._who}: {sentence}")


class Reader:
    """
    The end of a channel where datapoints come out; one thread uses it.

    Args:
        connection: the other end of a `Writer`'s.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lender: Lender | None = None

    def fileno(self) -> int:
        """For a selector: readable when `receive` does not wait."""
        return self._connection.fileno()

    def has_news(self) -> bool:
        """Tell whether `receive` does not wait: there is a message, or the end."""
        return self._connection.poll()

    def receive(self) -> list[Any]:
        """
        Take the next message; wait for it.

        Returns:
            Its datapoints. Their arrays may be written to, and kept as long as wanted.

        Raises:
            ChannelClosed: the writer is gone, and all that it sent was received.
            BaseException: what `send_error` sent.
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
        """Stop receiving: the writer is told at its next message. Arrays that were handed out stay as they are."""
        self._connection.close()

    def _unpack(self, message: bytes) -> list[Any]:
        kind, generation, slot, head_bytes, array_bytes = _HEADER.unpack_from(message)
        if kind == _INLINE:
            end = _HEADER.size + head_bytes
            arrays = np.frombuffer(bytearray(memoryview(message)[end:]), np.uint8)
            datapoints = decode(message[_HEADER.size : end], arrays, copy=False)
            self._give_back(generation, [slot])
            return datapoints
        datapoints, free = self._unpack_slot(slot, head_bytes, array_bytes)
        self._give_back(generation, free)
        return datapoints

    def _unpack_slot(self, slot: int, head_bytes: int, array_bytes: int) -> tuple[list[Any], list[int]]:
        """Return the datapoints of a slot, and the slots that are free now."""
        lender = self._lender
        assert lender is not None, "bug: a slot came before its memory"
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
        """Tell the writer which slots are free. It may be gone already: what it sent is still to be read."""
        news = b"".join(_FREED.pack(generation, slot) for slot in slots)
        if not news:
            return
        try:
            os.write(self._connection.fileno(), news)
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
            raise ChannelClosed(str(error) or "the writer is gone") from error


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MB"

"""
Shared memory in slots of one size, and the lending of slots.

The writer of a channel fills a slot. The reader either copies the arrays out of the slot or lends the slot, which means
that it returns arrays that lie in it. A lent slot is free again when the last of its arrays is deleted, so arrays never
change after they were returned. At most half of the slots are lent at a time; the reader copies out of the others. A
consumer that keeps arrays therefore does not block the writer.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque

import numpy as np

ALIGNMENT = 64  # a cache line; TensorFlow takes over arrays of this alignment without a copy


def aligned(offset: int) -> int:
    """Round an offset up to the next multiple of `ALIGNMENT`."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def view_slot(memory: mmap.mmap, index: int, slot_bytes: int) -> np.ndarray:
    """
    Return a slot as an array.

    Args:
        memory: the slots, one after the other.
        index: number of the slot, from 0.
        slot_bytes: size of a slot.

    Returns:
        A new array, uint8 [slot_bytes]. Every view of it keeps it alive.
    """
    return np.frombuffer(memory, np.uint8, slot_bytes, index * slot_bytes)


class Lender:
    """
    The reader's view of one shared memory: it lends slots and notices when they are free again.

    Args:
        memory: the slots.
        slot_bytes: size of a slot.
        num_slots: number of slots.
    """

    def __init__(self, memory: mmap.mmap, slot_bytes: int, num_slots: int) -> None:
        # Arrays may be deleted in any thread at any time; appending to a deque needs no lock.
        self._returned: deque[int] = deque()
        self._memory = memory
        self._slot_bytes = slot_bytes
        self._max_lent = num_slots // 2
        self._num_lent = 0  # including those in `_returned`

    def view(self, index: int) -> np.ndarray:
        """Return a slot as an array without lending it."""
        return view_slot(self._memory, index, self._slot_bytes)

    def can_lend(self) -> bool:
        """Return whether fewer than half of the slots are lent."""
        return self._num_lent - len(self._returned) < self._max_lent

    def lend(self, index: int) -> np.ndarray:
        """
        Lend a slot until the returned array and all of its views are deleted.

        Returns:
            The slot as an array, uint8 [slot_bytes].
        """
        root = self.view(index)
        weakref.finalize(root, self._returned.append, index).atexit = False
        self._num_lent += 1
        return root

    def take_returned(self) -> list[int]:
        """Return the numbers of the slots that were freed since the last call."""
        slots = []
        while self._returned:
            slots.append(self._returned.popleft())
        self._num_lent -= len(slots)
        return slots

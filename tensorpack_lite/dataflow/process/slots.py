"""
Shared memory in slots of one size, and the lending of slots.

The writer of a channel fills a slot; the reader either copies out of it, or hands out arrays that lie in it. A slot is
given back to the writer when nothing lies in it any more: when its arrays are gone, which Python's reference counting
tells. Somebody who keeps all arrays therefore never sees one change; and because at most half of the slots are lent at
a time (what comes then is copied out), he does not stop the flow either.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque

import numpy as np

__all__ = ["ALIGNMENT", "Lender", "aligned", "view_slot"]

ALIGNMENT = 64  # a cache line; TensorFlow takes over arrays of this alignment without a copy


def aligned(offset: int) -> int:
    """Round up to a place where an array may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def view_slot(memory: mmap.mmap, index: int, slot_bytes: int) -> np.ndarray:
    """
    See a slot as an array.

    Args:
        memory: slots, one after the other.
        index: which; counted from 0.
        slot_bytes: the size of each.

    Returns:
        A new array, uint8 [slot_bytes]. Every array made from it keeps it alive.
    """
    return np.frombuffer(memory, np.uint8, slot_bytes, index * slot_bytes)


class Lender:
    """
    The reader's side of one piece of shared memory: lends slots out, and notices when they are free again.

    Args:
        memory: the slots.
        slot_bytes: the size of each.
        num_slots: how many there are.
    """

    def __init__(self, memory: mmap.mmap, slot_bytes: int, num_slots: int) -> None:
        # Arrays may die in any thread and at any time: appending to a deque needs no lock.
        self._returned: deque[int] = deque()
        self._memory = memory
        self._slot_bytes = slot_bytes
        self._max_lent = num_slots // 2
        self._leases: dict[int, _Lease] = {}

    def view(self, index: int) -> np.ndarray:
        """Look into a slot, without lending it."""
        return view_slot(self._memory, index, self._slot_bytes)

    def can_lend(self) -> bool:
        """Tell whether less than half of the slots are lent."""
        return len(self._leases) < self._max_lent

    def lend(self, index: int) -> np.ndarray:
        """
        Lend a slot out for as long as the array, or any array made from it, lives.

        Returns:
            The slot, uint8 [slot_bytes].
        """
        root = self.view(index)
        lease = self._leases[index] = _Lease(root, self._on_gone)
        lease.index = index
        return root

    def take_returned(self) -> list[int]:
        """Return the numbers of the slots that became free since the last call."""
        slots = []
        while self._returned:
            slots.append(self._returned.popleft())
        return slots

    def _on_gone(self, lease: _Lease) -> None:
        self._leases.pop(lease.index, None)
        self._returned.append(lease.index)


class _Lease(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to the root array of a slot that knows which slot it is."""

    __slots__ = ("index",)
    index: int

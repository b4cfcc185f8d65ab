"""Tests for slots of shared memory and their lending."""

from __future__ import annotations

import gc
import mmap

import numpy as np
import pytest

from tensorpack_lite.dataflow.process.slots import ALIGNMENT, Lender, aligned, view_slot

SLOT = 4096


@pytest.fixture
def memory():
    """Memory for four slots."""
    return mmap.mmap(-1, 4 * SLOT)


@pytest.fixture
def lender(memory):
    """A lender of four slots."""
    return Lender(memory, SLOT, 4)


def test_aligned_rounds_up():
    """Offsets are rounded up to multiples of a cache line."""
    assert [0, ALIGNMENT, ALIGNMENT, 2 * ALIGNMENT] == [aligned(n) for n in (0, 1, 64, 65)]


def test_slots_are_adjacent(memory):
    """Slot k begins at k times the size of a slot."""
    view_slot(memory, 2, SLOT)[:] = 5
    whole = np.frombuffer(memory, np.uint8)
    assert (2 * SLOT, SLOT) == (np.flatnonzero(whole)[0], np.count_nonzero(whole))


class TestLender:
    def test_a_slot_is_returned_with_its_array(self, lender):
        """A slot is returned when its array is deleted."""
        root = lender.lend(1)
        assert [] == lender.take_returned()
        del root
        assert [1] == lender.take_returned()
        assert [] == lender.take_returned()

    @pytest.mark.slow
    def test_a_view_keeps_the_slot(self, lender):
        """A slice of a reshaped view of another dtype keeps the slot."""
        part = lender.lend(0)[: 4 * 100].view(np.float32).reshape(10, 10)[3:, ::2].T
        gc.collect()
        assert [] == lender.take_returned()
        del part
        assert [0] == lender.take_returned()

    def test_a_memoryview_keeps_the_slot(self, lender):
        """A buffer, as torch and TensorFlow use it, keeps the slot."""
        view = memoryview(lender.lend(0))
        assert [] == lender.take_returned()
        del view
        assert [0] == lender.take_returned()

    def test_at_most_half_of_the_slots_are_lent(self, lender):
        """No more than half of the slots can be lent, so a consumer that keeps arrays does not block the writer."""
        assert lender.can_lend()
        kept = [lender.lend(0), lender.lend(1)]
        assert not lender.can_lend()
        kept.pop()
        assert lender.can_lend()

    @pytest.mark.slow
    def test_an_array_outlives_its_lender(self, memory):
        """The memory exists as long as an array in it."""
        root = Lender(memory, SLOT, 4).lend(3)
        del memory
        gc.collect()
        root[:] = 9
        assert 9 * SLOT == root.sum()

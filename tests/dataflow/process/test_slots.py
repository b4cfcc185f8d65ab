"""Slots of shared memory, and their lending."""

from __future__ import annotations

import gc
import mmap

import numpy as np
import pytest

from tensorpack_lite.dataflow.process.slots import ALIGNMENT, Lender, aligned, view_slot

SLOT = 4096


@pytest.fixture
def memory():
    """Four slots."""
    return mmap.mmap(-1, 4 * SLOT)


@pytest.fixture
def lender(memory):
    """A lender of the four."""
    return Lender(memory, SLOT, 4)


def test_aligned_rounds_up():
    """To multiples of a cache line."""
    assert [0, ALIGNMENT, ALIGNMENT, 2 * ALIGNMENT] == [aligned(n) for n in (0, 1, 64, 65)]


def test_slots_lie_one_behind_the_other(memory):
    """Slot k begins at k times the size."""
    view_slot(memory, 2, SLOT)[:] = 5
    whole = np.frombuffer(memory, np.uint8)
    assert (2 * SLOT, SLOT) == (np.flatnonzero(whole)[0], np.count_nonzero(whole))


class TestLender:
    def test_a_slot_comes_back_when_its_array_is_gone(self, lender):
        """Reference counting tells."""
        root = lender.lend(1)
        assert [] == lender.take_returned()
        del root
        assert [1] == lender.take_returned()
        assert [] == lender.take_returned()

    def test_any_array_made_from_it_keeps_it(self, lender):
        """A slice of a reshaped view of another dtype, as users make them."""
        part = lender.lend(0)[: 4 * 100].view(np.float32).reshape(10, 10)[3:, ::2].T
        gc.collect()
        assert [] == lender.take_returned()
        del part
        assert [0] == lender.take_returned()

    def test_a_memoryview_keeps_it(self, lender):
        """So do torch and TensorFlow, which take arrays over by the buffer protocol."""
        view = memoryview(lender.lend(0))
        assert [] == lender.take_returned()
        del view
        assert [0] == lender.take_returned()

    def test_at_most_half_are_lent(self, lender):
        """Somebody who keeps everything does not stop the flow."""
        assert lender.can_lend()
        kept = [lender.lend(0), lender.lend(1)]
        assert not lender.can_lend()
        kept.pop()
        assert lender.can_lend()

    def test_an_array_outlives_its_lender(self, memory):
        """The memory is there as long as an array lies in it."""
        root = Lender(memory, SLOT, 4).lend(3)
        del memory
        gc.collect()
        root[:] = 9
        assert 9 * SLOT == root.sum()

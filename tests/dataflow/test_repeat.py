"""How often."""

from __future__ import annotations

import itertools

import pytest
from fakes.reading import broken_once

from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.repeat import FixedSizeData, RepeatedData, RepeatedDataPoint, run_without_end


def one_to(last):
    """1 to `last` in order, as plain numbers for short tests."""
    return DataFromList(list(range(1, last + 1)), shuffle=False)


class TestRepeatedData:
    @pytest.mark.parametrize(("num", "wanted"), [(0, []), (1, [1, 2]), (3, [1, 2, 1, 2, 1, 2])])
    def test_passes(self, num, wanted):
        """`num` passes as one, and `len` knows."""
        flow = RepeatedData(one_to(2), num)
        assert wanted == list(flow)
        assert len(wanted) == len(flow)

    def test_without_end(self):
        """-1: as many as are asked for, and no length."""
        flow = RepeatedData(one_to(2), -1)
        assert [1, 2, 1, 2, 1] == list(itertools.islice(flow, 5))
        with pytest.raises(NotImplementedError, match="num=-1 it never ends"):
            len(flow)

    def test_the_list_of_an_endless_one(self):
        """`list` asks for the length first, and is told, instead of filling the memory."""
        with pytest.raises(NotImplementedError, match="never ends"):
            list(RepeatedData(one_to(2), -1))

    def test_an_empty_pass(self):
        """Upstream spins for ever."""
        with pytest.raises(
            RuntimeError, match="RepeatedData: DataFromList yielded no datapoint in a whole pass"
        ):
            next(iter(RepeatedData(one_to(0), -1)))

    def test_a_generator_that_ended(self):
        """The usual reason of an empty pass; the sentence says so."""
        flow = RepeatedData(DataFromGenerator(iter([1, 2])), -1)
        with pytest.raises(RuntimeError, match="a running generator that ended"):
            list(itertools.islice(flow, 3))

    def test_a_wrong_number(self):
        """-2 means nothing."""
        with pytest.raises(ValueError, match="-1 for no end; got -2"):
            RepeatedData(one_to(2), -2)


class TestRepeatedDataPoint:
    def test_in_a_row(self):
        """Each datapoint `num` times, the same object."""
        flow = RepeatedDataPoint(one_to(2), 3)
        assert [1, 1, 1, 2, 2, 2] == list(flow)
        assert 6 == len(flow)

    def test_a_wrong_number(self):
        """It would drop everything."""
        with pytest.raises(ValueError, match="num must be at least 1, got 0"):
            RepeatedDataPoint(one_to(2), 0)


class TestFixedSizeData:
    def test_keep_state(self):
        """Each pass goes on where the last one stopped."""
        flow = FixedSizeData(one_to(5), 3)
        flow.reset_state()
        assert [[1, 2, 3], [4, 5, 1], [2, 3, 4]] == [list(flow) for _ in range(3)]

    def test_restart(self):
        """Each pass begins at the beginning."""
        flow = FixedSizeData(one_to(5), 3, keep_state=False)
        assert [[1, 2, 3], [1, 2, 3]] == [list(flow) for _ in range(2)]

    @pytest.mark.parametrize(("keep_state", "wanted"), [(True, [3, 4, 5]), (False, [1, 2, 3])])
    def test_after_a_pass_left_early(self, keep_state, wanted):
        """Two taken, then `break`: the same rule holds."""
        flow = FixedSizeData(one_to(5), 3, keep_state=keep_state)
        assert [1, 2] == list(itertools.islice(flow, 2))
        assert wanted == list(flow)

    @pytest.mark.parametrize("keep_state", [True, False])
    @pytest.mark.parametrize("size", [2, 7])
    def test_the_size_is_exact(self, keep_state, size):
        """Also when it is larger than the data; `len` knows."""
        flow = FixedSizeData(one_to(3), size, keep_state)
        assert [size, size] == [len(list(flow)) for _ in range(2)]
        assert size == len(flow)

    def test_reset_begins_anew(self):
        """The position is forgotten."""
        flow = FixedSizeData(one_to(5), 3)
        list(flow)
        flow.reset_state()
        assert [1, 2, 3] == list(flow)

    def test_nothing_to_repeat(self):
        """An error with a sentence, not a RuntimeError of Python's generators."""
        with pytest.raises(RuntimeError, match="FixedSizeData: DataFromList yielded no datapoint"):
            list(FixedSizeData(one_to(0), 3))

    def test_after_an_error_of_the_source(self):
        """The error is raised, and the next pass begins at the beginning."""
        flow = FixedSizeData(DataFromGenerator(broken_once()), 2)
        with pytest.raises(KeyError, match="the user's"):
            list(flow)
        assert [1, 2] == list(flow)

    def test_two_iterators_at_once(self):
        """They would share the position: refused."""
        flow = FixedSizeData(one_to(5), 3)
        first = iter(flow)
        next(first)
        with pytest.raises(RuntimeError, match="being iterated already"):
            next(iter(flow))

    def test_a_wrong_size(self):
        """A pass has at least one datapoint."""
        with pytest.raises(ValueError, match="size must be at least 1, got 0"):
            FixedSizeData(one_to(5), 0)


def test_run_without_end():
    """It resets the DataFlow, and yields lists of one, pass after pass."""
    flow = FixedSizeData(one_to(5), 2)
    list(flow)
    assert [[1], [2], [3]] == list(itertools.islice(run_without_end(flow), 3))

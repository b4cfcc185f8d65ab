"""Tests of RepeatedData, RepeatedDataPoint and FixedSizeData."""

from __future__ import annotations

import itertools

import pytest
from fakes.reading import broken_once

from tensorpack_lite.dataflow.base import ProxyDataFlow
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.repeat import (
    FixedSizeData,
    RepeatedData,
    RepeatedDataPoint,
    is_endless,
    run_without_end,
)


def one_to(last):
    """Return a DataFlow of 1 to `last` in order."""
    return DataFromList(list(range(1, last + 1)), shuffle=False)


def returns_nothing(dp):
    pass


class TestRepeatedData:
    @pytest.mark.parametrize(("num", "expected"), [(0, []), (1, [1, 2]), (3, [1, 2, 1, 2, 1, 2])])
    def test_passes(self, num, expected):
        """A pass consists of `num` passes, and `len` counts them."""
        flow = RepeatedData(one_to(2), num)
        assert expected == list(flow)
        assert len(expected) == len(flow)

    def test_an_empty_pass(self):
        """An empty pass raises RuntimeError; tensorpack loops forever."""
        with pytest.raises(RuntimeError, match="RepeatedData: DataFromList yielded no datapoint in a whole pass"):
            next(iter(RepeatedData(one_to(0), -1)))

    def test_a_generator_that_ended(self):
        """The error for an empty pass mentions its usual cause, a running generator."""
        flow = RepeatedData(DataFromGenerator(iter([1, 2])), -1)
        with pytest.raises(RuntimeError, match="if it is a running generator"):
            list(itertools.islice(flow, 3))

    @pytest.mark.parametrize("num", [1, 3, 10**9])
    def test_a_map_that_drops_all(self, num):
        """If a map function drops all datapoints of all passes, or of many, the error names it instead of an empty or endless pass."""
        flow = RepeatedData(MapData(one_to(3), returns_nothing), num)
        with pytest.raises(
            RuntimeError, match="MapData: returns_nothing returned None .*is a return statement missing"
        ):
            next(iter(flow))

    def test_a_map_above_that_drops_all(self):
        """The same holds for a map function above the RepeatedData, after at least 1000 datapoints."""
        flow = MapData(RepeatedData(one_to(3), 10**9), returns_nothing)
        with pytest.raises(RuntimeError, match="MapData: returns_nothing returned None for a whole pass"):
            next(iter(flow))

    def test_a_map_that_drops_a_pass(self):
        """A map function may drop whole passes if it has kept, or will keep, a datapoint of another one."""
        for kept in (1, 9):
            calls = itertools.count(1)
            flow = RepeatedData(MapData(one_to(3), lambda dp: dp if next(calls) == kept else None), 3)  # noqa: B023
            assert 1 == len(list(flow))


class TestRepeatedDataPoint:
    def test_in_a_row(self):
        """Each datapoint is yielded `num` times, as the same object."""
        flow = RepeatedDataPoint(one_to(2), 3)
        assert [1, 1, 1, 2, 2, 2] == list(flow)
        assert 6 == len(flow)


class TestFixedSizeData:
    @pytest.mark.parametrize(
        ("options", "passes"),
        [({}, [[1, 2, 3], [4, 5, 1], [2, 3, 4]]), ({"keep_state": False}, [[1, 2, 3]] * 3)],
    )
    def test_where_a_pass_starts(self, options, passes):
        """By default, a pass continues where the last one stopped; with `keep_state=False` it starts at the beginning."""
        flow = FixedSizeData(one_to(5), 3, **options)
        flow.reset_state()
        assert passes == [list(flow) for _ in range(3)]

    @pytest.mark.parametrize(("keep_state", "expected"), [(True, [3, 4, 5]), (False, [1, 2, 3])])
    def test_after_a_pass_left_early(self, keep_state, expected):
        """A pass after `break` follows the same rule as after a complete pass."""
        flow = FixedSizeData(one_to(5), 3, keep_state=keep_state)
        assert [1, 2] == list(itertools.islice(flow, 2))
        assert expected == list(flow)

    @pytest.mark.parametrize("keep_state", [True, False])
    @pytest.mark.parametrize("size", [2, 7])
    def test_the_size_is_exact(self, keep_state, size):
        """A pass has exactly `size` datapoints, also if the data has fewer, and `len` is `size`."""
        flow = FixedSizeData(one_to(3), size, keep_state)
        assert [size, size] == [len(list(flow)) for _ in range(2)]
        assert size == len(flow)

    def test_reset_begins_anew(self):
        """A reset starts at the beginning."""
        flow = FixedSizeData(one_to(5), 3)
        list(flow)
        flow.reset_state()
        assert [1, 2, 3] == list(flow)

    def test_nothing_to_repeat(self):
        """An empty DataFlow raises RuntimeError with a clear message."""
        with pytest.raises(RuntimeError, match="FixedSizeData: DataFromList yielded no datapoint"):
            list(FixedSizeData(one_to(0), 3))

    def test_after_an_error_of_the_source(self):
        """An error of the source is raised, and the next pass starts at the beginning."""
        flow = FixedSizeData(DataFromGenerator(broken_once()), 2)
        with pytest.raises(KeyError, match="the user's"):
            list(flow)
        assert [1, 2] == list(flow)


def test_run_without_end():
    """`run_without_end` resets the DataFlow and yields lists of one datapoint, pass after pass."""
    flow = FixedSizeData(one_to(5), 2)
    list(flow)
    assert [[1], [2], [3]] == list(itertools.islice(run_without_end(flow), 3))


class First(ProxyDataFlow):
    """A user's stage, which ends a pass early."""

    def __iter__(self):
        yield next(iter(self.ds))


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (lambda df: df, True),
        (lambda df: MapData(df, returns_nothing), True),
        (lambda df: RepeatedData(df, 3), True),
        (lambda df: FixedSizeData(df, 3), False),
        (lambda df: MapData(FixedSizeData(df, 3), returns_nothing), False),
        (First, False),
        (lambda df: MapData(First(df), returns_nothing), False),
        (lambda df: RepeatedData(First(df), -1), True),
    ],
)
def test_is_endless(stage, expected):
    """A pipeline of the library's stages around an endless one is endless. A user's stage may end it."""
    assert expected == is_endless(stage(RepeatedData(one_to(2), -1)))
    assert not is_endless(RepeatedData(one_to(2), 3))

"""Tests of DataFlows without a length and of infinite DataFlows."""

from __future__ import annotations

import itertools
import queue

import pytest
from tqdm import tqdm

from tensorpack_lite.dataflow import (
    BatchData,
    CacheData,
    ConcatData,
    DataFromGenerator,
    DataFromList,
    DataFromQueue,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    RepeatedData,
)
from tensorpack_lite.dataflow.base import InfiniteLengthError, LengthUnknownError


def three():
    """Return a DataFlow of three datapoints in order."""
    return DataFromList([[0], [1], [2]], shuffle=False)


def endless():
    """Return a DataFlow that repeats three datapoints without end."""
    return RepeatedData(three(), -1)


INFINITE = {
    "RepeatedData": endless,
    "BatchData": lambda: BatchData(endless(), 2),
    "MapData": lambda: MapData(endless(), lambda dp: dp),
    "CacheData": lambda: CacheData(endless()),
    "RepeatedData of an endless one": lambda: RepeatedData(endless(), 2),
    "ConcatData": lambda: ConcatData([three(), endless()]),
    "JoinData": lambda: JoinData([endless(), endless()]),
    "LocallyShuffleData": lambda: LocallyShuffleData(endless(), 10),
    "MultiThreadMapData": lambda: MultiThreadMapData(endless(), 1, lambda dp: dp),
    "MultiProcessRunnerZMQ": lambda: MultiProcessRunnerZMQ(endless(), 1),
    "MultiProcessMapAndBatchData": lambda: MultiProcessMapAndBatchData(three(), 1, abs, 2),
    "DataFromQueue": lambda: DataFromQueue(queue.Queue()),
}


@pytest.fixture(params=INFINITE)
def infinite(request):
    """A DataFlow that never ends."""
    return INFINITE[request.param]()


class TestInfinite:
    def test_len(self, infinite):
        """`len` and `size` raise InfiniteLengthError, which is a LengthUnknownError."""
        for ask in (len, type(infinite).size):
            with pytest.raises(InfiniteLengthError):
                ask(infinite)
        assert issubclass(InfiniteLengthError, LengthUnknownError)

    def test_tqdm(self, infinite):
        """tqdm shows an infinite DataFlow without a total."""
        with tqdm(infinite, disable=True) as bar:
            assert bar.total is None
        with tqdm(infinite, total=7, disable=True) as bar:
            assert 7 == bar.total

    @pytest.mark.parametrize("collect", [list, tuple, sorted, lambda df: [*df], [].extend])
    def test_a_list_of_it_is_refused(self, infinite, collect):
        """Converting an infinite DataFlow to a list raises an error instead of filling the memory."""
        with pytest.raises(NotImplementedError, match=r"cannot be converted to a list.*islice"):
            collect(infinite)

    def test_iterating(self):
        """islice and tqdm can take a part of an infinite DataFlow."""
        assert [[0], [1], [2], [0]] == list(itertools.islice(tqdm(endless(), disable=True), 4))


class TestUnknown:
    def test_a_list_of_it(self):
        """A DataFlow that ends can be converted to a list although its length is unknown."""
        flow = BatchData(DataFromGenerator(lambda: iter([[0], [1], [2]])), 1)
        with pytest.raises(LengthUnknownError):
            len(flow)
        assert 3 == len(list(flow)) == len(list(tqdm(flow, disable=True)))

    def test_a_class_of_the_user(self):
        """A NotImplementedError of a user's class passes unchanged."""

        class Old(DataFromGenerator):
            def size(self):
                raise NotImplementedError("ask somebody else")

        with pytest.raises(NotImplementedError, match="ask somebody else"):
            len(BatchData(Old(lambda: iter([])), 2))


class TestKnown:
    def test_a_part_of_an_infinite_one(self):
        """FixedSizeData over an infinite DataFlow has a length."""
        assert 5 == len(FixedSizeData(endless(), 5)) == len(list(FixedSizeData(endless(), 5)))

    def test_joined_with_an_infinite_one(self):
        """JoinData has the length of its shortest DataFlow."""
        flow = JoinData([endless(), three(), endless()])
        assert 3 == len(flow) == len(list(flow))

"""Tests for the search for unpicklable attributes."""

from __future__ import annotations

import threading

import pytest

from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.mix import JoinData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.data_check import picklable as module
from tensorpack_lite.diagnostics.data_check.picklable import find_unpicklable


def test_the_innermost_stage_is_named():
    """The innermost stage that cannot be pickled is named with its attribute, also one that refers to the stage around it."""
    inner = MapData(DataFromList([[1]]), lambda dp: dp)
    assert "MapData(<lambda>).func" == find_unpicklable(BatchData(JoinData([DataFromList([[2]]), inner]), 1))
    inner.parent = BatchData(inner, 1)
    assert "MapData(<lambda>).func" == find_unpicklable(inner.parent)
    flow = DataFromList([[1]])
    flow.lock = threading.Lock()  # an attribute that users have added
    assert "DataFromList.lock" == find_unpicklable(flow)


@pytest.mark.slow
def test_what_takes_long(monkeypatch):
    """The search ends in time if pickling an attribute blocks."""
    monkeypatch.setattr(module, "_MAX_SECONDS", 0.01)
    may_end = threading.Event()

    class Blocking:
        def __reduce__(self):
            may_end.wait()
            raise TypeError

    flow = DataFromList([[1]])
    flow.users = Blocking()
    try:
        assert "DataFromList" == find_unpicklable(flow)
    finally:
        may_end.set()

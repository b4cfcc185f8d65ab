"""Tests for the search for unpicklable attributes."""

from __future__ import annotations

import threading

from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.doctor.picklable import find_unpicklable
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.mix import JoinData
from tensorpack_lite.dataflow.raw import DataFromList


def test_the_innermost_stage_is_named():
    """The innermost stage that cannot be pickled is named with its attribute."""
    inner = MapData(DataFromList([[1]]), lambda dp: dp)
    assert "MapData(<lambda>).func" == find_unpicklable(BatchData(JoinData([DataFromList([[2]]), inner]), 1))


def test_attributes_of_users():
    """Attributes that users have added are named, too."""
    flow = DataFromList([[1]])
    flow.lock = threading.Lock()
    assert "DataFromList.lock" == find_unpicklable(flow)

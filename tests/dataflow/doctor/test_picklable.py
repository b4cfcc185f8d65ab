"""What keeps a pipeline from being pickled."""

from __future__ import annotations

import threading

from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.doctor.picklable import find_unpicklable
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.mix import JoinData
from tensorpack_lite.dataflow.raw import DataFromList


def test_the_innermost_stage_is_named():
    """With the attribute, through all stages."""
    inner = MapData(DataFromList([[1]]), lambda dp: dp)
    assert "MapData(<lambda>).func" == find_unpicklable(BatchData(JoinData([DataFromList([[2]]), inner]), 1))


def test_attributes_of_users():
    """Locks, files and the like."""
    flow = DataFromList([[1]])
    flow.lock = threading.Lock()
    assert "DataFromList.lock" == find_unpicklable(flow)

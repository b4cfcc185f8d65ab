"""Tests for dump_dataflow_to_process_queue."""

from __future__ import annotations

import pytest
from fakes.remote import Failing

from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.remote import (
    dump_dataflow_to_process_queue,
)
from tensorpack_lite.utils.ordering import DIE


@pytest.mark.slow
class TestDumpToQueue:
    def test_datapoints_and_the_end(self):
        """The queue holds (number, datapoint) pairs, then a DIE for each consumer; the process is not started."""
        queue, process = dump_dataflow_to_process_queue(DataFromList([["a"], ["b"]], shuffle=False), 10, 2)
        assert process.pid is None
        process.start()
        assert [(0, ["a"]), (1, ["b"]), (DIE, None), (DIE, None)] == [queue.get(timeout=60) for _ in range(4)]
        process.join()
        assert 0 == process.exitcode
        close(queue)

    def test_an_error(self):
        """An error is put into the queue as a text with DIE, and the process fails."""
        queue, process = dump_dataflow_to_process_queue(Failing(ValueError("bad")), 10, 1)
        process.start()
        *_, (number, text) = [queue.get(timeout=60) for _ in range(4)]
        process.join()
        assert DIE is number
        assert f"Failing failed in process {process.pid}: ValueError: bad" == text
        assert 1 == process.exitcode
        close(queue)

    def test_other_data_than_a_dataflow(self):
        """Data that is not a DataFlow is a TypeError in this process."""
        with pytest.raises(TypeError, match="dump_dataflow_to_process_queue: expected a DataFlow, got list"):
            dump_dataflow_to_process_queue([[1]], 1, 1)


def close(queue) -> None:
    """Close a queue and end its thread."""
    queue.close()
    queue.join_thread()

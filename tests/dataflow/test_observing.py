"""Tests of what lies between the stages of a pipeline, and of which stage is being reset."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

from tensorpack_lite.dataflow import (
    DataFlow,
    DataFromList,
    MapData,
    ProxyDataFlow,
)
from tensorpack_lite.dataflow.observing import current_stage, separate_pipelines


def source():
    """Return 40 datapoints."""
    return DataFromList([[k] for k in range(40)], shuffle=True)


class Noting(ProxyDataFlow):
    """Notes which stage is being reset, before and after it resets its source."""

    def reset_state(self):
        self.seen = [current_stage()]
        super().reset_state()
        self.seen.append(current_stage())


class Failing(DataFlow):
    """Cannot be reset."""

    def reset_state(self):
        raise OSError("no disk")

    def __iter__(self):
        return iter([])


class TestReset:
    def test_the_stage_that_is_being_reset(self):
        """`current_stage` is the innermost stage whose `reset_state` is running."""
        inner = Noting(source())
        outer = Noting(MapData(inner, lambda datapoint: datapoint))
        outer.reset_state()
        assert [[outer] * 2, [inner] * 2] == [outer.seen, inner.seen]
        assert current_stage() is None

    def test_after_an_error(self):
        """After an error in `reset_state`, no stage is being reset."""
        with pytest.raises(OSError, match="no disk"):
            Noting(Failing()).reset_state()
        assert current_stage() is None

    def test_other_threads(self):
        """Each thread has its own stages."""
        seen = []

        class Starts(ProxyDataFlow):
            def reset_state(self):
                thread = threading.Thread(target=lambda: seen.append(current_stage()))
                thread.start()
                thread.join()

        Starts(source()).reset_state()
        assert [None] == seen

    def test_separate_pipelines(self):
        """A stage that is reset inside `separate_pipelines` has no stage above it, and belongs to the one that starts it."""
        inner = Noting(source())

        class Starts(ProxyDataFlow):
            def reset_state(self):
                with separate_pipelines():
                    self.seen = current_stage()
                    self.ds.reset_state()

        flow = Starts(inner)
        flow.set_state(None)
        flow.reset_state()
        assert flow.seen is flow
        assert inner._stage_position is None
        assert inner.seen[0] is inner
        assert [inner._meter] == flow._meter.threads
        assert [] == flow._meter.children

    def test_a_copy_is_not_observed(self):
        """A stage that was reset can be copied and pickled, and the copy can be iterated without a reset."""
        flow = DataFromList([[1], [2]], shuffle=False)
        flow.set_state(None)
        flow.reset_state()
        for copied in (copy.deepcopy(flow), pickle.loads(pickle.dumps(flow))):
            assert [[1], [2]] == list(copied)
            assert 0 == flow._meter.read().count

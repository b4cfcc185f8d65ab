"""Tests for the speed of stages and the search for the bottleneck."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest
from fakes.patience import patiently

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.map_and_batch import MultiProcessMapAndBatchData
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mapping import MapData, MapDataComponent
from tensorpack_lite.dataflow.meter import stage_name
from tensorpack_lite.dataflow.mix import JoinData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.runner import MultiProcessRunnerZMQ
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner
from tensorpack_lite.diagnostics.data_check.stage_speed import measure_stages, num_workers, walk


def source():
    """Six datapoints."""
    return DataFromList([[k] for k in range(6)], shuffle=False)


def wait_1ms(datapoint):
    """Wait for 1 ms."""
    time.sleep(0.001)
    return datapoint


def wait_4ms(datapoint):
    """Wait for 4 ms."""
    time.sleep(0.004)
    return datapoint


class Counted(DataFlow):
    """A DataFlow that counts its resets."""

    def __init__(self):
        self.resets = 0

    def __iter__(self):
        return iter([[0]])

    def reset_state(self):
        self.resets += 1


def names(part):
    """Return the names of the stages of a part."""
    return [stage.name for stage in part.stages]


class TestMeasureStages:
    @patiently
    def test_the_slowest_stage_limits(self):
        """The time of a stage does not include the stages that it reads from, and the slowest stage limits."""
        speed = measure_stages(lambda: BatchData(MapData(MapData(source(), wait_4ms), wait_1ms), 2), 0.2, 1000)
        (part,) = speed.load.parts
        assert ["BatchData", "MapData(wait_1ms)", "MapData(wait_4ms)", "DataFromList"] == names(part)
        assert [0, 1, 2, 3] == [stage.depth for stage in part.stages]
        assert "MapData(wait_4ms)" == speed.load.slowest.slowest.name
        batches, fast, slow, _ = part.stages
        assert 0.001 <= fast.wall < slow.wall  # on a busy machine, each sleep takes longer
        assert slow.wall >= 0.004
        assert speed.load.num_steps == batches.count == fast.count // 2
        assert speed.per_second == pytest.approx(batches.count / speed.load.seconds)

    @patiently
    def test_a_map_with_threads(self):
        """The function of a map with threads is a separate part."""
        speed = measure_stages(lambda: MultiThreadMapData(source(), 4, wait_4ms, buffer_size=8), 0.2, 1000)
        assert ("MultiThreadMapData(wait_4ms)", "threads", 4) == (
            speed.load.slowest.owner,
            speed.load.slowest.kind,
            speed.load.slowest.num_workers,
        )
        assert ["wait_4ms"] == names(speed.load.slowest)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("build", "kind", "name"),
        [
            (
                lambda: MultiThreadRunner(lambda: BatchData(MapData(source(), wait_4ms), 2), 5, 2),
                "threads",
                None,
            ),
            (lambda: MultiProcessRunnerZMQ(BatchData(MapData(source(), wait_4ms), 2), 2), "processes", None),
            (lambda: MultiProcessMapAndBatchData(source(), 2, wait_4ms, 2), "processes", "wait_4ms"),
        ],
        ids=["threads", "processes", "batches"],
    )
    @patiently
    def test_runners(self, build, kind, name):
        """The stages in the workers of a runner are a separate part, here the one that limits."""
        speed = measure_stages(build, 0.3, 1000)
        assert (kind, 2) == (speed.load.slowest.kind, speed.load.slowest.num_workers)
        assert (name or "MapData(wait_4ms)") == speed.load.slowest.slowest.name
        assert (kind == "processes") == (speed.load.slowest.memory > 0)

    @patiently
    def test_a_slow_consumer_limits(self):
        """If the workers are faster than a later stage, that stage limits."""
        speed = measure_stages(lambda: MapData(MultiThreadRunner(source, 5, 2), wait_4ms), 0.2, 1000)
        assert ("here", "MapData(wait_4ms)") == (speed.load.slowest.kind, speed.load.slowest.slowest.name)

    def test_several_sources(self):
        """A source that is used twice is reset once and shown once."""
        built = []

        def build():
            built.append(Counted())
            return MapData(JoinData([built[-1], built[-1]]), wait_1ms)

        speed = measure_stages(build, 0.05, 1000)
        assert ["MapData(wait_1ms)", "JoinData", "Counted"] == names(speed.load.parts[0])
        assert 1 == built[0].resets

    def test_an_empty_pipeline(self):
        """An empty pipeline is a RuntimeError."""
        with pytest.raises(RuntimeError, match="yielded no datapoint"):
            measure_stages(lambda: DataFromList([]), 0.1, 10)


class TestNames:
    def test_the_function_is_named(self):
        """The name of a stage contains the name of its function, whichever argument it was."""
        assert "DataFromList" == stage_name(source())
        assert "MapData(wait_1ms)" == stage_name(MapData(source(), wait_1ms))
        assert "MapDataComponent(wait_1ms)" == stage_name(MapDataComponent(source(), wait_1ms))
        assert "MultiThreadMapData(wait_1ms)" == stage_name(MultiThreadMapData(source(), 1, wait_1ms))

    def test_walk_stops_at_runners(self):
        """The stages inside a runner are omitted, because they do not run in this process."""
        flow = BatchData(MultiThreadRunner(lambda: MapData(source(), wait_1ms), 5, 2), 2)
        assert ["BatchData", "MultiThreadRunner"] == [type(stage).__name__ for stage in walk(flow)]
        assert [0, 2] == [num_workers(stage) for stage in walk(flow)]


def test_stages_that_refer_to_each_other():
    """Each stage of a pipeline is visited once, also if an inner stage has the outer one as its attribute `ds`."""
    inner = DataFromList([[1]])
    outer = MapData(inner, list)
    inner.ds = outer
    assert [outer, inner] == list(walk(outer))


def test_names_of_stages_with_unusual_functions():
    """The name of a stage calls nothing of its function. A function without a name, such as an object, is omitted."""

    class Endless:
        def __getattr__(self, name):
            raise RuntimeError("called")

        def __call__(self, datapoint):
            return datapoint

    names = ["MapData", "MapData(<lambda>)", "MapData(absolute)", "MapData(list)", "MapData(double)"]
    double = functools.lru_cache()(functools.wraps(functools.partial(print))(lambda: 0))
    double.__name__ = "double"
    functions = [Endless(), functools.partial(lambda dp: dp), np.abs, list, double]
    assert names == [stage_name(MapData(DataFromList([[1]]), function)) for function in functions]

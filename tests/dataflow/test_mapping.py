"""Tests of MapData, MapDataComponent and SelectComponent."""

from __future__ import annotations

import itertools

import pytest
from fakes.reading import flow_of

from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mapping import MapData, MapDataComponent, SelectComponent
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.dataflow.repeat import FixedSizeData, RepeatedData
from tensorpack_lite.dataflow.shuffle import LocallyShuffleData


class TestMapData:
    def test_the_function_is_applied(self):
        """The function is applied to each datapoint, in order."""
        assert [[2], [3]] == list(MapData(flow_of([[1], [2]]), lambda dp: [dp[0] + 1]))

    def test_none_drops(self):
        """None drops a datapoint, but `len` does not change."""
        flow = MapData(flow_of([[1], [2], [3]]), lambda dp: dp if dp[0] != 2 else None)
        assert [[1], [3]] == list(flow)
        assert 3 == len(flow)

    @pytest.mark.parametrize("datapoint", [[1], {"a": 1}])
    def test_the_datapoint_is_a_shallow_copy(self, datapoint):
        """A function that adds to the datapoint does not change the source."""

        def add(dp):
            dp.append(2) if isinstance(dp, list) else dp.update(b=2)
            return dp

        flow = MapData(flow_of([datapoint]), add)
        assert [2] == [len(dp) for dp in flow] == [len(dp) for dp in flow]
        assert 1 == len(datapoint)


class TestMapDataComponent:
    def test_one_component(self):
        """The function is applied to the first component by default."""
        source = [[1, 10], [2, 20]]
        assert [[-1, 10], [-2, 20]] == list(MapDataComponent(flow_of(source), lambda x: -x))
        assert [[1, -10], [2, -20]] == list(MapDataComponent(flow_of(source), lambda x: -x, 1))
        assert [[1, -10], [2, -20]] == list(MapDataComponent(flow_of(source), lambda x: -x, index=-1))

    def test_dicts(self):
        """`index` is a key if datapoints are dicts, which are copied."""
        source = [{"a": 1, "b": 2}]
        assert [{"a": 1, "b": -2}] == list(MapDataComponent(flow_of(source), lambda x: -x, "b"))
        assert [{"a": 1, "b": 2}] == source

    def test_tuples_become_lists(self):
        """Tuples become lists."""
        assert [[-1, 2]] == list(MapDataComponent(flow_of([(1, 2)]), lambda x: -x))

    def test_none_drops(self):
        """None drops the whole datapoint."""
        assert [[3, 4]] == list(MapDataComponent(flow_of([[1, 2], [3, 4]]), lambda x: x if x > 1 else None))

    def test_a_component_that_is_not_there(self):
        """An index that does not exist raises IndexError."""
        with pytest.raises(IndexError):
            list(MapDataComponent(flow_of([[1]]), lambda x: x, 1))

    def test_subclasses_name_the_index(self):
        """A subclass may pass `index` by keyword, as examples do."""

        class Negated(MapDataComponent):
            def __init__(self, ds, index):
                super().__init__(ds, lambda x: -x, index=index)

        assert [[1, -2]] == list(Negated(flow_of([[1, 2]]), 1))


def endless(ds):
    """Yield DataFlows that repeat their data without end."""
    yield RepeatedData(ds, -1)
    yield BatchData(RepeatedData(ds, -1), 2, use_list=True)
    yield LocallyShuffleData(ds, 10)
    yield MultiThreadMapData(ds, 1, lambda dp: dp, buffer_size=10)


class TestDroppingEverything:
    @pytest.mark.parametrize("which", range(4))
    @pytest.mark.parametrize("build", [MapData, MapDataComponent])
    def test_a_whole_pass_is_an_error(self, build, which):
        """Dropping a whole pass of endless data raises RuntimeError, which names the function."""

        def forgets_to_return(dp):
            pass

        flow = build(list(endless(flow_of([[1], [2]])))[which], forgets_to_return)
        flow.reset_state()
        with pytest.raises(RuntimeError, match=f"{build.__name__}: forgets_to_return returned None for a whole pass"):
            next(iter(flow))

    def test_one_datapoint_of_a_pass_is_enough(self):
        """One datapoint kept in a pass is enough, however long the pass is."""
        flow = MapData(RepeatedData(flow_of(list(range(3000))), -1), lambda k: k if k == 2999 else None)
        assert [2999] * 3 == list(itertools.islice(flow, 3))

    def test_dropping_a_finite_pass(self):
        """Dropping everything is allowed if the data ends."""
        assert [] == list(MapData(flow_of([[1]] * 5000), lambda dp: None))

    @pytest.mark.parametrize("repeat", [lambda ds: RepeatedData(ds, -1), lambda ds: FixedSizeData(ds, 3)])
    def test_nothing_is_left_to_repeat(self, repeat):
        """A stage that repeats a pass in which everything was dropped names the function, through the stages between."""

        def forgets_to_return(dp):
            pass

        flow = repeat(BatchData(MapData(flow_of([[1], [2]]), forgets_to_return), 2))
        flow.reset_state()
        with pytest.raises(
            RuntimeError,
            match=r"BatchData yielded no datapoint .* MapData: forgets_to_return returned None .*\(2 datapoints.*return statement",
        ):
            next(iter(flow))

    def test_short_of_a_batch(self):
        """If some datapoints were kept, the function is not blamed for a pass without a batch."""
        flow = RepeatedData(BatchData(MapData(flow_of([[1], [2]]), lambda dp: dp if dp[0] == 1 else None), 2), -1)
        flow.reset_state()
        with pytest.raises(RuntimeError, match="Check that the data is not empty"):
            next(iter(flow))

    def test_a_source_without_passes_is_warned_about(self, log_lines):
        """A generator that never ends has no passes, so after 10,000 dropped datapoints a warning is logged."""
        calls = itertools.count()
        flow = MapData(DataFromGenerator(itertools.count), lambda k: k if next(calls) > 20_000 else None)
        next(iter(flow))
        assert 1 == sum("has returned None for 10000 datapoints in a row" in line for line in log_lines)


class TestFailures:
    @pytest.mark.parametrize("build", [MapData, MapDataComponent])
    def test_the_function_is_named(self, build):
        """An error of the function has the same type, and names the stage, the function and its line."""

        def looks_up(value):
            return {}["cat"]

        flow = BatchData(build(flow_of([[1], [2]]), looks_up), 2)
        with pytest.raises(KeyError, match=rf"{build.__name__}: looks_up failed at test_mapping.py:\d+: cat") as error:
            list(flow)
        assert ("cat",) == error.value.__cause__.args


class TestSelectComponent:
    def test_positions(self):
        """Components are selected by position, in the given order, and may be repeated."""
        assert [[3, 1, 3]] == list(SelectComponent(flow_of([[1, 2, 3]]), (2, 0, 2)))

    def test_dicts_become_lists(self):
        """Components of a dict are selected by key."""
        assert [[2, 1]] == list(SelectComponent(flow_of([{"a": 1, "b": 2}]), ["b", "a"]))

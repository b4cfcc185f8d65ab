"""Tests of positions of DataFlows that use worker processes and threads."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random

import numpy as np
import pytest
from fakes.positions import END, check_chain, check_cuts, passes, restored, run, text, through_json
from fakes.processes import python_starter
from fakes.unsteady import (
    Draws,
    Numbers,
    add_100,
    augment,
    draws_globally,
    drop_some,
    generated,
    jitter,
    repr_of,
    shuffled,
)

from tensorpack_lite.dataflow import (
    BatchData,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    LocallyShuffleData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadRunner,
)
from tensorpack_lite.dataflow.exact import numbered_source, runner

MAPS = [MultiProcessMapData, MultiThreadMapData]
NUMBERS_OF_WORKERS = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)]


@pytest.fixture
def snapshots_often(monkeypatch):
    """Take a snapshot after every datapoint."""
    monkeypatch.setattr(numbered_source, "_SNAPSHOT_SECONDS", 0.0)
    monkeypatch.setattr(runner, "_SNAPSHOT_SECONDS", 0.0)


@pytest.fixture(params=["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def start_method(request):
    """Both start methods of multiprocessing."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


def events_of(flow, num):
    """Return the first events of a new pipeline whose position is recorded."""
    flow.set_state(None)
    flow.reset_state()
    return [event for event, _ in zip(passes(flow), range(num))]


class TestMaps:
    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("stage", MAPS)
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("make", [pytest.param(shuffled, marks=pytest.mark.proof), generated, Numbers])
    def test_cut_after_every_event(self, stage, strict, make, snapshots_often):
        """A cut is possible anywhere, over stages that continue and stages that are replayed."""
        check_cuts(lambda: stage(make(), 2, add_100, buffer_size=5, strict=strict), 30)

    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("stage", MAPS)
    def test_dropped_datapoints(self, stage, snapshots_often):
        """Results of None count as given out, and are not mapped again."""
        check_cuts(lambda: stage(shuffled(), 3, drop_some, buffer_size=4), 25, [0, 1, 7, 8, 9, 20])

    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("strict", [False, True])
    def test_other_number_of_workers_and_buffer(self, strict, snapshots_often):
        """The number of workers and the buffer may change between saving and restoring."""
        events, states = run(
            restored(lambda: MultiProcessMapData(shuffled(), 1, Draws(), buffer_size=9, strict=strict), None),
            30,
        )
        for cut, num, buffer_size in [(0, 2, 1), (5, 4, 2), (11, 3, 12), (12, 1, 1), (20, 2, 30)]:
            flow = restored(
                lambda: MultiProcessMapData(shuffled(), num, Draws(), buffer_size=buffer_size, strict=strict),  # noqa: B023
                states[cut],
            )
            assert events[cut:] == [event for event, _ in zip(passes(flow), range(30 - cut))]

    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("function", [Draws(), draws_globally, augment])
    def test_random_numbers(self, function):
        """Random numbers depend on the position in the data only: 1 worker and 4 workers draw the same."""
        make = DataFromList([[k] for k in range(12)], shuffle=False)
        one = MultiProcessMapData(make, 1, function, buffer_size=6)
        events, states = run(restored(lambda: one, None), 30)
        four = restored(lambda: MultiProcessMapData(make, 4, function, buffer_size=20), states[0])
        assert events == [event for event, _ in zip(passes(four), range(30))]
        assert events[:12] != events[12:24]

    @pytest.mark.slow
    def test_random_numbers_differ_between_trainings(self):
        """Without a fixed seed, two new maps draw different numbers."""
        first, second = (
            events_of(MultiProcessMapData(generated(), 2, draws_globally, buffer_size=6), 6) for _ in range(2)
        )
        assert [] == [event for event in first if event in second]

    def test_late_use_of_global_generators(self, monkeypatch, caplog):
        """A function that draws from numpy.random for the first time after many datapoints is named in the log."""
        from tensorpack_lite.dataflow.exact import parallel_map

        warnings = []
        monkeypatch.setattr(parallel_map.logger, "warning", warnings.append)
        monkeypatch.setattr(parallel_map, "provide_generators", lambda provide: None)
        before = random.getstate(), np.random.get_state()
        function = parallel_map.SeededFunction(
            lambda datapoint: [np.random.rand()] if datapoint[0] > 150 else datapoint
        )
        try:
            results = [function(parallel_map.with_seed([k], k)) for k in range(302)]
            again = [function(parallel_map.with_seed([k], k)) for k in (300, 301)]
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
        assert 1 == len(warnings)
        assert "after 200 datapoints" in warnings[0]
        assert results[300:] == again

    def test_dicts_tuples_and_arrays(self):
        """Datapoints of any form reach the function unchanged."""
        datapoints = [{"a": np.arange(3)}, (1, np.arange(2)), [np.arange(4), "text"], [7]] * 5
        flow = MultiProcessMapData(DataFromList(datapoints, shuffle=False), 2, repr_of, buffer_size=6)
        assert [text([repr(one)]) for one in datapoints] == [text(json.loads(e)) for e in events_of(flow, 20)]

    @pytest.mark.parametrize("strict", [False, True])
    def test_a_pass_that_is_left(self, strict, snapshots_often):
        """A pass that is left early has the same effect after a restore."""
        make = lambda: MultiThreadMapData(shuffled(), 2, add_100, buffer_size=4, strict=strict)  # noqa: E731
        flow = restored(make, None)
        start = through_json(flow.get_state())
        list(itertools.islice(flow, 5))
        state = through_json(flow.get_state())
        rest = [event for event, _ in zip(passes(flow), range(30))]
        again = restored(make, state)
        assert rest == [event for event, _ in zip(passes(again), range(30))]
        whole = restored(make, start)
        list(itertools.islice(whole, 5))
        assert rest == [event for event, _ in zip(passes(whole), range(30))]

    @pytest.mark.parametrize("cut", [0, 3, 12])
    def test_a_restored_pass_that_is_left(self, cut):
        """A restored pass that is left before its next datapoint is left as in the training that was saved."""
        make = lambda: MultiThreadMapData(shuffled(), 2, add_100, buffer_size=4, strict=True)  # noqa: E731
        flow = restored(make, None)
        taken = iter(flow)
        list(itertools.islice(taken, cut))
        state = through_json(flow.get_state())
        del taken
        expected = [event for event, _ in zip(passes(flow), range(30))]
        again = restored(make, state)
        iter(again)
        assert expected == [event for event, _ in zip(passes(again), range(30))]

    @pytest.mark.parametrize("seconds", [0.0, 1e9])
    def test_passes_that_are_left_early(self, seconds, monkeypatch):
        """A map whose passes are left early continues in a later pass, whenever the last snapshot was taken."""
        monkeypatch.setattr(numbered_source, "_SNAPSHOT_SECONDS", seconds)
        make = lambda: MultiThreadMapData(shuffled(), 2, add_100, buffer_size=4, strict=True)  # noqa: E731
        check_cuts(lambda: FixedSizeData(make(), 5, keep_state=False), 20, [3, 7, 14])

    def test_error_of_a_thread_has_its_turn(self):
        """An error in a thread is raised after the results of earlier datapoints, and the map remains usable."""

        def fail_at_5(datapoint):
            jitter()
            return (1 // (datapoint[0] - 5) and datapoint) or datapoint

        flow = MultiThreadMapData(DataFromList([[k] for k in range(12)], shuffle=False), 3, fail_at_5, buffer_size=6)
        flow.set_state(None)
        flow.reset_state()
        iterator = iter(flow)
        assert [[k] for k in range(5)] == list(itertools.islice(iterator, 5))
        with pytest.raises(ZeroDivisionError, match="map_func .* failed at .* in worker"):
            next(iterator)
        assert [[6], [7]] == list(itertools.islice(flow, 2))

    def test_reports(self):
        """A process map continues at its position; of a thread map the log lists the assumptions."""
        flow = restored(lambda: MultiProcessMapData(shuffled(), 1, add_100, buffer_size=4), None)
        assert ["state", "state"] == [report.level for report in flow.resume_report()]
        flow = restored(lambda: MultiThreadMapData(generated(), 2, add_100, buffer_size=4), None)
        assert ["state", "replay"] == [report.level for report in flow.resume_report()]
        assert "map_func is assumed to draw no random numbers" in flow.resume_report()[0].reason

    def test_changed_data(self, snapshots_often):
        """Data that has become shorter raises an error, and no worker keeps running."""
        _, states = run(restored(lambda: MultiThreadMapData(generated(), 2, add_100, buffer_size=4), None), 6)
        shorter = MultiThreadMapData(DataFromGenerator(lambda: iter(())), 2, add_100, buffer_size=4)
        shorter.set_state(states[6])
        with pytest.raises(RuntimeError, match="The data has changed"):
            shorter.reset_state()

    def test_standstill_is_logged(self, monkeypatch):
        """Workers that stand still for the order for long are reported once, with the argument to change."""
        from tensorpack_lite.dataflow.exact import parallel_map

        lines = []
        monkeypatch.setattr(parallel_map.logger, "info", lines.append)
        standstill = parallel_map.IdleShare("MultiProcessMapData", 2, 10)
        standstill.add(0, 100.0)
        standstill.add(1, 1.0)
        assert [] == lines
        standstill.add(1, 10.0)
        standstill.add(1, 10.0)
        assert 1 == len(lines)
        assert "Increase buffer_size (now 10)" in lines[0]


def make_runner(kind, num, ds=Numbers):
    """Return a runner of a kind."""
    if kind == "threads":
        return MultiThreadRunner(ds, 4, num)
    return MultiProcessRunnerZMQ(ds(), num, hwm=3) if kind == "zmq" else MultiProcessRunner(ds(), 4, num)


KINDS = ["threads", "zmq", "process"]


class TestRunners:
    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("num", NUMBERS_OF_WORKERS)
    @pytest.mark.parametrize("often", [False, True])
    def test_cut_and_restored(self, kind, num, often, request):
        """A runner that is cut continues with the datapoints that followed, also between two snapshots."""
        if often:
            request.getfixturevalue("snapshots_often")
        check_cuts(lambda: make_runner(kind, num), 30, [1, 6, 15])

    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "ds",
        [
            pytest.param(Numbers, marks=pytest.mark.proof),
            pytest.param(shuffled, marks=pytest.mark.proof),
            generated,
            lambda: LocallyShuffleData(shuffled(), 5),
        ],
    )
    def test_cut_after_every_event(self, kind, ds):
        """A cut is possible anywhere, over stages that continue, that are replayed and that hold datapoints back."""
        check_cuts(lambda: make_runner(kind, 2, ds), 40)

    @pytest.mark.parametrize("kind", KINDS)
    def test_workers_take_turns(self, kind):
        """Each worker yields one datapoint in turn, whatever its speed."""
        events = events_of(make_runner(kind, 3, generated), 13)
        assert [f"[{k // 3}]" for k in range(12)] == events[:12]
        assert END == events[12] or "[4]" == events[12]

    @pytest.mark.matrix
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    def test_again_and_again(self, kind):
        """A runner may be cut and restored many times."""
        check_chain(lambda: make_runner(kind, 2), 30, [3, 1, 7, 2])

    @pytest.mark.parametrize("kind", KINDS)
    def test_other_number_of_workers(self, kind):
        """Another number of workers is an error that says why."""
        flow = restored(lambda: make_runner(kind, 2), None)
        _, states = run(flow, 3)
        other = make_runner(kind, 3)
        other.set_state(states[3])
        with pytest.raises(ValueError, match="2 workers, but it has 3 now"):
            other.reset_state()

    @pytest.mark.parametrize("kind", KINDS)
    def test_other_pipeline(self, kind):
        """A position of another pipeline is refused in `reset_state`, which names the first difference."""
        _, states = run(restored(lambda: make_runner(kind, 2), None), 3)
        other = make_runner(kind, 2, shuffled)
        other.set_state(states[3])
        with pytest.raises(
            ValueError, match="RepeatedData > DataFromList: .*expected one of DataFromList, got 'Numbers'"
        ):
            other.reset_state()

    @pytest.mark.parametrize("kind", KINDS)
    def test_reports(self, kind):
        """The stages in the workers are reported as well."""
        reports = restored(lambda: make_runner(kind, 2, generated), None).resume_report()
        assert ["state", "replay"] == [report.level for report in reports]
        assert "DataFromGenerator" == reports[1].stage

    def test_threads_that_share_a_dataflow(self):
        """Threads that share one DataFlow have no position, and work as without it."""
        shared = shuffled()
        flow = restored(lambda: MultiThreadRunner(lambda: shared, 4, 2), None)
        assert ("MultiThreadRunner", "none") == flow.resume_report()[0][:2]
        events, states = run(flow, 14)
        assert END in events
        again = MultiThreadRunner(lambda: shared, 4, 2)
        again.set_state(states[3])
        again.reset_state()
        next(iter(again))


def make_pipeline():
    """Return a pipeline of several parallel stages."""
    ds = MultiProcessRunnerZMQ(MapData(Numbers(), add_100), 2)
    ds = MultiProcessMapData(LocallyShuffleData(ds, 6), 2, Draws(), buffer_size=5)
    return BatchData(FixedSizeData(ds, 20), 3)


class TestTogether:
    @pytest.mark.matrix
    @pytest.mark.slow
    def test_pipeline(self, start_method):
        """A pipeline of runners, maps, shuffles and batches is cut and restored with both start methods."""
        check_cuts(make_pipeline, 14, [0, 6, 7])

    @pytest.mark.slow
    def test_new_process(self, tmp_path):
        """A state that was written to a file continues in a new process."""
        events, states = run(restored(make_pipeline, None), 20)
        (tmp_path / "state.json").write_text(text(states[9]))
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(directory=os.path.dirname(__file__)))
        with python_starter() as start:
            process = start(script, tmp_path / "state.json")
            found, _ = process.communicate(timeout=100)
        assert events[9:] == json.loads(found.splitlines()[-1])

    @pytest.mark.slow
    def test_map_and_batch(self):
        """MultiProcessMapAndBatchData has no position; its report names it, and it starts from the beginning."""
        make = lambda: MultiProcessMapAndBatchData(shuffled(), 2, add_100, 2)  # noqa: E731
        flow = restored(make, None)
        assert ("MultiProcessMapAndBatchData", "none") == (
            flow.resume_report()[0].stage[:27],
            flow.resume_report()[0].level,
        )
        assert "BatchData(MultiProcessMapData(...))" in flow.resume_report()[0].reason
        assert 1 == len(flow.resume_report())
        _, states = run(flow, 3)
        next(iter(restored(make, states[3])))


SCRIPT = """
import importlib.util, itertools, json, sys
spec = importlib.util.spec_from_file_location("test_resume_workers", {directory!r} + "/test_resume_workers.py")
module = importlib.util.module_from_spec(spec)
sys.modules["test_resume_workers"] = module
spec.loader.exec_module(module)
from fakes.positions import from_text, passes, restored
flow = restored(module.make_pipeline, from_text(open(sys.argv[1]).read()))
print(json.dumps(list(itertools.islice(passes(flow), 11))))
"""

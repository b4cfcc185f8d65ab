"""Tests for the model of a pipeline's speed, on parts with known costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorpack_lite.diagnostics.speed.advice_text import describe_advice, describe_full_cores, describe_part
from tensorpack_lite.diagnostics.speed.bottleneck import Load, advise, find_saving
from tensorpack_lite.diagnostics.speed.pipeline_load import HERE, PROCESSES, THREADS, Part, StageWork

NUM_STEPS = 100


def stage(name, wall, cpu=0.0, per_step=1, waits=0.0):
    """A stage that gives `per_step` datapoints for a step, in `wall` seconds each; None if it was not timed."""
    return StageWork(name, 0, per_step * NUM_STEPS, wall, None if wall is None else cpu, 0.0, waits, 0.0)


def serial(*stages):
    """The part of the consumer's thread."""
    return Part(stages[0].name, HERE, 1, stages)


def workers(kind, num, function):
    """The part of the workers of a map."""
    own = [stage("worker 0", None)] if kind == PROCESSES else []
    return Part(f"Map({function.name})", kind, num, [*own, function])


def load(parts, interval, graph=0.0, cpu=0.0, cores=16, is_contended=False):
    """A load whose steps took `interval` seconds, with `cpu` seconds of CPU time each."""
    seconds = interval * NUM_STEPS
    return Load(parts, NUM_STEPS, seconds, graph, cpu * NUM_STEPS, cores, is_contended)


class TestLimit:
    def test_serial_stages_add_up(self):
        """The interval of a serial part is the sum over its stages, with their datapoints for a step."""
        part = serial(stage("Batch", 0.002), stage("Map(f)", 0.003, per_step=4))
        one = load([part], 0.014)
        assert 0.014 == pytest.approx(one.interval_of(part))
        assert one.is_known
        assert "Map(f)" == one.slowest.slowest.name

    def test_workers_divide(self):
        """The interval of a part with workers is divided by their number, so the other part may limit."""
        mapping, batching = workers(PROCESSES, 4, stage("f", 0.008)), serial(stage("Batch", 0.003))
        one = load([batching, mapping], 0.003)
        assert 0.002 == pytest.approx(one.interval_of(mapping))
        assert "Batch" == one.slowest.owner

    @pytest.mark.parametrize("interval", [0.002, 0.02])
    def test_what_does_not_explain_the_time_is_not_known(self, interval):
        """The limit is not known if the work of the slowest part is far from the time of a step."""
        one = load([serial(stage("Map(f)", 0.006))], interval)
        assert not one.is_known
        assert [] == advise(one)

    def test_a_stage_that_was_not_timed(self):
        """The limit is not known if a stage gave datapoints, but none was timed."""
        assert not load([serial(stage("Map(f)", 0.006), stage("List", None))], 0.006).is_known

    def test_full_cores(self):
        """Cores are full if the CPU time of a step fills all of them."""
        part = workers(PROCESSES, 4, stage("f", 0.040, cpu=0.018))
        one = load([part], 0.01, cpu=0.0195, cores=2)
        assert one.cores_are_full
        assert [] == advise(one)
        assert (
            "The CPU cores are full: 1.95 of 2 are busy. More workers will not help: a step costs 19.5 ms of CPU time, the "
            "data 18 ms of it. The most expensive stage is f, 18 ms."
        ) == describe_full_cores(one)


class TestAdvice:
    def test_more_workers_until_the_graph_limits(self):
        """The smallest number of workers that reaches 90 % of what the graph allows is advised."""
        one = load([workers(PROCESSES, 2, stage("f", 0.02, cpu=0.001))], 0.01, graph=0.004, cpu=0.003)
        first, last = advise(one)
        assert (3, 1.5) == (first.num_workers, pytest.approx(first.gain))
        # 5 workers: 4 ms
        assert (5, 2.5, "graph") == (last.num_workers, pytest.approx(last.gain), last.limit)
        assert "With 3 workers: 1.5x. With 5 workers: 2.5x, then the graph limits." == describe_advice(
            one, [first, last]
        )

    def test_the_cores_limit(self):
        """A prediction never exceeds the cores."""
        one = load([workers(PROCESSES, 1, stage("f", 0.01, cpu=0.01))], 0.01, cpu=0.011, cores=2)
        (advice,) = advise(one)
        assert (2, 0.01 / 0.0055) == (advice.num_workers, pytest.approx(advice.gain))
        assert ("cores", 2.0) == (advice.limit, pytest.approx(advice.busy_cores))

    def test_another_part_limits(self):
        """The next slowest part limits the gain, and is named."""
        slow, next_one = workers(PROCESSES, 1, stage("f", 0.01)), serial(stage("Batch", 0.006))
        (advice,) = advise(load([next_one, slow], 0.01))
        assert (2, 0.01 / 0.006, "Batch") == (advice.num_workers, pytest.approx(advice.gain), advice.limit)

    def test_a_serial_part_moves_to_workers(self):
        """A part of the consumer's thread is advised to run in workers."""
        one = load([serial(stage("Map(f)", 0.01))], 0.01, graph=0.005)
        (advice,) = advise(one)
        assert (2, 2.0, "graph") == (advice.num_workers, pytest.approx(advice.gain), advice.limit)
        text = "Map(f) in a runner or map with 2 workers: 2x, then the graph limits."
        assert text == describe_advice(one, [advice])

    def test_threads_that_wait(self):
        """Threads that wait, and do not compute, are multiplied as processes are."""
        one = load([workers(THREADS, 2, stage("f", 0.02, cpu=0.0001))], 0.01, graph=0.0066)
        (advice,) = advise(one)
        assert (3, 0.01 / 0.0067) == (advice.num_workers, pytest.approx(advice.gain, rel=0.01))

    def test_threads_that_compute(self):
        """The gain of more threads for a function that computes depends on Python's lock, so nothing is advised."""
        assert [] == advise(load([workers(THREADS, 1, stage("f", 0.01, cpu=0.0095))], 0.01, cpu=0.01))

    def test_a_small_gain(self):
        """A gain below 10 % is not advised."""
        assert [] == advise(load([workers(PROCESSES, 2, stage("f", 0.02))], 0.01, graph=0.0095))

    def test_other_programs(self):
        """Nothing is predicted while other programs use the cores."""
        one = load([workers(PROCESSES, 2, stage("f", 0.02))], 0.01, is_contended=True)
        assert [] == advise(one)
        assert "other programs use the CPU cores" in describe_advice(one, [])


class TestMemory:
    def make(self, free):
        """The advice for a map whose 2 workers use 2 GB each, where the graph would allow 2.5x."""
        part = replace(workers(PROCESSES, 2, stage("f", 0.02)), memory=2 * 10**9)
        one = load([part], 0.01, graph=0.004)._replace(free_memory=free)
        return one, advise(one)

    @pytest.mark.parametrize(("free", "expected"), [(None, [3, 5]), (5 * 10**9, [3, 4])])
    def test_memory_for_some_workers(self, free, expected):
        """No more workers are advised than fit into the free memory, if it is known."""
        _, options = self.make(free)
        assert expected == [advice.num_workers for advice in options]

    def test_enough_memory(self):
        """The advice includes the memory that the added workers need."""
        one, options = self.make(100 * 10**9)
        expected = [(3, 2 * 10**9), (5, 6 * 10**9)]
        assert expected == [(advice.num_workers, advice.more_memory) for advice in options]
        assert (
            "With 3 workers: 1.5x (about 2.0 GB more memory). "
            "With 5 workers: 2.5x, then the graph limits (about 6.0 GB more memory)."
        ) == describe_advice(one, options)

    def test_memory_for_no_worker(self):
        """If not even one more worker fits into the free memory, the advice mentions it."""
        one, options = self.make(10**9)
        assert [] == options
        text = "Another worker does not fit into the free memory: one uses 2.0 GB, 1.0 GB are free. Without the cost of f: 2.5x."
        assert text == describe_advice(one, options)


class TestSaving:
    """A step of 12 ms: 1 ms for the batch, 4 x 2 ms for a map, 4 x 0.75 ms for reading."""

    def make(self, cpu=0.0, cores=16, graph=0.002, free=10**9, pass_steps=1000, interval=0.012):
        stages = [
            stage("Batch", 0.001),
            stage("Map(f)", 0.002, per_step=4),
            stage("Read", 0.00075, per_step=4),
        ]
        stages = [replace(one, depth=depth, num_bytes=1e5) for depth, one in enumerate(stages)]
        one = load([serial(*stages)], interval, graph=graph, cpu=cpu, cores=cores)
        return one._replace(free_memory=free, pass_steps=pass_steps)

    def test_gains(self):
        """Without the slowest stage, also its CPU time, the others are left; with a cache after it, its readers and the graph."""
        saving = find_saving(self.make())
        assert "Map(f)" == saving.stage.name
        assert 0.012 / 0.004 == pytest.approx(saving.gain)
        assert 0.012 / 0.002 == pytest.approx(saving.gain_of_cache)
        assert 4 * 10**5 * 1000 == saving.cache_memory
        stages = [stage("Batch", 0.001, cpu=0.001), stage("Map(f)", 0.009, cpu=0.009)]
        stages = [replace(one, depth=depth) for depth, one in enumerate(stages)]
        saving = find_saving(load([serial(*stages)], 0.010, cpu=0.016, cores=2))
        assert 0.010 / 0.0035 == pytest.approx(saving.gain)

    def test_a_cache_that_brings_more_than_workers(self):
        """A cache is mentioned with its memory if it brings more than workers."""
        one = self.make(cores=0.5)  # two workers at most
        assert describe_advice(one, advise(one)).endswith(
            "CacheData after Map(f) would give 6x and needs 0.4 GB, if the results are the same in each pass."
        )

    @pytest.mark.parametrize("change", [{"free": 10**8}, {"pass_steps": None}])
    def test_no_cache(self, change):
        """A cache that does not fit, or whose size is not known, is not mentioned; the cost of the stage is."""
        one = self.make(cores=0.5, **change)
        assert describe_advice(one, []).endswith("less than 10 %; see docs/speed.md. Without the cost of Map(f): 3x.")

    def test_workers_that_bring_as_much(self):
        """If workers reach the limit of the graph, nothing else is said."""
        one = self.make(graph=0.010)
        assert "Cache" not in describe_advice(one, advise(one))

    def test_other_programs(self):
        """Nothing is known while other programs use the cores, or if the numbers do not explain the time of a step."""
        assert find_saving(self.make()._replace(is_contended=True)) is None
        assert find_saving(self.make(interval=0.1)) is None


class TestNames:
    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (
                serial(stage("Batch", 0.1), stage("MapData(f)", 1.0)),
                "MapData(f), in the thread that reads the data,",
            ),
            (workers(PROCESSES, 2, stage("f", 1.0)), "Map(f), 2 processes,"),
            (workers(THREADS, 1, stage("f", 1.0)), "Map(f), 1 thread,"),
            (
                Part(
                    "Runner",
                    PROCESSES,
                    3,
                    [stage("worker 0", None), stage("Batch", 0.1), stage("MapData(f)", 1.0)],
                ),
                "MapData(f) in the workers of Runner, 3 processes,",
            ),
        ],
    )
    def test_a_part(self, part, expected):
        """A sentence names the stage with the most work, and where it runs."""
        assert expected == describe_part(part)

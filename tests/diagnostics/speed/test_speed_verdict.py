"""Tests for the sentences about the speed of a training: one for each kind of verdict."""

from __future__ import annotations

import pytest

from tensorpack_lite.diagnostics.speed.bottleneck import Load
from tensorpack_lite.diagnostics.speed.pipeline_load import HERE, PROCESSES, Part, StageWork
from tensorpack_lite.diagnostics.speed.speed_verdict import Facts, judge
from tensorpack_lite.diagnostics.speed.step_division import Division


def a_load(wall=0.02, num=2, interval=0.01, graph=0.004, cpu=0.003, cores=16, is_contended=False):
    """A map with processes, 100 steps."""
    stages = [
        StageWork("worker 0", 1, 100, None, None, 0, 0, 0),
        StageWork("crop", 1, 100, wall, 0.001, 0, 0, 0),
    ]
    parts = [
        Part("Map(crop)", HERE, 1, [StageWork("Map(crop)", 0, 100, 1e-5, 1e-5, 0, 0, 0)]),
        Part("Map(crop)", PROCESSES, num, stages),
    ]
    return Load(parts, 100, 100 * interval, graph, 100 * cpu, cores, is_contended)


def facts(waiting=0.0, run=0.009, outside=0.001, load=None, **others):
    """The facts of a training with steps of about 10 ms."""
    division = Division(waiting, run, outside)
    values = {"is_graph_seen": True, "quartiles": (0.0098, 0.0102), "input_name": "QueueInput", **others}
    return Facts(division, load or a_load(), **values)


NOTHING_TIMED = Load(
    [Part("Map(f)", HERE, 1, [StageWork("Map(f)", 0, 9, None, None, 0, 0, 0)])], 9, 0.09, None, None, 2
)


class TestJudge:
    @pytest.mark.parametrize(
        ("settings", "limit", "text"),
        [
            (
                {"waiting": 0.0003, "run": 0.0087},
                "graph",
                "the graph limits (data is ready 97% of the time).",
            ),
            ({"waiting": 0.0005, "run": 0.0085}, "graph", "the graph limits"),
            ({"waiting": 0.0009, "run": 0.0081}, "graph", "the graph limits"),
            ({"is_graph_seen": False}, "data Map(crop) crop", "of the at least 250 that the graph"),
            (
                {"load": a_load(is_contended=True)},
                "data Map(crop) crop",
                "not known, because other programs use the CPU cores, too.",
            ),
            (
                {"load": a_load(cpu=0.0196, cores=2)},
                "cores",
                "1.96 of 2 are busy. More workers will not help",
            ),
            ({"load": NOTHING_TIMED}, "unknown stage", "Which stage limits is not known. To measure"),
            ({"run": 0.003, "is_fed": True}, "FeedInput", "up to 1.7x."),
            ({"quartiles": (0.11, 0.5)}, "varies", "(2 to 9.09 steps/s)"),
            ({"waiting": None, "input_name": "TFDatasetInput"}, "unknown", "with TFDatasetInput"),
        ],
    )
    def test_limits(self, settings, limit, text):
        """A sentence for each limit: the graph, data whose steps all waited, full or shared cores, a fed input, or none."""
        verdict = judge(facts(**{"waiting": 0.006, **settings}))
        assert limit == verdict.limit
        assert text in verdict.text
        assert verdict.is_worth_a_line == (limit != "unknown")
        if limit in ("graph", "unknown"):
            assert not verdict.shows_stages

    def test_the_data_limits(self):
        """If a step waits for data, the slowest stage, its speed and the gain of more workers are named."""
        verdict = judge(facts(waiting=0.006, run=0.003))
        assert ("data Map(crop) crop", True) == (verdict.limit, verdict.shows_stages)
        assert (
            "training waits for data 60% of the time. Map(crop), 2 processes, gives 100 datapoints/s of the 250 that the graph "
            "could take. With 3 workers: 1.5x. With 5 workers: 2.5x, then the graph limits."
        ) == verdict.text

    def test_a_stage_that_is_not_known(self):
        """If no part explains the time, the verdict names the largest part that was measured, and the next step."""
        verdict = judge(facts(waiting=0.006, load=a_load(wall=0.002)))
        assert ("unknown stage", True) == (verdict.limit, verdict.shows_stages)
        assert (
            "training waits for data 38% of the time. Which stage limits is not known. The largest measured part is Map(crop), 2 "
            "processes, with 1 ms for a step that takes 10 ms. To measure the pipeline alone, run tensorpack-lite data-check."
        ) == verdict.text

    def test_callbacks(self):
        """Callbacks that take a large part of each step are named."""
        calls = [
            ("MyLogger, after_run", 0.0041),
            ("Other, trigger_step", 0.0005),
            ("Small, trigger_step", 0.0004),
        ]
        verdict = judge(facts(run=0.005, outside=0.0054, calls=calls))
        assert "callbacks" == verdict.limit
        assert verdict.text.startswith(
            "callbacks take 48% of a step of 10.4 ms: MyLogger, after_run 4.1 ms; Other, trigger_step 0.5 ms. Call them"
        )

    def test_evaluation(self):
        """A callback that takes long between epochs is named, with the gain of calling it half as often."""
        verdict = judge(facts(epoch=66.0, between=[("Saver", 0.5), ("InferenceRunner", 41.0)]))
        assert "between epochs InferenceRunner" == verdict.limit
        assert verdict.text.startswith("callbacks between epochs take 39% of the time, InferenceRunner 41 s")
        assert verdict.text.endswith(f"would give {107.5 / 87:.2f}x.")

"""The command `data-check`: its output, exit code and errors."""

from __future__ import annotations

import math
import re
import sys

import pytest

from tensorpack_lite.cli import pipelines
from tensorpack_lite.cli.main import main
from tensorpack_lite.diagnostics.data_check import examine
from tensorpack_lite.diagnostics.data_check.stage_speed import PipelineSpeed, count_pass, take
from tensorpack_lite.diagnostics.speed.bottleneck import Load
from tensorpack_lite.diagnostics.speed.pipeline_load import HERE, Part, StageWork

CODE = """
import time
import numpy as np
from tensorpack_lite.dataflow import BatchData, DataFlow, DataFromList, MapData, MultiThreadMapData, MultiThreadRunner

class WrongLength(DataFlow):
    def __iter__(self):
        return iter([[k] for k in range(20)])
    def __len__(self):
        return 21

def slow(dp):
    time.sleep(0.001)
    return dp

def uneven(dp):
    return [np.zeros(dp[0] + 1)]

def unequal_shapes():
    return BatchData(MapData(in_order(), uneven), 4)

def in_order():
    return DataFromList([[k] for k in range(40)], shuffle=False)

def in_runs():
    return MapData(DataFromList([[k] for k in range(8000)], shuffle=False), lambda dp: [np.float32(dp[0]), dp[0] // 1000])

def copies():
    return DataFromList([[k // 2] for k in range(4000)], shuffle=False)

def not_finite():
    return DataFromList([{"x": np.array([1, np.nan, 2])}] * 40)

def healthy():
    return BatchData(MapData(in_order(), slow), 4)

def batches_of_runners():
    return MapData(MultiThreadRunner(healthy, 2, 1), slow)

def wrong_length():
    return WrongLength()

def with_threads():
    return MultiThreadMapData(in_order(), 2, slow, buffer_size=8, strict=True)

def a_lambda():
    return MapData(in_order(), lambda dp: dp)

def fails():
    return MapData(in_order(), lambda dp: dp[1])

not_a_function = 3
"""
FAST = ["--seconds", "0.1"]


@pytest.fixture
def flows(tmp_path, monkeypatch):
    """A module `flows` in the current directory; the value formats `flows:function`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "flows.py").write_text(CODE, encoding="utf-8")
    yield "flows:{}".format
    sys.modules.pop("flows", None)


@pytest.fixture(autouse=True)
def no_time_limit_of_a_pass(monkeypatch):
    """A pass has the limit `--size` only. On a busy machine, it could take longer than `--seconds`."""
    for function in (count_pass, take):
        monkeypatch.setitem(
            examine.__globals__,
            function.__name__,
            lambda flow, size, seconds, *look, of=function: of(flow, size, math.inf, *look),
        )


def check(*arguments):
    """Run the command for a short time."""
    return main(["data-check", *arguments, *FAST])


def a_speed(is_explained):
    """The speed of a pipeline with one stage, whose work explains its speed or not."""
    wall = 0.004 if is_explained else 0.001
    part = Part("MapData(slow)", HERE, 1, [StageWork("MapData(slow)", 0, 100, wall, 0.0, 0.0, 0.0, 0.0)])
    load = Load([part], 100, 0.4, 0.0, 0.0, 2.0)
    return PipelineSpeed(load, part if is_explained else None, False)


class TestLimit:
    def test_it_is_named(self):
        """The stage that limits the speed is named, with the gain of more workers."""
        assert (
            "MapData(slow), in the thread that reads the data, limits the speed. MapData(slow) in a runner or map with 2 "
            "workers: 2x. With 8 workers: 8x."
        ) == pipelines._describe_limit(a_speed(True))

    def test_it_is_not_known(self):
        """If no stage explains the speed, the stage is not known."""
        assert pipelines._describe_limit(a_speed(False)).startswith("Which stage limits the speed is not known")


class TestReport:
    @pytest.mark.slow
    def test_a_healthy_pipeline(self, flows, capsys):
        """A healthy pipeline gives exit code 0, a line for each check and stage, and the name of the bottleneck."""
        assert 0 == check(flows("healthy"))
        # on a busy machine another check may have no time, and its longer result widens the column
        out = re.sub(" +", " ", capsys.readouterr().out)
        for line in (
            r"flows:healthy",
            r"length ok len() says 10, and two passes had that many.",
            r"dtype and shape ok 20 datapoints of [0: 1-dimensional int32 (4,)].",
            r". MapData(slow)",
            r". . DataFromList",
            r" batches per second.",
        ):
            assert line in out

    @pytest.mark.parametrize(("name", "unit"), [("in_order", "sample"), ("batches_of_runners", "batch")])
    def test_samples_or_batches(self, flows, capsys, name, unit):
        """The speed is in batches if a stage makes batches, also one that runs in workers; otherwise in samples."""
        check(flows(name))
        out = capsys.readouterr().out
        assert f"per {unit} " in out
        assert f"{unit}es per second." in out or f"{unit}s per second." in out

    def test_the_advice_of_batch_data_is_shown(self, flows, capsys):
        """Datapoints that do not stack are reported in BatchData's words, not in NumPy's."""
        assert 1 == check(flows("unequal_shapes"))
        assert "BatchData: component 0 cannot be stacked" in capsys.readouterr().out

    def test_a_broken_promise(self, flows, capsys):
        """A broken promise gives exit code 1."""
        assert 1 == check(flows("wrong_length"))
        out = re.sub(" +", " ", capsys.readouterr().out)
        assert "BROKEN len() says 21, but the first pass had 20 datapoints." in out

    def test_workers(self, flows, capsys):
        """The function that the workers of a map run is measured separately and can be the bottleneck."""
        assert 0 == check(flows("with_threads"))
        out = capsys.readouterr().out
        assert "2 threads" in out

    def test_a_warning(self, flows, capsys):
        """A warning gives exit code 0, and 1 with --strict."""
        assert 0 == check(flows("a_lambda"))
        assert "MapData(<lambda>).func cannot be pickled" in capsys.readouterr().out
        assert 1 == check(flows("a_lambda"), "--strict")

    def test_an_error_of_the_pipeline(self, flows, capsys):
        """An exception in the pipeline is reported as a broken promise."""
        assert 1 == check(flows("fails"))
        out = " ".join(capsys.readouterr().out.split())
        assert "the pipeline raised IndexError: MapData: <lambda> failed at" in out
        assert "list index out of range" in out

    def test_a_path(self, flows, tmp_path, monkeypatch, capsys):
        """The target may be a path instead of a module."""
        monkeypatch.chdir("/")
        assert 1 == check(f"{tmp_path}/flows.py:wrong_length")
        assert "len() says 21" in capsys.readouterr().out


class TestErrors:
    @pytest.mark.parametrize(
        ("target", "text"),
        [
            ("flows", "expected module:function, got 'flows'"),
            ("flows:nothing", "flows has no function 'nothing'"),
            ("flows:not_a_function", "flows has no function 'not_a_function'"),
            ("no_such_module:f", "No module named 'no_such_module'"),
            ("no_such_file.py:f", "no_such_file.py does not exist"),
        ],
    )
    def test_nothing_to_check(self, flows, capsys, target, text):
        """A wrong target gives exit code 2 and a sentence."""
        assert 2 == check(target)
        assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        ("in_runs", ["D01 component 1: labels come in runs", "500 in a row have about 1.0 classes"]),
        ("copies", ["D04 datapoints: 500 of the first 1000 samples of the pass are copies"]),
        ("not_finite", ["D02 component 'x': 1 of 3 values of a datapoint are NaN or infinite."]),
    ],
)
def test_rules_of_lint(flows, capsys, monkeypatch, flow, words):
    """The rules of lint about data are a warning; with --strict, it fails."""
    monkeypatch.setitem(examine.__globals__, "measure_growth", lambda *_: None)  # always takes `--seconds`
    code = main(
        ["data-check", flows(flow), "--seconds", "30", "--size", "4000"]
        if flow != "not_finite"
        else ["data-check", flows(flow), *FAST]
    )
    text = " ".join(capsys.readouterr().out.split())
    assert 0 == code
    assert "values warning" in text
    for one in words:
        assert one in text


def test_values_without_mistakes(flows, capsys):
    """Data without mistakes has the number of datapoints that were examined."""
    check(flows("in_order"))
    assert "values ok the rules of lint have no remark about 40 datapoints." in " ".join(
        capsys.readouterr().out.split()
    )

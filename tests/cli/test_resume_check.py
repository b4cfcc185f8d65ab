"""The command `resume-check`: its output, exit code and errors."""

from __future__ import annotations

import os
import sys

import pytest

from tensorpack_lite.cli.main import main

CODE = """
import itertools, os, time
import numpy as np
from tensorpack_lite.dataflow import *

class Noise(RNGDataFlow):
    def __init__(self, ds):
        self.ds = ds
    def reset_state(self):
        super().reset_state()
        self.ds.reset_state()
    def __iter__(self):
        for datapoint in self.ds:
            yield [*datapoint, self.rng.rand()]

class Count(ProxyDataFlow):
    count = 0
    def __iter__(self):
        for datapoint in self.ds:
            self.count += 1
            yield [*datapoint, self.count]

class NamedCount(Count):
    state_attributes = ("count",)

class EndsTheProcess(ProxyDataFlow):
    def __iter__(self):
        if os.getpid() != int(os.environ["MAIN_PROCESS"]):
            os._exit(3)
        return iter(self.ds)

def source():
    return DataFromList([[k] for k in range(40)])

def draws(datapoint):
    return [*datapoint, np.random.rand()]

def exact():
    return BatchData(NamedCount(Noise(source())), 4)

def endless():
    return RepeatedData(source(), -1)

def global_random():
    return BatchData(MapData(source(), draws), 4)

def forgets():
    return BatchData(Count(source()), 4)

def clock():
    return BatchData(MapData(source(), lambda datapoint: [*datapoint, time.perf_counter_ns() % 10**6]), 4)

def drawn_list():
    return BatchData(DataFromList([[k] for k in np.random.permutation(40)], shuffle=False), 4)

def running_generator():
    return DataFromGenerator([k] for k in range(40))

def empty():
    return DataFromList([])

def fails():
    return MapData(source(), lambda datapoint: datapoint[1])

def ends_the_process():
    return EndsTheProcess(source())
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Run the command on a function of a module in the current directory. Return the exit code and the output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("MAIN_PROCESS", str(os.getpid()))
    (tmp_path / "resumed_flows.py").write_text(CODE, encoding="utf-8")

    def run(function: str, *options: str) -> tuple:
        code = main(["resume-check", f"resumed_flows:{function}", "--seed", "1", *options])
        return code, " ".join(capsys.readouterr().out.split())

    yield run
    sys.modules.pop("resumed_flows", None)


@pytest.mark.slow
class TestReport:
    def test_an_exact_pipeline(self, check):
        """A pipeline that is restored exactly gives exit code 0, the level of each stage, and the cuts."""
        code, out = check("exact", "--strict", "--cuts", "0")
        assert 0 == code
        for text in (
            "resumed_flows:exact (cuts: --seed 1)",
            "BatchData state NamedCount replay up to one pass of it is replayed Noise replay",
            "levels ok every stage can be resumed.",
            "datapoints ok restored in 5 new processes, after datapoints 0, 1, 9, 10 of pass 1 and 0 of pass 2. The rest of "
            "the pass and two more passes were the same.",
            "global random ok",
            "size ok a state has at most ",
            "; budget 5 ms).",
            "restore ok the next datapoint came at most ",
        ):
            assert text in out

    def test_a_long_pass(self, check):
        """A pass without end is compared up to the limit that the output names."""
        code, out = check("endless", "--size", "50", "--cuts", "1")
        assert 0 == code
        assert "The datapoints up to 50 were the same. The end of the pass and later passes were not compared" in out


@pytest.mark.slow
class TestDifferences:
    def test_the_global_generator(self, check):
        """A stage that draws from numpy.random differs, and the remedy is `self.rng`."""
        code, out = check("global_random")
        assert 1 == code
        assert (
            "Restored after 0 datapoints of pass 1, component 1 differs in datapoint 1 of pass 1. Suspect MapData(draws)."
            in out
        )
        assert "global random warning MapData(draws) draws from `random` or `numpy.random`" in out
        assert "Draw from `self.rng` of an RNGDataFlow instead" in out

    @pytest.mark.nightly
    def test_state_that_is_not_named(self, check):
        """A count over passes that `state_attributes` does not name differs after the first pass."""
        code, out = check("forgets", "--cuts", "0")
        assert 1 == code
        assert "Restored after 0 datapoints of pass 2, component 1 differs in datapoint 1 of pass 2." in out
        assert "Suspect Count: does it read a clock, or change an attribute that is not one of its" in out

    def test_a_clock(self, check):
        """A stage that reads a clock differs, and is found below other stages."""
        code, out = check("clock", "--cuts", "0")
        assert 1 == code
        assert "component 1 differs in datapoint 1 of pass 1. Suspect MapData(<lambda>): does it read a clock" in out

    def test_a_list_that_is_drawn(self, check):
        """If building the pipeline draws from numpy.random, the function is the suspect."""
        code, out = check("drawn_list", "--cuts", "0")
        assert 1 == code
        assert "Suspect the function that builds the pipeline, because it draws from" in out

    def test_a_process_that_ends(self, check):
        """A new process that ends is reported with its exit code."""
        code, out = check("ends_the_process", "--cuts", "0")
        assert 1 == code
        assert "Restored after 0 datapoints of pass 1, the new process ended with exit code 3." in out


class TestFindings:
    @pytest.mark.slow
    def test_level_none(self, check):
        """A stage without a position is named; with --strict, the exit code is 1."""
        code, out = check("running_generator", "--strict", "--cuts", "0", "--size", "1")
        assert 1 == code
        assert 'levels warning DataFromGenerator cannot be resumed exactly; exact="require" refuses it.' in out

    def test_no_datapoints(self, check):
        """An empty pass gives exit code 1."""
        assert check("empty")[0] == 1

    def test_an_error_of_the_pipeline(self, check):
        """An exception in the pipeline is reported."""
        code, out = check("fails")
        assert 1 == code
        assert "pipeline BROKEN it raised IndexError: MapData: <lambda> failed at" in out

    def test_errors(self, check, capsys):
        """A wrong target or number gives exit code 2 and a sentence."""
        assert 2 == main(["resume-check", "resumed_flows:nothing"])
        assert "resumed_flows has no function 'nothing'" in capsys.readouterr().err
        assert 2 == main(["resume-check", "resumed_flows:exact", "--size", "0"])
        assert "check_resume: a number is out of range" in capsys.readouterr().err

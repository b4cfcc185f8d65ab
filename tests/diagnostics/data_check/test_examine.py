"""Tests for the doctor: for each check, a pipeline that fails it and one that passes."""

from __future__ import annotations

import itertools
import re
import time

import numpy as np
import pytest
from fakes.patience import patiently

from tensorpack_lite.dataflow.base import DataFlow, RNGDataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.dataflow.runner import MultiProcessRunnerZMQ
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner
from tensorpack_lite.diagnostics.data_check.examine import (
    BROKEN,
    NOT_CHECKED,
    OK,
    WARNING,
    DataReport,
    Finding,
    _Doctor,
    examine,
)

NUM = 120
SECONDS = 0.1  # for each check


class Noise(RNGDataFlow):
    """120 random datapoints [float32 array, int] that pass all checks."""

    def __iter__(self):
        for k in range(NUM):
            yield [self.rng.rand(3).astype("float32"), k]

    def __len__(self):
        return NUM


class LiesAboutItsLength(Noise):
    def __len__(self):
        return NUM + 1


class YieldsOnePassOnly(Noise):
    """A generator that is created once, in reset_state."""

    def reset_state(self):
        super().reset_state()
        self.left = super().__iter__()

    def __iter__(self):
        yield from self.left


class DriftsInDtype(Noise):
    def __iter__(self):
        for array, k in super().__iter__():
            yield [array.astype("float64") if k == 70 else array, k]


class LosesAComponent(Noise):
    def __iter__(self):
        for array, k in super().__iter__():
            yield [array] if k == 70 else [array, k]


class DriftsInShape(Noise):
    def __iter__(self):
        for array, k in super().__iter__():
            yield [array[:2] if k == 70 else array, k]


class UsesTheGlobalRng(Noise):
    def __iter__(self):
        for array, k in super().__iter__():
            yield [array, np.random.randint(1 << 30) if k >= 40 else k]


class Leaks(Noise):
    """A DataFlow that keeps half a megabyte for each datapoint."""

    def reset_state(self):
        super().reset_state()
        self.kept = []

    def __iter__(self):
        for datapoint in super().__iter__():
            self.kept.append(np.ones(1 << 16))
            time.sleep(0.001)  # limits the memory that the test needs
            yield datapoint


class HoldsAFile(Noise):
    def __init__(self):
        self.log = open(__file__)  # noqa: SIM115
        self.log.close()


class Fails(Noise):
    def __iter__(self):
        yield from itertools.islice(super().__iter__(), 50)
        raise OSError("the disk is gone")


class SameInEachCopy(DataFlow):
    """1000 datapoints in order, which two workers yield twice."""

    def __iter__(self):
        for k in range(1000):
            yield [k]

    def __len__(self):
        return 1000


class Shuffled(SameInEachCopy, RNGDataFlow):
    """1000 datapoints in random order."""

    def __iter__(self):
        for k in self.rng.permutation(1000):
            yield [int(k)]


class ShuffledByTheGlobalRng(SameInEachCopy):
    """1000 datapoints in a random order that is the same in all forked workers."""

    def __iter__(self):
        for k in np.random.permutation(1000):
            yield [int(k)]


class Six:
    """Six datapoints."""

    def __iter__(self):
        return iter([[k] for k in range(6)])


def unchanged(datapoint):
    """Return the datapoint."""
    return datapoint


def uneven(datapoint):
    """Take longer for some datapoints."""
    time.sleep(0.001 * (datapoint[1] % 3))
    return datapoint


def slow(datapoint):
    """Wait for 2 ms."""
    time.sleep(0.002)
    return datapoint


def examined(build, *unchecked):
    """Return the report, with more time if the machine was too busy to finish all checks."""
    for seconds in (SECONDS, 1, 10):
        report = examine(build, seconds)
        if all(finding.status != NOT_CHECKED or finding.check in unchecked for finding in report.findings):
            break
    return report


def not_ok(report):
    """Return the status of each check that is not OK."""
    return {finding.check: finding.status for finding in report.findings if finding.status != OK}


class TestHealthy:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "build",
        [
            Noise,
            lambda: BatchData(Noise(), 8),
            lambda: MultiThreadMapData(Noise(), 1, unchanged, strict=True),
        ],
        ids=["source", "batches", "map with a thread"],
    )
    @patiently
    def test_all_checks_pass(self, build):
        """All checks pass, the speed is measured, and the texts name the numbers of the pipeline."""
        report = examined(build)
        assert {} == not_ok(report)
        assert [] == report.broken
        assert report.speed.per_second > 0
        if build is Noise:
            assert "len() says 120, and two passes had that many." == report["length"].text
            form = "240 datapoints of [0: 1-dimensional float32 (3,), 1: int]."
            assert form == report["dtype and shape"].text
            assert "the same 120 datapoints" in report["determinism"].text


class TestBroken:
    @pytest.mark.parametrize(
        ("build", "check", "text", "others"),
        [
            (LiesAboutItsLength, "length", r"len\(\) says 121, but the first pass had 120 datapoints", {}),
            (
                YieldsOnePassOnly,
                "length",
                r"len\(\) says 120, but the second pass had 0 datapoints",
                {"memory": NOT_CHECKED},
            ),
            (
                DriftsInDtype,
                "dtype and shape",
                r"component 0 is .*float32 \(from datapoint 0\), then .*float64 \(from datapoint 70\)",
                {},
            ),
            (
                LosesAComponent,
                "dtype and shape",
                r"a list of 2 components .*, then a list of 1 components \(from datapoint 70\)",
                {},
            ),
            (
                UsesTheGlobalRng,
                "determinism",
                r"differ from datapoint 40 on\. Draw random numbers from `self.rng`",
                {},
            ),
        ],
    )
    @patiently
    def test_the_check_fails(self, build, check, text, others):
        """Only the check for the broken promise fails, and its text tells where."""
        report = examined(build, *others)
        assert {check: BROKEN, **others} == not_ok(report), report
        assert re.search(text, report[check].text), report[check].text
        assert [report[check]] == report.broken

    @pytest.mark.slow
    @patiently
    def test_a_leak(self):
        """Memory that grows over whole passes is reported."""
        status, text = _Doctor(Leaks, 0.8, 200, 7).memory()
        assert BROKEN == status
        assert text.endswith("Does a list, an unlimited cache or a log keep datapoints?")
        assert re.match(r"grew by \d+ MB over \d+ datapoints, [45]\d\d kB each, workers included", text), text

    @patiently
    def test_workers_that_yield_the_same(self):
        """A runner with two workers over ordered data yields duplicates."""
        report = examined(lambda: MultiThreadRunner(SameInEachCopy, 1, 2))
        assert [("duplicates", BROKEN)] == [(finding.check, finding.status) for finding in report.broken]
        text = "the 2 workers of MultiThreadRunner each run all of the data, and 100% of the first 250 datapoints are the same"
        assert re.search(text, report["duplicates"].text), report["duplicates"].text

    @patiently
    def test_workers_that_differ(self):
        """A runner with two workers over random data yields no duplicates."""
        report = examined(lambda: MultiThreadRunner(Shuffled, 1, 2))
        assert OK == report["duplicates"].status, report["duplicates"].text

    def test_an_error(self):
        """An error of the pipeline is the last finding, and names the error and its line."""
        report = examined(Fails)
        assert ["first datapoint", "length"] == [finding.check for finding in report.findings]
        assert BROKEN == report["length"].status
        assert "the pipeline raised OSError: the disk is gone" in report["length"].text
        assert "test_examine.py:" in report["length"].text
        assert report.speed is None

    def test_an_error_of_a_worker(self):
        """An error of a worker is reported with the line in the worker."""
        report = examined(lambda: MultiThreadMapData(Noise(), 1, lambda dp: dp[7], strict=True))
        assert [("first datapoint", BROKEN)] == [(finding.check, finding.status) for finding in report.findings]
        assert "test_examine.py:" in report["first datapoint"].text

    @pytest.mark.parametrize(
        ("build", "text"),
        [
            (lambda: [1], "returned list (expected a DataFlow)"),
            (lambda: DataFromList([]), "a pass yielded no datapoint"),
        ],
    )
    def test_no_data(self, build, text):
        """Without a first datapoint, the other checks are skipped."""
        report = examined(build)
        assert 1 == len(report.findings)
        assert BROKEN == report.findings[0].status
        assert text in report.findings[0].text


class TestWarnings:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("build", "check", "text"),
        [
            (lambda: RepeatedData(Noise(), 3), "length", "ok"),
            (
                DriftsInShape,
                "dtype and shape",
                r"component 0 has 2 shapes: it is \(3,\) .*, then \(2,\) \(from datapoint 70\)",
            ),
            (
                lambda: MapData(Noise(), lambda dp: dp),
                "pickling",
                r"MapData\(<lambda>\)\.func cannot be pickled",
            ),
            (HoldsAFile, "pickling", r"HoldsAFile\.log cannot be pickled"),
            (
                lambda: MultiThreadMapData(Noise(), 1, unchanged),
                "length",
                r"a pass continues after that, perhaps without end",
            ),
        ],
    )
    @patiently
    def test_a_warning(self, build, check, text):
        """Allowed but surprising behavior is a warning."""
        report = examined(build)
        expected = {} if text == "ok" else {check: WARNING}
        assert expected == not_ok(report)
        assert text == "ok" or re.search(text, report[check].text), report[check].text

    @patiently
    def test_another_order(self):
        """Several workers that deliver in varying order are a warning."""
        report = examined(lambda: MultiThreadMapData(Noise(), 3, uneven, buffer_size=30, strict=True))
        assert {"determinism": WARNING} == not_ok(report)
        assert "in another order" in report["determinism"].text or "deliver varies" in report["determinism"].text

    def test_a_pass_too_long_to_count(self):
        """The length of a pass that does not end within the limits is not checked."""
        report = examine(lambda: MapData(Noise(), slow), 0.05)
        assert NOT_CHECKED == report["length"].status

    def test_no_length(self):
        """An unknown length is OK, and its consequences are named."""
        report = examined(lambda: DataFromGenerator(Six()))
        assert OK == report["length"].status
        assert "InferenceRunner needs a FixedSizeData" in report["length"].text


@pytest.mark.parametrize("arguments", [{"seconds": 0}, {"size": 0}])
def test_numbers_out_of_range(arguments):
    """Limits out of range are a ValueError."""
    with pytest.raises(ValueError, match="expected seconds > 0 and size >= 1"):
        examine(Noise, **arguments)


def test_a_check_that_did_not_run():
    """The KeyError for a check that did not run names the checks that did."""
    report = DataReport([Finding("length", OK, "")])
    assert OK == report["length"].status
    with pytest.raises(KeyError, match="the check 'lenght' did not run .expected one of length"):
        report["lenght"]


@pytest.mark.any_tensorflow
class TestProcesses:
    """Checks of runners with processes, which simulate the workers without starting them."""

    @pytest.mark.parametrize(
        ("kind", "status"),
        [(SameInEachCopy, BROKEN), (Shuffled, OK), (ShuffledByTheGlobalRng, BROKEN)],
        ids=["in order", "by self.rng", "by np.random"],
    )
    @patiently
    def test_duplicates(self, kind, status):
        """Workers differ in `self.rng`, but start with the same state of np.random."""
        finding = _Doctor(lambda: MultiProcessRunnerZMQ(kind(), 2), 5, 2000, 7).duplicates()
        assert status == finding[0], finding

    @pytest.mark.slow
    @patiently
    def test_a_healthy_runner(self):
        """A runner with one worker keeps the order and passes all checks."""
        assert {} == not_ok(examined(lambda: MultiProcessRunnerZMQ(Noise(), 1)))

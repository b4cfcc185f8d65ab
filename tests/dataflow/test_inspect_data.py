"""Tests of TestDataSpeed and PrintData."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.inspect_data import PrintData, TestDataSpeed
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.utils import logger


class Source(DataFlow):
    """A DataFlow of 0 to 9 that counts resets and datapoints."""

    def __init__(self):
        self.resets = self.yielded = 0

    def __iter__(self):
        for k in range(10):
            self.yielded += 1
            yield [k]

    def reset_state(self):
        self.resets += 1


class TestTestDataSpeed:
    @pytest.mark.parametrize(
        ("size", "warmup", "taken", "yielded"), [(4, 0, 4, 4), (4, 3, 4, 7), (20, 0, 10, 10), (5, 8, 2, 10)]
    )
    def test_start(self, size, warmup, taken, yielded, log_lines):
        """`start` takes at most warmup + size datapoints, and logs how many were measured."""
        source = Source()
        speed = TestDataSpeed(source, size, warmup).start()
        assert yielded == source.yielded
        assert speed > 0
        assert log_lines[0].startswith(f"TestDataSpeed: {taken} datapoints of Source, ")

    @pytest.mark.parametrize("warmup", [10, 20])
    def test_no_datapoint_after_the_warm_up(self, warmup, log_lines):
        """Data that ends within the warm-up has no speed: the only line is a warning."""
        assert 0 == TestDataSpeed(Source(), 4, warmup).start()
        (line,) = log_lines
        assert f"Source has no datapoint after the warm-up of {warmup}, so nothing was measured" in line

    def test_start_resets_the_source(self):
        """`start` resets the source once, and a later `reset_state` does not reset it again."""
        source = Source()
        flow = TestDataSpeed(source, 3)
        flow.start()
        flow.reset_state()
        flow.start()
        assert 1 == source.resets

    def test_after_a_reset_it_is_not_reset_again(self):
        """`start` after `reset_state` does not reset the source again."""
        source = Source()
        flow = TestDataSpeed(source, 3)
        flow.reset_state()
        assert [[k] for k in range(10)] == list(iter(flow))
        assert 1 == source.resets

    def test_iterating_measures_first(self, log_lines):
        """Iterating runs the measurement first, and then yields all datapoints."""
        source = Source()
        assert [[k] for k in range(10)] == list(iter(TestDataSpeed(source, 3)))
        assert 13 == source.yielded
        assert 1 == len(log_lines)


def described(datapoint, **kwargs):
    """Return the lines that PrintData logs for a datapoint."""
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "info", lines.append)
        list(PrintData(DataFromList([datapoint], shuffle=False), **kwargs))
    (text,) = lines
    return text.splitlines()


class TestPrintData:
    def test_counted_since_reset(self, log_lines):
        """`num` datapoints are logged over several passes, and a reset starts the count again."""
        flow = PrintData(DataFromList([[1], [2]], shuffle=False), num=3)
        flow.reset_state()
        assert [2, 3, 3] == [len(log_lines) for _ in range(3) if list(flow)]
        flow.reset_state()
        list(flow)
        assert 5 == len(log_lines)

    def test_the_head(self):
        """The first line has the number of the datapoint, the name and the number of components."""
        assert "PrintData: datapoint 1 of DataFromList, with 2 components:" == described([1, 2])[0]
        assert "PrintData: datapoint 1 of photos, with 1 components:" == described({"a": 1}, name="photos")[0]

    @pytest.mark.parametrize(
        ("component", "line"),
        [
            (np.array([[1, 5]], np.uint8), "ndarray uint8 of shape (1, 2), in [1, 5]"),
            (np.array([0.25, np.nan]), "ndarray float64 of shape (2,), in [nan, nan]"),
            (np.array(2.5, np.float32), "ndarray float32 of shape (), in [2.5, 2.5]"),
            (np.zeros((0, 4), np.float32), "ndarray float32 of shape (0, 4), empty"),
            (np.array([True, False, True]), "ndarray bool of shape (3,), 2 of 3 true"),
            (np.array(["a", "b"]), "ndarray <U1 of shape (2,)"),
            (np.array([None, 1], dtype=object), "ndarray object of shape (2,)"),
            (np.array([1j]), "ndarray complex128 of shape (1,)"),
            (np.float32(1.5), "float32 1.5"),
            (3, "int 3"),
            (True, "bool True"),
            ("word", "str of length 4: 'word'"),
            (b"x" * 100, "bytes of length 100: " + repr(b"x" * 40) + " ..."),
            ("", "str of length 0: ''"),
            (None, "NoneType"),
            (DataFlow, "ABCMeta"),
            ([], "list of length 0"),
        ],
    )
    def test_components(self, component, line):
        """A component is described by its type, dtype, shape and range."""
        assert ["   0: " + line] == described([component])[1:]

    def test_lists_are_entered(self):
        """At most `max_list` elements of a list are described, followed by the number of the others."""
        assert [
            "   'boxes': list of length 5",
            "      0: int 0",
            "      1: int 1",
            "      ... 3 more",
        ] == described({"boxes": [0, 1, 2, 3, 4]}, max_list=2)[1:]

    def test_depth(self):
        """At most `max_depth` levels of lists, dicts and tuples are described."""
        nested = [{"a": ([1],)}]
        assert ["   0: dict of length 1"] == described(nested, max_depth=1)[1:]
        assert [
            "   0: dict of length 1",
            "      'a': tuple of length 1",
            "         0: list of length 1",
        ] == described(nested, max_depth=3)[1:]

    def test_a_datapoint_of_an_unsupported_type(self):
        """A datapoint of an unsupported type is described as well."""
        assert [
            "PrintData: datapoint 1 of DataFromList, which is not a list or a dict:",
            "   ndarray int32 of shape (2,), in [0, 1]",
        ] == described(np.arange(2, dtype=np.int32))

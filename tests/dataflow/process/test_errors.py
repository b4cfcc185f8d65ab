"""Tests for errors that are raised in another process."""

from __future__ import annotations

import pytest

from tensorpack_lite.dataflow.base import DataFlowTerminated
from tensorpack_lite.dataflow.process.errors import (
    WorkerDied,
    WorkerTraceback,
    describe_error,
    died,
    raise_described,
)


class Takes(Exception):
    """An error that cannot be unpickled, because its constructor takes two arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Holds(Exception):
    """An error that cannot be pickled, because it holds a lambda."""

    def __init__(self):
        super().__init__("holds")
        self.thing = lambda: 1


def described(error):
    """Raise and catch an error as a worker does, and return its description."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 (all kinds are tried)
        return describe_error(caught, "Stage: worker 0 (pid 1), in F")


class TestRaise:
    @pytest.mark.parametrize("error", [UnicodeDecodeError("utf8", b"x", 0, 1, "odd"), Takes(1, 2), Holds()])
    def test_types_that_do_not_take_a_text_are_named(self, error):
        """An error whose type cannot be built from a text becomes a RuntimeError that names the type."""
        with pytest.raises(RuntimeError, match=f"Stage: worker 0 .pid 1., in F: {type(error).__name__}: "):
            raise_described(described(error))

    def test_the_end_of_the_data_keeps_its_type(self):
        """DataFlowTerminated is raised as it is."""
        with pytest.raises(DataFlowTerminated):
            raise_described(described(DataFlowTerminated()))

    def test_the_cause_is_the_traceback_of_the_worker(self):
        """The cause holds the traceback of the worker, with file and line."""
        with pytest.raises(ValueError, match="bad") as caught:
            raise_described(described(ValueError("bad")))
        assert isinstance(caught.value.__cause__, WorkerTraceback)
        assert "test_errors.py" in str(caught.value.__cause__)
        assert "ValueError: bad" in str(caught.value.__cause__)


class TestDied:
    @pytest.mark.parametrize(
        ("exitcode", "text"),
        [
            (3, "ended with exit code 3"),
            (-11, "was killed by SIGSEGV"),
            (
                -9,
                r"was killed by SIGKILL; its datapoints are lost. Linux kills processes when memory runs out",
            ),
            (-250, "was killed by signal 250"),
            (None, "closed its channel"),
        ],
    )
    def test_the_message_names_the_exit_code(self, exitcode, text):
        """The message names the exit code or the signal."""
        error = died("Stage", "in F", 1, 42, exitcode)
        assert isinstance(error, WorkerDied)
        with pytest.raises(RuntimeError, match=rf"Stage: worker 1 \(pid 42\), in F, {text}"):
            raise error

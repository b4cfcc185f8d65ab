"""Errors of other processes."""

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
    """An error that pickle cannot make again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Holds(Exception):
    """An error that cannot be pickled."""

    def __init__(self):
        super().__init__("holds")
        self.thing = lambda: 1


def described(error):
    """What a worker would send of an error that it caught."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 (all kinds are tried)
        return describe_error(caught, "Stage: worker 0 (pid 1), in F")


class TestRaise:
    @pytest.mark.parametrize("error", [ValueError("bad"), KeyError("bad"), ZeroDivisionError("bad")])
    def test_the_type_stays(self, error):
        """And stage, worker, pid and text are named."""
        with pytest.raises(type(error), match=r"Stage: worker 0 \(pid 1\), in F: bad"):
            raise_described(described(error))

    @pytest.mark.parametrize("error", [UnicodeDecodeError("utf8", b"x", 0, 1, "odd"), Takes(1, 2), Holds()])
    def test_types_that_do_not_take_a_text_are_named(self, error):
        """They become a RuntimeError, and not an error about their constructor."""
        with pytest.raises(RuntimeError, match=f"Stage: worker 0 .pid 1., in F: {type(error).__name__}: "):
            raise_described(described(error))

    @pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), StopIteration(3)])
    def test_what_would_end_this_process_quietly_does_not(self, error):
        """`sys.exit(0)` in a worker is an error here."""
        with pytest.raises(RuntimeError, match=type(error).__name__):
            raise_described(described(error))

    def test_the_end_of_data_stays_what_it_is(self):
        """It is no error."""
        with pytest.raises(DataFlowTerminated):
            raise_described(described(DataFlowTerminated()))

    def test_the_cause_is_the_traceback_there(self):
        """With the file and the line."""
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
            (-9, r"was killed by SIGKILL; its datapoints are lost. Killed workers are often out of memory"),
            (-250, "was killed by signal 250"),
            (None, "closed its channel"),
        ],
    )
    def test_it_says_how(self, exitcode, text):
        """Exit code, or the name of the signal."""
        error = died("Stage", "in F", 1, 42, exitcode)
        assert isinstance(error, WorkerDied)
        with pytest.raises(RuntimeError, match=rf"Stage: worker 1 \(pid 42\), in F, {text}"):
            raise error

"""Calls of users' functions with a time limit."""

from __future__ import annotations

import threading

import pytest

from tensorpack_lite.utils.inspection import call_within


class TestCallWithin:
    def test_result(self):
        """The result of the function is returned."""
        assert 3 == call_within(60, lambda: 3)

    def test_error(self):
        """A function that raises an error has no result."""
        assert None is call_within(60, lambda: 1 / 0)

    @pytest.mark.slow
    def test_a_function_that_blocks(self):
        """A function that blocks has no result. It continues in a daemon thread."""
        may_end = threading.Event()
        try:
            assert None is call_within(0, may_end.wait)
        finally:
            may_end.set()

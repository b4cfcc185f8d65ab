"""What the tests of callbacks share."""

from __future__ import annotations

import logging

import pytest


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines = []

    def emit(self, record) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def log_lines():
    """The messages that the library logs during the test."""
    handler = _Lines()
    logging.getLogger("tensorpack_lite").addHandler(handler)
    yield handler.lines
    logging.getLogger("tensorpack_lite").removeHandler(handler)

"""Fixtures of the trainers' tests."""

from __future__ import annotations

import logging

import pytest
from fakes.quadratic import QuadraticTrainer


@pytest.fixture
def trainer():
    return QuadraticTrainer()


@pytest.fixture
def run():
    """Train quietly: no default callbacks or monitors unless given."""

    def run(trainer, *callbacks, **kwargs):
        kwargs = {"steps_per_epoch": 2, "max_epoch": 2, "extra_callbacks": [], "monitors": [], **kwargs}
        trainer.train_with_defaults(callbacks=list(callbacks), **kwargs)
        return trainer

    return run


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

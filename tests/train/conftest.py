"""Fixtures for the tests of trainers."""

from __future__ import annotations

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

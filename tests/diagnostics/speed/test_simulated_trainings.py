"""Tests of verdicts on simulated training runs whose threads wait for a core, as on a busy machine."""

from __future__ import annotations

import pytest
from fakes.simulated_training import SimulatedTraining


@pytest.mark.parametrize("is_staged", [True, False])
def test_slow_data_on_full_cores(is_staged, monkeypatch):
    """If data is slow, no verdict says that the graph limits, however late threads get a core."""
    said = []
    for seed in range(60):
        training = SimulatedTraining(monkeypatch, seed, is_staged=is_staged, after=3.0)
        said += [limit for limit, _ in training.train()]
    assert ["cores"] * 60 == said


@pytest.mark.slow
def test_slow_data_does_not_count_as_slow_callbacks(monkeypatch):
    """If data is slow, the first window tells it, also if callbacks take long: no second window measures these."""
    for seed in range(100):
        training = SimulatedTraining(monkeypatch, seed, graph=60, data=120, late=60, outside=15)
        ((limit, seconds),) = training.train()
        assert "cores" == limit
        assert seconds < 55


@pytest.mark.parametrize("steps", [1, 7, 50])
def test_epochs_of_any_length(steps, monkeypatch):
    """A verdict comes after the given seconds of steps, however many of them an epoch has."""
    ((_, seconds),) = SimulatedTraining(monkeypatch, 0, after=3.0).train(steps=steps)
    assert 3 <= seconds < 6

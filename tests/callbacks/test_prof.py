"""Callbacks that measure the machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import prof
from tensorpack_lite.callbacks.prof import HostMemoryTracker, ThroughputTracker
from tensorpack_lite.callbacks.trigger import PeriodicTrigger


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes one second further each time it is read."""
    seconds = iter(range(1000))
    monkeypatch.setattr(prof, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))


class TestThroughputTracker:
    @pytest.mark.parametrize(
        ("samples", "name", "value"),
        [(None, "Throughput (steps/sec)", 5.0), (64, "Throughput (samples/sec)", 320.0)],
    )
    def test_each_epoch(self, clock, samples, name, value):
        """Five steps in the second between the epoch's two ends; the time of triggers does not count."""
        trainer = run(CountingTrainer(), [ThroughputTracker(samples)], steps=5, epochs=2)

        assert [(5, value), (10, value)] == trainer.monitors.get_history(name)

    def test_a_trigger_inside_an_epoch(self, clock):
        """Each trigger counts from the one before it."""
        trainer = run(
            CountingTrainer(), [PeriodicTrigger(ThroughputTracker(), every_k_steps=2)], steps=6, epochs=1
        )
        assert [(2, 2.0), (4, 2.0), (6, 2.0)] == trainer.monitors.get_history("Throughput (steps/sec)")

    def test_over_several_epochs(self, clock):
        """Two epochs without a trigger between them add up."""
        trainer = run(
            CountingTrainer(), [PeriodicTrigger(ThroughputTracker(), every_k_epochs=2)], steps=3, epochs=2
        )
        assert [(6, 3.0)] == trainer.monitors.get_history("Throughput (steps/sec)")

    def test_samples_are_positive(self):
        """0 samples are refused."""
        with pytest.raises(ValueError, match="ThroughputTracker: samples_per_step is 0"):
            ThroughputTracker(0)


def test_host_memory(monkeypatch):
    """What is free, in GB, at each trigger."""
    monkeypatch.setattr(
        prof, "psutil", SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=3 * 2**29))
    )
    trainer = run(CountingTrainer(), [HostMemoryTracker()])

    assert [(2, 1.5), (4, 1.5)] == trainer.monitors.get_history("HostFreeMemory (GB)")

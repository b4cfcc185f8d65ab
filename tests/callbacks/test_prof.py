"""ThroughputTracker, the memory and GPU trackers, and GraphProfiler."""

from __future__ import annotations

import json
import os
import threading
from types import SimpleNamespace

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import prof
from tensorpack_lite.callbacks.graph import ProcessTensors
from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.callbacks.prof import (
    GPUMemoryTracker,
    GPUUtilizationTracker,
    GraphProfiler,
    HostMemoryTracker,
    ThroughputTracker,
)
from tensorpack_lite.callbacks.trigger import PeriodicCallback, PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.utils.gpu import get_num_gpu
from tensorpack_lite.utils.nvml import NvmlException


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
        """The epoch has five steps in one second; the time of triggers does not count."""
        trainer = run(CountingTrainer(), [ThroughputTracker(samples)], steps=5, epochs=2)

        assert [(5, value), (10, value)] == trainer.monitors.get_history(name)

    def test_a_trigger_inside_an_epoch(self, clock):
        """A trigger within an epoch measures from the previous trigger."""
        trainer = run(CountingTrainer(), [PeriodicTrigger(ThroughputTracker(), every_k_steps=2)], steps=6, epochs=1)
        assert [(2, 2.0), (4, 2.0), (6, 2.0)] == trainer.monitors.get_history("Throughput (steps/sec)")

    def test_over_several_epochs(self, clock):
        """Two epochs without a trigger between them are measured together."""
        trainer = run(CountingTrainer(), [PeriodicTrigger(ThroughputTracker(), every_k_epochs=2)], steps=3, epochs=2)
        assert [(6, 3.0)] == trainer.monitors.get_history("Throughput (steps/sec)")


def test_host_memory(monkeypatch):
    """The free memory is reported in GB at each trigger."""
    monkeypatch.setattr(prof, "psutil", SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=3 * 2**29)))
    trainer = run(CountingTrainer(), [HostMemoryTracker()])

    assert [(2, 1.5), (4, 1.5)] == trainer.monitors.get_history("HostFreeMemory (GB)")


class FakeNVML:
    """Two GPUs; each query returns the next percentage of the list."""

    def __init__(self, percents) -> None:
        self._percents = iter(percents)
        self.asked = threading.Semaphore(0)
        self.error = None

    def __call__(self):
        return self

    def __enter__(self):
        if self.error is not None:
            raise self.error
        return self

    def __exit__(self, *exc_info) -> None:
        pass

    def device(self, number):
        if number > 1:
            raise ValueError(f"NVMLContext: device must be in [0, 2), got {number}.")
        return SimpleNamespace(utilization=self._utilization)

    def _utilization(self):
        percent = next(self._percents)
        self.asked.release()
        if isinstance(percent, Exception):
            raise percent
        return {"gpu": percent, "memory": 0}


@pytest.fixture
def gpus(monkeypatch):
    """Sets up two GPUs that answer with these percents."""

    def make(percents=(), visible="0"):
        nvml = FakeNVML(percents)
        monkeypatch.setattr(prof, "NVMLContext", nvml)
        monkeypatch.setattr(prof, "get_num_gpu", lambda: len([v for v in visible.split(",") if v]))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return nvml

    return make


class WaitForSamples(Callback):
    """Delays the step until the sampling thread has made this many queries."""

    def __init__(self, nvml, num) -> None:
        self._nvml, self._num = nvml, num

    def _trigger_step(self) -> None:
        for _ in range(self._num):
            assert self._nvml.asked.acquire(timeout=10)


class TestGPUUtilizationTracker:
    def test_a_short_epoch(self, gpus):
        """A short epoch has one sample, taken at its end, for each visible GPU."""
        gpus([10, 20, 30, 40], visible="1,0")
        trainer = run(CountingTrainer(), [GPUUtilizationTracker()])

        assert [(2, 10.0), (4, 30.0)] == trainer.monitors.get_history("GPUUtil/1")
        assert [(2, 20.0), (4, 40.0)] == trainer.monitors.get_history("GPUUtil/0")

    def test_the_mean(self, gpus, monkeypatch):
        """The mean includes the samples during the epoch and the one at its end."""
        monkeypatch.setattr(prof, "_SAMPLE_SECONDS", 0.01)
        percents = [10, 20, 30] + [20] * 1000
        nvml = gpus(percents)
        trainer = run(CountingTrainer(), [GPUUtilizationTracker([0]), WaitForSamples(nvml, 3)], steps=1, epochs=1)
        assert [(1, 20.0)] == trainer.monitors.get_history("GPUUtil/0")

    def test_all_gpus_of_the_machine(self, gpus, monkeypatch):
        """Without CUDA_VISIBLE_DEVICES, all GPUs of the machine are sampled."""
        gpus([10, 20], visible="0,1")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        trainer = run(CountingTrainer(), [GPUUtilizationTracker()], epochs=1)

        assert [10.0, 20.0] == [trainer.monitors.get_latest(f"GPUUtil/{k}") for k in range(2)]

    def test_one_of_several_local_ranks(self, gpus):
        """A local rank samples the GPU that it trains on."""
        gpus([10, 20], visible="1,0")
        trainer = CountingTrainer()
        trainer.local_rank, trainer.local_size = 1, 2
        assert [] != run(trainer, [GPUUtilizationTracker()], epochs=1).monitors.get_history("GPUUtil/0")
        assert [] == trainer.monitors.get_history("GPUUtil/1")

    def test_a_trigger_before_any_sample(self, gpus):
        """A trigger before the first sample reports nothing."""
        gpus([10])
        tracker = PeriodicTrigger(GPUUtilizationTracker(), every_k_steps=1)

        assert [] == run(CountingTrainer(), [tracker], epochs=1).monitors.get_history("GPUUtil/0")

    def test_without_a_gpu(self, gpus):
        """On a machine without a GPU, before_train raises RuntimeError."""
        gpus(visible="")
        with pytest.raises(RuntimeError, match="the machine has no GPU. Remove this callback."):
            run(CountingTrainer(), [GPUUtilizationTracker()])

    def test_pretended_gpus(self, monkeypatch, log_lines):
        """With `--pretend-gpu`, neither tracker reports anything, and each says so once."""
        monkeypatch.setenv("TENSORPACK_LITE_PRETEND_GPU", "2")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.setattr(prof.tf.test, "is_built_with_cuda", lambda: True)  # as --pretend-gpu does
        trainer = run(CountingTrainer(), [GPUUtilizationTracker(), GPUMemoryTracker([0, 1])], epochs=2)

        assert not [name for name in trainer.monitors.scalar_names if "gpu" in name.lower()]
        assert 2 == len([line for line in log_lines if "so nothing is reported" in line])

    def test_without_a_driver(self, gpus):
        """Without a driver, the RuntimeError contains NVML's reason."""
        gpus().error = NvmlException("NVML: cannot be loaded.")
        with pytest.raises(RuntimeError, match="cannot query the GPUs: NVML: cannot be loaded. Remove this"):
            run(CountingTrainer(), [GPUUtilizationTracker([0])])

    def test_a_gpu_that_does_not_exist(self, gpus):
        """A GPU number that does not exist raises NVML's ValueError."""
        gpus()
        with pytest.raises(ValueError, match="device must be in"):
            run(CountingTrainer(), [GPUUtilizationTracker([2])])

    def test_gpus_named_otherwise(self, gpus):
        """A UUID in CUDA_VISIBLE_DEVICES raises RuntimeError."""
        gpus(visible="GPU-8932f937")
        with pytest.raises(RuntimeError, match=r"CUDA_VISIBLE_DEVICES is not a list of numbers \(got GPU-8932f937\)"):
            run(CountingTrainer(), [GPUUtilizationTracker()])

    def test_a_driver_that_fails_later(self, gpus):
        """If the driver fails during an epoch, its end raises a RuntimeError with NVML's error as the cause."""
        gpus([10, NvmlException("lost")])
        with pytest.raises(RuntimeError, match="have stopped responding: lost"):
            run(CountingTrainer(), [GPUUtilizationTracker()])

    def test_an_error_inside_an_epoch(self, gpus):
        """The sampling thread stops if a step fails (a leftover thread fails every test)."""

        class Fail(Callback):
            def _trigger_step(self) -> None:
                raise RuntimeError("mine")

        gpus([10] * 10)
        with pytest.raises(RuntimeError, match="mine"):
            run(CountingTrainer(), [GPUUtilizationTracker(), Fail()])


class TestGPUMemoryTracker:
    def test_without_a_gpu(self, log_lines):
        """Without a GPU, a warning is logged and nothing is reported."""
        trainer = run(CountingTrainer(), [GPUMemoryTracker()])

        assert [] == trainer.monitors.get_history("PeakMemory(MB)/gpu:0")
        assert 1 == len([line for line in log_lines if "the session has no GPU, so nothing is reported" in line])

    def test_what_it_reports(self, monkeypatch):
        """Megabytes are reported at each trigger, under TensorFlow's number of the GPU."""
        monkeypatch.setattr(prof, "gpu_available_in_session", lambda: True)
        monkeypatch.setattr(GPUMemoryTracker, "read_peaks", lambda self: [3500000])
        tracker = GPUMemoryTracker([])
        tracker._devices = []
        run(CountingTrainer(), [tracker], epochs=1)
        put = {}
        tracker._devices = [0]
        tracker.trainer = SimpleNamespace(monitors=SimpleNamespace(put_scalar=put.__setitem__))
        tracker.trigger()

        assert {"PeakMemory(MB)/gpu:0": 3.5} == put

    def test_a_gpu_that_does_not_exist(self, monkeypatch):
        """A GPU that the session does not have raises a ValueError that lists the devices."""
        monkeypatch.setattr(prof, "gpu_available_in_session", lambda: True)
        with pytest.raises(ValueError, match="the session has no GPU 7; it has .*cpu:0"):
            run(CountingTrainer(), [GPUMemoryTracker([7])])

    @pytest.mark.gpu
    def test_on_a_gpu(self):
        """A tensor of 4 MB shows in the peak memory."""
        if get_num_gpu() == 0:
            pytest.skip("needs a GPU")
        with tf.device("/gpu:0"):
            tf.get_variable("large", initializer=tf.zeros([1000, 1000]))
        trainer = run(CountingTrainer(), [GPUMemoryTracker()])

        assert trainer.monitors.get_latest("PeakMemory(MB)/gpu:0") >= 4


class Events(MonitorBase):
    """Monitor that keeps the events."""

    def __init__(self) -> None:
        self.events = []

    def process_event(self, evt) -> None:
        self.events.append(evt)


class TestGraphProfiler:
    def test_chrome_trace(self, log_dir):
        """Each run writes one JSON file with the operations and their times."""
        run(CountingTrainer(), [GraphProfiler(), ProcessTensors(["cost"], lambda cost: None)], epochs=1)

        assert ["chrome-trace-1.json", "chrome-trace-2.json"] == sorted(
            f for f in os.listdir(log_dir) if f.startswith(("chrome", "runmeta"))
        )
        with open(os.path.join(log_dir, "chrome-trace-2.json")) as file:
            events = json.load(file)["traceEvents"]
        durations = {e["args"]["name"]: e["dur"] for e in events if e.get("ph") == "X"}
        assert durations["cost"] >= 0

    def test_metadata(self, log_dir):
        """The metadata file can be parsed as a tf.RunMetadata."""
        profiler = GraphProfiler(dump_metadata=True, dump_tracing=False)
        run(CountingTrainer(), [profiler, ProcessTensors(["cost"], lambda cost: None)], epochs=1)

        metadata = tf.RunMetadata()
        with open(os.path.join(log_dir, "runmetadata-2.pb"), "rb") as file:
            metadata.ParseFromString(file.read())
        nodes = [node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats]
        assert "cost" in nodes
        assert not os.path.exists(os.path.join(log_dir, "chrome-trace-2.json"))

    def test_event(self):
        """The monitors receive an event at its step; no logger directory is needed."""
        events = Events()
        profiler = PeriodicCallback(GraphProfiler(dump_tracing=False, dump_event=True), every_k_steps=2)
        run(CountingTrainer(), [profiler], [events], steps=4, epochs=1)

        # a PeriodicCallback asks before the run, when the step that ends a period has not been counted
        found = [(e.step, e.tagged_run_metadata.tag) for e in events.events]
        assert [(1, "trace-1"), (3, "trace-3")] == found
        assert tf.RunMetadata.FromString(events.events[0].tagged_run_metadata.run_metadata).step_stats.dev_stats

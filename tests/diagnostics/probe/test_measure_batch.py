"""The steps of `find-batch` in a training: errors about memory, planted on the CPU, and the peak of a GPU's allocator."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from fakes.gpu_messages import read

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.gpu.errors import GPUErrors
from tensorpack_lite.diagnostics.probe.measure_batch import MeasureBatch


def errors():
    """Yield errors for memory that ran out, as TensorFlow raises them."""
    yield MemoryError("no memory")
    for kind, name in (
        (tf.errors.ResourceExhaustedError, "oom_gpu_1"),
        (tf.errors.ResourceExhaustedError, "oom_gpu_2"),
        (tf.errors.InternalError, "oom_xla"),
        (tf.errors.UnknownError, "oom_gpu_1"),
    ):
        yield kind(None, None, read(name))


def raise_in_training(answer, error):
    """Raise an error in a training with the extensions that see it."""
    trainer = SimpleNamespace(tower_func=None, towers=[])
    with answer.around_training(trainer), GPUErrors().around_training(trainer):
        raise error


@pytest.mark.parametrize("error", list(errors()), ids=lambda error: type(error).__name__)
def test_memory_that_runs_out(tmp_path, monkeypatch, error):
    """An error about memory is a result, whatever its type is, also after it was explained."""
    monkeypatch.setattr("tensorpack_lite.diagnostics.gpu.errors.training_towers", lambda trainer: [])
    answer = MeasureBatch({"results": str(tmp_path / "results.json"), "factor": 2, "num_steps": 1})
    with pytest.raises(SystemExit):
        raise_in_training(answer, error)
    assert {"is_too_large": True} == json.loads((tmp_path / "results.json").read_text())


@pytest.mark.parametrize("name", ["memory_in_use", "cudnn_missing"])
def test_other_errors(tmp_path, name):
    """An error for which the batch is not the reason ends the script."""
    answer = MeasureBatch({"results": str(tmp_path / "results.json"), "factor": 2, "num_steps": 1})
    with pytest.raises(tf.errors.InternalError):
        raise_in_training(answer, tf.errors.InternalError(None, None, read(name)))
    assert not (tmp_path / "results.json").exists()


def measured(kind):
    """Return what is measured before and after the steps of a session with a device of this kind."""
    peaks = iter([100, 300])
    answer = MeasureBatch({"results": "", "factor": 1, "num_steps": 1})
    answer._tracker = SimpleNamespace(read_peaks=lambda: [next(peaks), 7])
    devices = [SimpleNamespace(device_type="CPU"), SimpleNamespace(device_type=kind)]
    answer.after_initialize(SimpleNamespace(sess=SimpleNamespace(list_devices=lambda: devices)))
    return answer._results, answer._peak()


def test_memory():
    """In a session with a GPU, memory is that of its allocator, otherwise that of the process."""
    assert ({"is_on_gpu": True, "memory_before": 100}, 300) == measured("GPU")
    results, peak = measured("XLA_CPU")
    assert not results["is_on_gpu"]
    assert 1_000_000 < results["memory_before"] < 2 * peak  # the system counts the peak with a delay

"""
Laws that hold for every public monitor; `monitor_rows.py` lists the monitors. See test_callback_laws.py for
laws of callbacks.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from conformance.monitor_rows import NO_ROW, ROWS
from fakes.recording import RecordingMonitor
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import monitor
from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.callbacks.monitor.comet import CometMLMonitor
from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter
from tensorpack_lite.callbacks.monitor.event_file import TFEventWriter
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.monitor.mlflow_run import MLflowMonitor
from tensorpack_lite.callbacks.monitor.wandb_run import WandbMonitor
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.summary import create_scalar_summary
from tensorpack_lite.utils import logger

pytestmark = pytest.mark.law

ALL = pytest.mark.parametrize("row", ROWS, ids=str)
WITH_HISTORY = pytest.mark.parametrize("row", [row for row in ROWS if row.history], ids=str)


class Put(Callback):
    """Reports `stat`, a function of the step, and the step itself at the end of each epoch."""

    def __init__(self, stat=lambda step: step * 0.5) -> None:
        self._stat = stat

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("stat", self._stat(self.global_step))
        self.trainer.monitors.put_scalar("step", self.global_step)


class PutEverything(Callback):
    """Reports a value of each kind at every moment at which the monitors take some."""

    def _forward(self, moment) -> None:
        if moment in ("setup_graph", "before_run", "after_run"):
            return
        monitors = self.trainer.monitors
        for number in (1, 2.5, np.float32(0.5), np.int64(3), np.array(4.0), True):
            monitors.put_scalar("a/b (c):0", number)
        monitors.put_image("image", np.zeros([4, 3, 3], "uint8"))
        monitors.put_image("images", np.full([2, 4, 3, 1], 300.0))
        monitors.put_text("text", ["one", "two"])
        summary = create_scalar_summary("tower0/cost-summary", 0.25)
        summary.value.add(tag="histogram").histo.num = 3
        monitors.put_summary(summary)
        monitors.put_summary(summary.SerializeToString())
        monitors.put_event(tf.Event())


def test_every_public_monitor_has_a_row():
    """A new public name needs a row, or a reason in NO_ROW."""
    assert sorted(monitor.__all__) == sorted([*(row.name for row in ROWS), *NO_ROW])


@ALL
def test_it_takes_nothing(row, log_dir):
    """A training that reports nothing works."""
    assert 4 == run(CountingTrainer(), [], _monitors(row.make(log_dir))).global_step


@WITH_HISTORY
def test_what_it_writes(row, log_dir):
    """Each number is written once, with its step."""
    made = row.make(log_dir)
    run(CountingTrainer(), [Put()], [made], steps=3)
    history = row.history(log_dir, made)
    assert [(3, 1.5), (6, 3.0)] == history["stat"]
    assert [(3, 3.0), (6, 6.0)] == history.get("step", [(3, 3.0), (6, 6.0)])


@WITH_HISTORY
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_none(row, log_dir, value):
    """NaN and infinity are written as they are."""
    made = row.make(log_dir)
    run(CountingTrainer(), [Put(lambda step: value)], [made], epochs=1)
    ((step, written),) = row.history(log_dir, made)["stat"]
    assert 2 == step
    np.testing.assert_equal(written, value)


@ALL
def test_it_takes_everything_at_any_time(row, log_dir):
    """A monitor accepts values of every kind at any time of a training, and does not change what later monitors receive."""
    before, after = RecordingMonitor(), RecordingMonitor()
    monitors = [before, *_monitors(row.make(log_dir)), after]
    assert 4 == run(CountingTrainer(), [PutEverything()], monitors).global_step

    assert before.scalars == after.scalars
    assert before.summaries == after.summaries
    assert before.events == after.events
    for (name, one), (other_name, other) in zip(before.images, after.images):
        assert name == other_name
        np.testing.assert_array_equal(one, other)


@ALL
def test_a_training_that_fails_at_once(row, log_dir):
    """If training fails in before_train, the monitor raises no second error."""

    class Fail(Callback):
        def _before_train(self) -> None:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run(CountingTrainer(), [Fail()], _monitors(row.make(log_dir)))


def _monitors(made) -> list:
    """Return the monitors to train with; for a `Monitors`, its members."""
    return [made] if isinstance(made, MonitorBase) else list(made._monitors)


@pytest.mark.parametrize("kind", [JSONWriter, CSVWriter, TFEventWriter])
def test_without_a_directory(kind, log_lines):
    """Without a directory of the logger, one warning is logged, nothing is written, and training works."""
    monitor = kind()
    put = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar("n", self.epoch_num))
    assert 4 == run(CountingTrainer(), [put], [monitor]).global_step
    assert logger.get_logger_dir() is None
    assert 1 == len([line for line in log_lines if line.startswith(f"{kind.__name__}: no logger directory")])


@pytest.mark.parametrize(
    ("kind", "package", "told"),
    [
        (CometMLMonitor, "comet_ml", "pip install comet_ml"),
        (MLflowMonitor, "mlflow", r'pip install "tensorpack_lite\[mlflow\]"'),
        (WandbMonitor, "wandb", r'pip install "tensorpack_lite\[wandb\]"'),
    ],
)
def test_without_the_package(kind, package, told, monkeypatch):
    """Without its package, the ImportError shows the command that installs it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{kind.__name__}: needs .*, which is not installed. Run: {told}"):
        kind()

"""One row for each public monitor: how to create it, and how to read back what it was sent."""

from __future__ import annotations

import csv
import glob
import json
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Tuple
from unittest import mock

from fakes.mlflow import FakeMlflow
from fakes.recording import RecordingMonitor

from tensorpack_lite.callbacks import monitor
from tensorpack_lite.compat import tfv1 as tf

__all__ = ["NO_ROW", "ROWS", "Row"]

History = Dict[str, List[Tuple[int, float]]]


class Row(NamedTuple):
    """
    A kind of monitor.

    `make` takes a directory. `history` takes it and the monitor, after training, and gives `(step, value)` of each scalar
    that was written, by name; None for one that writes no history of scalars.
    """

    name: str
    make: Callable[[str], Any]
    history: Any = None

    def __str__(self) -> str:
        return self.name


def _json(directory: str, _: Any) -> History:
    with open(os.path.join(directory, "stats.json"), encoding="utf-8") as file:
        elements = json.load(file)
    return _by_name((element["global_step"], name, element[name]) for element in elements for name in element)


def _csv(directory: str, _: Any) -> History:
    (path,) = glob.glob(os.path.join(directory, "*.csv"))
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return _by_name(
        (int(float(row["global_step"])), name, float(row[name])) for row in rows for name in row if row[name]
    )


def _events(directory: str, _: Any) -> History:
    found = []
    for path in sorted(glob.glob(os.path.join(directory, "events.out.tfevents.*"))):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found.append((event.step, value.tag, value.simple_value))
    return _by_name(found)


def _comet(_: str, made: Any) -> History:
    calls = made.experiment.log_metric.call_args_list
    return _by_name((kwargs["step"], args[0], args[1]) for args, kwargs in calls)


def _wandb(_: str, made: Any) -> History:
    calls = made.run.log.call_args_list
    return _by_name((kwargs["step"], name, args[0][name]) for args, kwargs in calls for name in args[0])


def _mlflow(_: str, made: Any) -> History:
    batches = [call[2] for call in made._mlflow.calls if call[0] == "metrics"]
    return _by_name((step, name, value) for batch in batches for name, value, step in batch)


def _commands(directory: str, _: Any) -> History:
    with open(os.path.join(directory, "sent"), encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return _by_name((int(float(step)), "stat", float(value)) for step, value in lines)


def _recorded(_: str, made: Any) -> History:
    return _by_name((step, name, value) for step, name, value in made.rows)


def _by_name(entries: Any) -> History:
    found: History = {}
    for step, name, value in entries:
        found.setdefault(name, []).append((int(step), float(value)))
    return found


def _with_module(name: str, module: Any, make: Callable[[], Any]) -> Any:
    """Make a monitor that imports a package, where that is not installed or must not be used."""
    with mock.patch.dict(sys.modules, {name: module}):
        return make()


class _Rows(monitor.RowMonitor):
    """A RowMonitor as a user writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list = []

    def _write_row(self, row: dict) -> None:
        self.rows += [(self.global_step, name, value) for name, value in row.items()]


ROWS = [
    Row("CSVWriter", lambda d: monitor.CSVWriter(), _csv),
    Row("CometMLMonitor", lambda d: monitor.CometMLMonitor(mock.Mock()), _comet),
    Row("JSONWriter", lambda d: monitor.JSONWriter(), _json),
    Row("MLflowMonitor", lambda d: _with_module("mlflow", FakeMlflow(), monitor.MLflowMonitor), _mlflow),
    Row("MonitorBase", lambda d: RecordingMonitor()),
    Row("Monitors", lambda d: monitor.Monitors([RecordingMonitor()])),
    Row("NoOpMonitor", lambda d: monitor.NoOpMonitor("nothing")),
    Row("RowMonitor", lambda d: _Rows(), _recorded),
    Row("ScalarPrinter", lambda d: monitor.ScalarPrinter(enable_step=True)),
    Row("ScalarTable", lambda d: monitor.ScalarTable()),
    Row(
        "SendMonitorData",
        lambda d: monitor.SendMonitorData(f"echo {{step}} {{stat}} >> {d}/sent", ["step", "stat"], strict=False),
        _commands,
    ),
    Row("TFEventWriter", lambda d: monitor.TFEventWriter(d), _events),
    Row(
        "WandbMonitor",
        lambda d: _with_module("wandb", mock.Mock(), lambda: monitor.WandbMonitor(run=mock.Mock())),
        _wandb,
    ),
]

NO_ROW: Dict[str, str] = {"RowFile": "a base class; JSONWriter and CSVWriter have rows"}
"""Public names of `callbacks.monitor` without a row, and why."""

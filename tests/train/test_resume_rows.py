"""Rows of statistics files after a resume: each value stays at the epoch and step at which it was measured."""

from __future__ import annotations

import csv
import json
import os
import re

import pytest
from fakes.trainers import CountingTrainer, Killed, ScalingTrainer, run_resumed

from tensorpack_lite.callbacks.misc import EstimatedTimeLeft
from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter
from tensorpack_lite.callbacks.monitor.event_file import TFEventWriter
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.monitor.rows import RowMonitor
from tensorpack_lite.callbacks.monitor.table import ScalarTable
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback


class Measure(Callback):
    """Reports the step as a scalar: after each epoch and, by option, after each step."""

    def __init__(self, after_steps=False):
        self._after_steps = after_steps

    def _before_train(self):
        self.trainer.monitors.put_scalar("start", self.global_step)

    def _trigger_step(self):
        if self._after_steps:
            self.trainer.monitors.put_scalar("step", self.global_step)

    def _trigger_epoch(self):
        self.trainer.monitors.put_scalar("end", self.global_step)


class KillAt(Callback):
    """Ends the training after a step, or in the callbacks of an epoch."""

    def __init__(self, step=None, epoch=None):
        self._step, self._epoch = step, epoch

    def _trigger_step(self):
        if self.global_step == self._step:
            raise Killed

    def _trigger_epoch(self):
        if self.epoch_num == self._epoch:
            raise Killed


class Rows(RowMonitor):
    """A user's monitor of rows; the list is shared by training runs."""

    def __init__(self, rows):
        super().__init__()
        self._all = rows

    def _write_row(self, row):
        self._all.append((self.epoch_num, self.global_step, row))


class Titles(MonitorBase):
    """Notes the epochs for which it is triggered, with the value that it has then."""

    def __init__(self, seen):
        self._value, self._seen = None, seen

    def process_scalar(self, name, val):
        if name == "end":
            self._value = val

    def _trigger_epoch(self):
        self._seen.append((self.epoch_num, self._value))

    def state_dict(self):
        return {"value": self._value}

    def load_state_dict(self, state):
        self._value = state["value"]


def train(callbacks, steps=3, epochs=3, make=CountingTrainer, monitors=()):
    with tf.Graph().as_default():
        run_resumed(make(), callbacks, [JSONWriter(), CSVWriter(), *monitors], steps, epochs)


def rows(log_dir):
    """Return (epoch, step, value of `step`, value of `end`) of each row, after checking that both files agree."""
    with open(os.path.join(log_dir, "stats.json")) as file:
        found = [(row["epoch_num"], row["global_step"], row.get("step"), row.get("end")) for row in json.load(file)]
    with open(os.path.join(log_dir, "stats.csv"), newline="") as file:
        names = ("epoch_num", "global_step", "step", "end")
        in_csv = [tuple(row.get(name) or None for name in names) for row in csv.DictReader(file)]
    assert [tuple(None if value is None else float(value) for value in row) for row in found] == [
        tuple(None if value is None else float(value) for value in row) for row in in_csv
    ]
    return found


CHANGES = {
    "another callback": lambda: ([Measure(), ModelSaver(), EstimatedTimeLeft()], {}),
    "another order": lambda: ([ModelSaver(), Measure(), EstimatedTimeLeft()], {}),
    "another trainer": lambda: ([Measure(), ModelSaver(), EstimatedTimeLeft()], {"make": ScalingTrainer}),
}


class TestAtTheEndOfAnEpoch:
    @pytest.mark.parametrize("change", CHANGES)
    def test_the_list_has_changed(self, log_dir, change):
        """Values that waited for their row when the checkpoint was saved get their own row, also if the callbacks changed."""
        train([Measure(), ModelSaver(), KillAt(epoch=2)])
        callbacks, options = CHANGES[change]()
        train(callbacks, **options)
        assert [(1, 3, None, 3), (2, 6, None, 6), (3, 9, None, 9)] == [
            row for row in rows(log_dir) if row[3] is not None
        ]

    def test_another_steps_per_epoch(self, log_dir):
        """With other epochs, values that waited for their row keep the epoch in which they were measured."""
        train([Measure(), ModelSaver(), KillAt(epoch=2)])
        train([Measure(), ModelSaver()], steps=4)
        assert [(1, 3, None, 3), (2, 6, None, 6), (2, 8, None, 8), (3, 12, None, 12)] == [
            row for row in rows(log_dir) if row[3] is not None
        ]

    def test_monitors_of_the_user(self, log_dir):
        """Monitors of the user write the row of that epoch, too."""
        written, seen = [], []
        monitors = lambda: [Rows(written), Titles(seen)]  # noqa: E731
        train([Measure(), ModelSaver(), KillAt(epoch=2)], monitors=monitors())
        train([Measure(), EstimatedTimeLeft(), ModelSaver()], monitors=monitors())
        assert [(1, 3), (2, 6), (3, 9)] == seen
        assert [(1, 3, 3), (2, 6, 6), (3, 9, 9)] == [
            (epoch, step, row["end"]) for epoch, step, row in written if "end" in row
        ]

    def test_the_table(self, log_dir, log_lines):
        """The table in the log that waited for its epoch has the number of this epoch."""
        train([Measure(), ModelSaver(), KillAt(epoch=2)], monitors=[ScalarTable()])
        del log_lines[:]
        train([Measure(), EstimatedTimeLeft(), ModelSaver()], monitors=[ScalarTable()])
        found = [re.match(r"(Epoch \d+)( \(\*: best so far\))?: ", line) for line in log_lines]
        assert ["Epoch 2", "Epoch 3"] == [one.group(1) for one in found if one]


class TestInsideAnEpoch:
    def test_the_list_has_changed(self, log_dir):
        """A value of the step of the checkpoint gets the row of this step."""
        saver = lambda: PeriodicTrigger(ModelSaver(), every_k_steps=4)  # noqa: E731
        train([Measure(True), saver(), KillAt(step=5)])
        train([Measure(True), EstimatedTimeLeft(), saver()])
        steps = [1, 2, 3, 4, 5, 6, 7, 8, 9]
        assert steps == [row[1] for row in rows(log_dir) if row[2] is not None]
        assert steps == [row[2] for row in rows(log_dir) if row[2] is not None]

    def test_at_the_last_step(self, log_dir):
        """A value of the last step still shares a row with those of its epoch."""
        saver = lambda: PeriodicTrigger(ModelSaver(), every_k_steps=6)  # noqa: E731
        train([Measure(True), saver(), KillAt(step=6)])
        train([Measure(True), EstimatedTimeLeft(), saver()])
        assert [(2, 5, 5, None), (2, 6, 6, 6), (3, 7, 7, None)] == [row for row in rows(log_dir) if row[1] in (5, 6, 7)]


class TestEventFiles:
    def events(self, log_dir):
        """Return (step, value) of the scalar `end` in all event files, as TensorBoard reads them."""
        found = []
        for name in sorted(os.listdir(log_dir)):
            if not name.startswith("events."):
                continue
            for event in tf.train.summary_iterator(os.path.join(log_dir, name)):
                if event.session_log.status == tf.SessionLog.START:
                    found = [one for one in found if one[0] < event.step]
                values = [one for one in event.summary.value if one.tag == "end"]
                found += [(event.step, one.simple_value) for one in values]
        return found

    def test_events_before_the_checkpoint(self, log_dir):
        """Events that were reported before a checkpoint are on the disk with it, because a resumed training does not report them again."""
        at_the_kill = []

        class Look(Callback):
            def _trigger_epoch(inner):
                at_the_kill.append(self.events(log_dir))

        train([Measure(), ModelSaver(), Look()], monitors=[TFEventWriter(max_queue=1000)])
        assert [[(3, 3.0)], [(3, 3.0), (6, 6.0)], [(3, 3.0), (6, 6.0), (9, 9.0)]] == at_the_kill

    def test_the_list_has_changed(self, log_dir):
        """Events keep their steps."""
        train([Measure(), ModelSaver(), KillAt(epoch=2)], monitors=[TFEventWriter()])
        other_names = TFEventWriter(split_files=True)  # both training runs may start in the same second
        train([Measure(), EstimatedTimeLeft(), ModelSaver()], monitors=[other_names])
        assert [(3, 3.0), (6, 6.0), (9, 9.0)] == self.events(log_dir)

    def test_no_values_of_before_training(self, log_dir):
        """A resumed training writes no values of before training, which an uninterrupted one has only at its first step."""
        train([Measure(), ModelSaver(), KillAt(epoch=2)], monitors=[TFEventWriter()])
        train([Measure(), ModelSaver()], monitors=[TFEventWriter(split_files=True)])
        starts = [
            event.step
            for name in sorted(os.listdir(log_dir))
            if name.startswith("events.")
            for event in tf.train.summary_iterator(os.path.join(log_dir, name))
            if any(one.tag == "start" for one in event.summary.value)
        ]
        assert [0] == starts

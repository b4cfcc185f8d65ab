"""HyperParamSetterWithFunc, HumanHyperParamSetter, and their base class."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.param.setter import (
    HumanHyperParamSetter,
    HyperParamSetter,
    HyperParamSetterWithFunc,
)
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.utils import logger, schedules


@pytest.fixture
def thing():
    """An object with a rate of 1.0."""
    return SimpleNamespace(rate=1.0)


@pytest.fixture
def rate(thing):
    """Its rate, as a parameter."""
    return ObjAttrParam(thing, "rate")


class Reader(Callback):
    """Reads a variable in each step."""

    def __init__(self, variable) -> None:
        self.variable, self.seen = variable, []

    def _before_run(self, ctx):
        return tf.train.SessionRunArgs(self.variable)

    def _after_run(self, ctx, run_values) -> None:
        self.seen.append(float(run_values.results))


class TestHyperParamSetterWithFunc:
    def test_epochs_and_values(self, thing, rate):
        """The function is called with the epoch and the current value, before training and after each epoch."""
        asked = []

        def double(epoch, value):
            asked.append((epoch, value))
            return value * 2

        run(CountingTrainer(), [HyperParamSetterWithFunc(rate, double)], epochs=2)

        assert [(0, 1.0), (1, 2.0), (2, 4.0)] == asked
        assert 8.0 == thing.rate

    def test_before_the_first_of_later_epochs(self, rate):
        """A training that starts with epoch 5 first calls the function with 4."""
        asked = []
        setter = HyperParamSetterWithFunc(rate, lambda epoch, value: asked.append(epoch))
        run(CountingTrainer(), [setter], epochs=5, starting_epoch=5)

        assert [4, 5] == asked

    def test_none_leaves_it(self, thing, rate):
        """A result of None keeps the value."""
        run(CountingTrainer(), [HyperParamSetterWithFunc(rate, lambda epoch, value: None)])

        assert 1.0 == thing.rate

    def test_a_variable_by_name(self):
        """A string names a variable of the graph, whose new value the next epoch's steps see."""
        lr = tf.get_variable("lr", initializer=0.0, use_resource=True)
        trainer = CountingTrainer()
        trainer.train_op = tf.group(trainer.train_op, tf.assert_equal(lr, 7.0))
        run(trainer, [HyperParamSetterWithFunc("lr", lambda epoch, value: 7.0)])

        assert 4 == trainer.global_step

    def test_after_each_step(self, thing, rate):
        """With step_based, the function is called with global_step, before training and after each step."""
        asked = []

        def double(step, value):
            asked.append((step, value))
            return value * 2

        setter = HyperParamSetterWithFunc(rate, double, step_based=True)
        trainer = run(CountingTrainer(), [setter], steps=2, epochs=2)

        assert [(0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0), (4, 16.0)] == asked
        assert [(2, 8.0), (4, 32.0)] == trainer.monitors.get_history("rate")

    @pytest.mark.parametrize("step_based", [False, True])
    def test_steps_see_the_schedule(self, step_based):
        """Step k of a training uses the value at the point k, counted from 0; an epoch that of the epochs done."""
        lr = tf.get_variable("lr", initializer=0.0, use_resource=True)
        schedule = schedules.cosine(1.0, 6, end=0.1)
        setter, read = HyperParamSetterWithFunc("lr", schedule, step_based=step_based), Reader(lr)
        run(CountingTrainer(), [setter, read], steps=2, epochs=3)

        points = range(6) if step_based else [0, 0, 1, 1, 2, 2]
        np.testing.assert_allclose(read.seen, [schedule(point) for point in points], rtol=1e-6)


class TestHyperParamSetter:
    def test_a_change_is_logged_once_an_epoch(self, rate, log_lines):
        """Two changes within an epoch are logged as one line with rounded numbers, no change as none."""

        class Setter(HyperParamSetter):
            values = iter([2.0, 2.0, 0.0025000000000000014, 4.0])

            def _get_value_to_set(self):
                return next(self.values)

            def _trigger_step(self) -> None:
                self.trigger()

            def _trigger_epoch(self) -> None:
                pass

        run(CountingTrainer(), [Setter(rate)], steps=3, epochs=1)

        assert [
            "Setter: at global_step=0, rate changes to 2.0.",
            "Setter: at global_step=2, rate changes from 2.0 to 0.0025.",
        ] == [line for line in log_lines if line.startswith("Setter:")]


class TestReports:
    @pytest.fixture
    def history(self, rate):
        """Train three epochs with a setter, after these callbacks; return what was reported."""

        def train(*callbacks, **arguments):
            setter = ScheduledHyperParamSetter(rate, [(1, 0.5), (2, 0.25)], **arguments)
            return run(CountingTrainer(), [*callbacks, setter], epochs=3).monitors.get_history("rate")

        return train

    def test_each_epoch_reports_the_value_that_it_used(self, history):
        """The value is reported under its readable name before the next one is set."""
        assert [(2, 1.0), (4, 0.5), (6, 0.25)] == history()

    def test_steps_report_once_an_epoch(self, history):
        """With step_based, the value is set at steps and reported at the end of each epoch."""
        assert [(2, 0.25), (4, 0.25), (6, 0.25)] == history(step_based=True)

    def test_what_a_summary_has_reported_is_not_reported_again(self, history):
        """A script that makes a summary of its learning rate has one value per step in its event file."""
        assert [(2, 1.0), (4, 0.5), (6, 0.25)] == history(PutValues("rate", [1.0, 0.5, 0.25]))

    def test_two_setters_of_one_parameter(self, rate, history):
        """Only the first setter reports; the second one would report the value that the first has set for the next epoch."""
        first = ScheduledHyperParamSetter(rate, [(1, 0.5), (2, 0.25)])
        assert [(2, 1.0), (4, 0.5), (6, 0.25)] == history(first)

    def test_what_is_not_a_number_is_not_reported(self):
        """An attribute that holds a string is set, and not reported."""
        param = ObjAttrParam(SimpleNamespace(mode="a"), "mode")
        trainer = run(CountingTrainer(), [HyperParamSetterWithFunc(param, lambda epoch, value: value + "b")])

        assert [] == trainer.monitors.get_history("mode")


class TestHumanHyperParamSetter:
    def train(self, log_dir, rate, text=None):
        """Train one epoch with this text in the file."""
        if text is not None:
            with open(os.path.join(log_dir, "hyper.txt"), "w", encoding="utf-8") as file:
                file.write(text)
        run(CountingTrainer(), [HumanHyperParamSetter(rate)], epochs=1)

    @pytest.mark.parametrize(
        "text", ["rate:0.25", "other:3\nrate: 0.25\n\n", "\ufeffrate:0.25", "other = 3\na:b:c\nrate:0.25"]
    )
    def test_a_value(self, log_dir, thing, rate, text):
        """The value is read from the line with the parameter's name, whatever other lines are, and after a byte-order mark."""
        self.train(log_dir, rate, text)

        assert 0.25 == thing.rate

    def test_made_before_the_directory_is_set(self, log_dir, thing, rate, tmp_path):
        """The file in the directory of this training counts, not the one in the directory when the callback was made."""
        setter = HumanHyperParamSetter(rate)
        logger.set_logger_dir(str(tmp_path / "own"))
        (tmp_path / "own" / "hyper.txt").write_text("rate:0.25")
        run(CountingTrainer(), [setter], epochs=1)

        assert 0.25 == thing.rate

    def test_no_file(self, log_dir, thing, rate, log_lines):
        """Without the file, nothing is set or logged."""
        self.train(log_dir, rate)

        assert 1.0 == thing.rate
        assert not [line for line in log_lines if "HumanHyperParamSetter" in line]

    @pytest.mark.parametrize("text", ["rate:abc", "other:3", "rate", "a:b:c"])
    def test_what_cannot_be_read(self, log_dir, thing, rate, log_lines, text):
        """A line that is not `name:number`, or a missing name, logs a warning and changes nothing."""
        self.train(log_dir, rate, text)

        assert 1.0 == thing.rate
        assert any("cannot read 'rate' from" in line for line in log_lines)

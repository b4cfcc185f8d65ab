"""ScheduledHyperParamSetter, from any starting epoch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.tfutils.sessinit import DictRestore


class Recorder(ObjAttrParam):
    """A parameter that records `(global_step, value)` at each change."""

    def __init__(self, trainer, initial=1.0) -> None:
        super().__init__(SimpleNamespace(rate=initial), "rate")
        self.trainer, self.changes = trainer, []

    def set_value(self, v) -> None:
        self.changes.append((self.trainer.global_step, v))
        super().set_value(v)


def changes(schedule, epochs, starting_epoch=1, initial=1.0, steps=2, session_init=None, **arguments):
    """Train, and give the changes."""
    trainer = CountingTrainer()
    param = Recorder(trainer, initial)
    setter = ScheduledHyperParamSetter(param, schedule, **arguments)
    run(trainer, [setter], (), steps, epochs, starting_epoch, session_init)
    return param.changes


def warnings_in(log_lines):
    return [line for line in log_lines if "should be" in line]


class TestEpochs:
    def test_after_epoch_e(self):
        """(e, v) takes effect at the end of epoch e, and (0, v) before the first epoch."""
        assert [(0, 0.5), (4, 0.1)] == changes([(0, 0.5), (2, 0.1)], epochs=3)

    def test_a_scheduled_zero_counts(self):
        """A scheduled 0.0 is set."""
        assert [(0, 0.5), (4, 0.0)] == changes([(0, 0.5), (2, 0.0)], epochs=3)

    def test_a_scheduled_zero_counts_at_the_beginning(self):
        """A training that starts after a scheduled 0.0 sets 0.0."""
        assert [(0, 0.0)] == changes([(1, 0.0)], epochs=5, starting_epoch=4)

    def test_any_order(self):
        """The pairs are sorted."""
        assert [(2, 0.3), (4, 0.2)] == changes([(2, 0.2), (1, 0.3)], epochs=3)

    def test_start_after_the_end(self):
        """A training that starts after the last point sets its value at once."""
        assert [(0, 0.5)] == changes([(10, 0.3), (20, 0.4), (30, 0.5)], epochs=90, starting_epoch=90)

    def test_start_after_the_end_without_setting(self, log_lines):
        """With set_at_beginning=False, only a warning is logged."""
        schedule = [(10, 0.3), (20, 0.4), (30, 0.5)]

        assert [] == changes(schedule, epochs=90, starting_epoch=90, set_at_beginning=False)
        assert 1 == len(warnings_in(log_lines))

    def test_a_value_that_differs_warns(self, log_lines):
        """Starting in the middle with another value logs a warning and sets the scheduled value."""
        assert [(0, 0.3)] == changes([(10, 0.3), (20, 0.4)], epochs=20, starting_epoch=20)[:1]
        assert ["ScheduledHyperParamSetter: rate should be 0.3 at epoch 19, but is 1."] == warnings_in(log_lines)

    def test_the_value_it_has_is_fine(self, log_lines):
        """If the value is already right, nothing is set or logged."""
        assert [] == changes([(10, 1.0)], epochs=20, starting_epoch=20)
        assert [] == warnings_in(log_lines)

    def test_float32_rounding_is_fine(self, log_lines):
        """A float32 variable that holds 0.1 counts as equal to 0.1."""
        assert [] == changes([(10, 0.1)], epochs=20, starting_epoch=20, initial=0.10000000149)
        assert [] == warnings_in(log_lines)

    def test_tiny_values_are_told_apart(self):
        """1e-9 and 5e-9 are different values."""
        assert [(0, 1e-9)] == changes([(1, 1e-9)], epochs=5, starting_epoch=5, initial=5e-9)

    def test_before_the_first_point(self, log_lines):
        """Before the first point, nothing is set or logged."""
        assert [] == changes([(10, 0.3)], epochs=2)
        assert [] == warnings_in(log_lines)

    def test_linear(self):
        """Values are interpolated between two points, and nothing is set after the last one."""
        assert [(2, 1.0), (4, 2.0), (6, 3.0)] == changes([(1, 1.0), (3, 3.0)], epochs=5, interp="linear", initial=0)

    def test_linear_from_the_middle(self):
        """A training that starts between two points starts with the interpolated value."""
        found = changes([(0, 0.0), (10, 10.0)], epochs=6, starting_epoch=6, interp="linear", initial=0)
        assert [(0, 5.0), (2, 6.0)] == found


class TestSteps:
    SCHEDULE = [(30, 0.3), (40, 0.4), (50, 0.5)]

    def test_linear_by_steps(self):
        """With steps 30, 40 and 50 as points, the values are first set at step 30, .35 at 35 and .45 at 45."""
        start = DictRestore({"global_step": 20})
        found = dict(
            changes(
                self.SCHEDULE, 5, 1, steps=10, interp="linear", step_based=True, session_init=start,
                set_at_beginning=True,
            )
        )  # fmt: skip

        assert 30 == min(found)
        assert 50 == max(found)
        assert pytest.approx([0.3, 0.35, 0.4, 0.45, 0.5]) == [found[s] for s in (30, 35, 40, 45, 50)]

    def test_steps_without_interpolation(self):
        """Without interpolation, values are set only at the points."""
        assert [(3, 0.3), (5, 0.4)] == changes([(3, 0.3), (5, 0.4)], epochs=4, step_based=True)

    def test_a_resume_far_into_the_schedule(self):
        """The scheduled value at step 1,000,000,000 is found without a loop over the steps."""
        start = DictRestore({"global_step": 10**9})
        assert [(10**9, 0.4)] == changes([(3, 0.3), (5, 0.4)], epochs=1, step_based=True, session_init=start)

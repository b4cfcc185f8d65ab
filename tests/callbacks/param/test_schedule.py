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
    LATE = [(10, 0.3), (20, 0.4), (30, 0.5)]

    @pytest.mark.parametrize(
        ("schedule", "epochs", "arguments", "expected"),
        [
            ([(0, 0.5), (2, 0.1)], 3, {}, [(0, 0.5), (4, 0.1)]),
            ([(0, 0.5), (2, 0.0)], 3, {}, [(0, 0.5), (4, 0.0)]),  # 0 is a value
            ([(1, 0.0)], 5, {"starting_epoch": 4}, [(0, 0.0)]),
            ([(2, 0.2), (1, 0.3)], 3, {}, [(2, 0.3), (4, 0.2)]),  # any order
            (LATE, 90, {"starting_epoch": 90}, [(0, 0.5)]),
            ([(1, 1e-9)], 5, {"starting_epoch": 5, "initial": 5e-9}, [(0, 1e-9)]),  # tiny values differ
            ([(1, 1.0), (3, 3.0)], 5, {"interp": "linear", "initial": 0}, [(2, 1.0), (4, 2.0), (6, 3.0)]),
            ([(0, 0.0), (10, 10.0)], 6, {"starting_epoch": 6, "interp": "linear", "initial": 0}, [(0, 5.0), (2, 6.0)]),
        ],
    )
    def test_changes(self, schedule, epochs, arguments, expected):
        """
        A value takes effect at the end of its epoch, at epoch 0 before the first one. A training that starts later begins
        with the value of the last point, or an interpolated one.
        """
        assert expected == changes(schedule, epochs, **arguments)

    @pytest.mark.parametrize(
        ("schedule", "epochs", "arguments", "num_warnings"),
        [
            (LATE, 90, {"starting_epoch": 90, "set_at_beginning": False}, 1),
            ([(10, 1.0)], 20, {"starting_epoch": 20}, 0),  # the value is right
            ([(10, 0.1)], 20, {"starting_epoch": 20, "initial": 0.10000000149}, 0),  # float32
            ([(10, 0.3)], 2, {}, 0),  # before the first point
        ],
    )
    def test_no_change(self, log_lines, schedule, epochs, arguments, num_warnings):
        """If the value is right, nothing is set or logged; with set_at_beginning=False, there is a warning."""
        assert [] == changes(schedule, epochs, **arguments)
        assert num_warnings == len(warnings_in(log_lines))

    def test_a_value_that_differs_warns(self, log_lines):
        """Starting in the middle with another value logs a warning and sets the scheduled value."""
        assert [(0, 0.3)] == changes([(10, 0.3), (20, 0.4)], epochs=20, starting_epoch=20)[:1]
        assert ["ScheduledHyperParamSetter: rate should be 0.3 at epoch 19, but is 1."] == warnings_in(log_lines)


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

"""The commands `schedule` and `find-lr`: their output, exit codes and pictures, and what they leave unchanged."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fakes.commands import python_runner

from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.param.setter import HyperParamSetterWithFunc
from tensorpack_lite.diagnostics.probe.schedules import plan, show_plans, sparkline
from tensorpack_lite.utils import schedules

SCRIPT = """
rng = np.random.RandomState(0)
labels = rng.randint(0, 3, 200)
x = (rng.rand(200, 8) + np.eye(8)[labels]).astype("float32")
data = RepeatedData(BatchData(DataFromList([[a, np.int32(b)] for a, b in zip(x, labels)], shuffle=False), 20), -1)
logger.set_logger_dir("log", action="k")
callbacks = [
    ModelSaver(checkpoint_dir="elsewhere"),
    MinSaver("cost", checkpoint_dir="elsewhere", restore_best=True),
    HyperParamSetterWithFunc("learning_rate", schedules.cosine(0.5, 60, warmup=10), step_based=True),
    ScheduledHyperParamSetter("momentum", [(0, 0.8), (2, 0.95)]),
    HumanHyperParamSetter("momentum"),
]
config = TrainConfig(
    model=Model(), data=QueueInput(data), callbacks=[] if "none" in sys.argv else callbacks, steps_per_epoch=10, max_epoch=6
)
launch_train_with_config(config, SimpleTrainer())
"""


@pytest.fixture
def command(tmp_path):
    """Return a function that runs a command in a directory with a script, and returns its exit code and output."""
    python = python_runner(tmp_path, SCRIPT)
    return lambda *arguments: python("-m", "tensorpack_lite", *arguments)[:2]


@pytest.mark.slow
def test_schedule(command, tmp_path):
    """The command prints a curve, a table of all epochs, and what is not known; nothing is written but the picture."""
    picture = [] if not _has_matplotlib() else ["-o", "schedule.png"]
    code, output = command("schedule", *picture, "train.py")
    assert 0 == code, output
    assert "learning_rate, between 0.0004933 and 0.5, 6 epochs of 10 steps:\n" in output
    assert "Not known before training: momentum (HumanHyperParamSetter)." in output
    rows = [line.split() for line in output.splitlines() if line[:1].isdigit()]
    schedule = schedules.cosine(0.5, 60, warmup=10)
    momentums = [0.8, 0.8, 0.95, 0.95, 0.95, 0.95]
    assert [[str(epoch + 1), f"{schedule(10 * epoch):.4g}", f"{momentums[epoch]:.4g}"] for epoch in range(6)] == rows
    assert "Start epoch" not in output
    assert not (tmp_path / "elsewhere").exists()
    assert [] == list((tmp_path / "log").iterdir())
    if picture:
        assert (tmp_path / "schedule.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_find_lr(command, tmp_path):
    """The command prints a proposal and draws the costs, without a change of any log directory."""
    pytest.importorskip("matplotlib")
    code, output = command("find-lr", "--highest", "100", "--steps", "60", "-o", "costs.png", "train.py")
    assert 0 == code, output
    assert "steps with learning_rate from 1e-06 to" in output
    proposal = float(output.split("proposed rate: ")[1].split()[0].rstrip("."))
    assert 0.003 < proposal < 30
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "elsewhere").exists()
    assert [] == list((tmp_path / "log").iterdir())
    assert "Training failed" not in output
    assert "WRN" not in output  # e.g. that there is no best model to restore


@pytest.mark.slow
def test_no_schedule(command):
    """A script without a schedule gives exit code 1."""
    code, output = command("schedule", "train.py", "none")
    assert 1 == code, output
    assert "No callback sets a hyper-parameter." in output


@pytest.mark.slow
def test_an_unknown_variable(command):
    """An unknown variable gives exit code 2, and an error that explains what to do."""
    pytest.importorskip("matplotlib")
    code, output = command("find-lr", "--variable", "rate", "train.py")
    assert 2 == code, output
    assert "GraphVarParam: 'rate' is not a variable of this graph. Create it" in output


def _has_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


class TestPlan:
    @pytest.fixture
    def rate(self):
        """A parameter with the value 1.0."""
        return ObjAttrParam(SimpleNamespace(rate=1.0), "rate")

    def test_functions_see_the_planned_value(self, rate):
        """A function that multiplies the current value gets the planned value, and the parameter itself does not change."""
        setter = HyperParamSetterWithFunc(rate, lambda epoch, value: value * 0.5 if epoch else None)
        planned = plan(setter, 10, 0, 4)
        np.testing.assert_array_equal(planned.values, [1.0, 0.5, 0.25, 0.125])
        np.testing.assert_array_equal(planned.epochs, [0, 1, 2, 3])
        assert 1.0 == rate.get_value()

    def test_by_steps(self, rate):
        """A schedule by steps has a value for each step, at fractions of epochs."""
        planned = plan(HyperParamSetterWithFunc(rate, lambda step, _: step, step_based=True), 4, 0, 2)
        np.testing.assert_array_equal(planned.values, range(8))
        np.testing.assert_array_equal(planned.epochs, np.arange(8) / 4)
        assert [0, 0, 1, 7, 7] == [planned.at(epoch) for epoch in (0, 0.2, 0.25, 1.9, 5)]

    def test_scheduled_values(self, rate):
        """Between the points of a ScheduledHyperParamSetter, the value stays."""
        planned = plan(ScheduledHyperParamSetter(rate, [(1, 0.1), (3, 0.01)]), 10, 0, 5)
        np.testing.assert_array_equal(planned.values, [1.0, 0.1, 0.1, 0.01, 0.01])

    def test_a_later_start(self, rate):
        """A training that starts with epoch 4 shows the values from there on."""
        planned = plan(HyperParamSetterWithFunc(rate, lambda epoch, _: epoch), 10, 3, 2)
        np.testing.assert_array_equal(planned.values, [3, 4])
        assert "4" == show_plans([planned], [], 10).splitlines()[-2].split()[0]

    def test_too_many_steps(self, rate):
        """More values than fit into memory and time raise an error that explains what to do."""
        setter = HyperParamSetterWithFunc(rate, lambda step, _: step, step_based=True)
        with pytest.raises(ValueError, match="too many steps to show.*Pass --epochs"):
            plan(setter, 10_000, 0, 1000)


def test_sparkline():
    """The lowest value has the lowest block, the highest value the highest one; a constant has the lowest."""
    assert "▁▅█" == sparkline([0.0, 0.5, 1.0])
    assert "▁▁" == sparkline([3.0, 3.0])

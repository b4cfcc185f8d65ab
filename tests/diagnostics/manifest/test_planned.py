"""The planned values of hyper-parameters in the manifest: which are known, at which steps, and that no function of the script is called."""

from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("tensorflow")

from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.param.setter import HumanHyperParamSetter, HyperParamSetterWithFunc
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.manifest.planned import planned_values
from tensorpack_lite.diagnostics.manifest.writer import ManifestWriter
from tensorpack_lite.loop.state import TrainLoop
from tensorpack_lite.utils import schedules


class Holder:
    """An object with a learning rate."""

    rate = 1.0


@pytest.fixture
def rate():
    """Return a parameter, 1.0 at first."""
    return ObjAttrParam(Holder(), "rate", "rate")


def loop(steps=10, first=1, last=4, global_step=0):
    """Return the state at the beginning of a training."""
    made = TrainLoop()
    made.config(steps, first, last)
    made.global_step = global_step
    return made


def test_by_epochs(rate):
    """A value is set at the step where its epoch begins; before the first one, the parameter keeps its value."""
    found = planned_values([ScheduledHyperParamSetter(rate, [(1, 0.1), (3, 0.01)])], loop())
    known = {"rate": {"steps": [0, 10, 30], "values": [1.0, 0.1, 0.01]}}
    assert {"end": 40, "known": known, "unknown": []} == found
    assert 1.0 == rate.get_value()


def test_by_steps(rate):
    """A schedule by steps has a value for each step."""
    schedule = schedules.polynomial(0.5, 8)
    setter = HyperParamSetterWithFunc(rate, schedule, step_based=True)
    known = planned_values([setter], loop(steps=2))["known"]["rate"]
    assert {"steps": list(range(8)), "values": [schedule(step) for step in range(8)]} == known


def test_many_steps(rate):
    """Of many steps, 500 are looked at, the first and the last one among them."""
    setter = HyperParamSetterWithFunc(rate, schedules.polynomial(1.0, 10**7), step_based=True)
    known = planned_values([setter], loop(steps=10**5, last=100))["known"]["rate"]
    assert (500, 0, 10**7 - 1) == (len(known["steps"]), known["steps"][0], known["steps"][-1])


@pytest.mark.parametrize("done", [0, 4])
def test_a_later_start(rate, done):
    """A resumed training plans from its present step on, also inside an epoch."""
    state = loop(first=3, global_step=20 + done)
    if done:
        state.resume_at(3, done)
    by_epochs = HyperParamSetterWithFunc(rate, schedules.step(1.0, [3]))
    found = planned_values([by_epochs], state)
    assert [20 + done, 30] == found["known"]["rate"]["steps"]
    by_steps = HyperParamSetterWithFunc(rate, schedules.step(1.0, [25, 35]), step_based=True)
    assert [20 + done, 25, 35] == planned_values([by_steps], state)["known"]["rate"]["steps"]
    assert 40 == found["end"]


def test_what_is_not_known(rate):
    """A function of the script is not called, and a wrapped setter is not known either. Without a last epoch, there is no plan."""

    def func(epoch, value):
        raise AssertionError("called")

    schedule = ScheduledHyperParamSetter(rate, [(1, 0.1)])
    callbacks = [
        HyperParamSetterWithFunc(rate, func),
        HumanHyperParamSetter(rate),
        PeriodicTrigger(schedule, every_k_epochs=2),
    ]
    classes = ("HyperParamSetterWithFunc", "HumanHyperParamSetter", "ScheduledHyperParamSetter")
    assert [f"rate ({name})" for name in classes] == planned_values(callbacks, loop())["unknown"]
    assert planned_values([schedule], loop(last=99_999)) is None


def test_in_a_manifest(log_dir, rate):
    """The manifest has the plan of the newest start."""

    def train(value, first):
        callbacks = [ScheduledHyperParamSetter(rate, [(0, value)]), ManifestWriter()]
        with tf.Graph().as_default():
            run(CountingTrainer(), callbacks, epochs=first + 1, starting_epoch=first)
        with open(os.path.join(log_dir, "manifest.json")) as file:
            return json.load(file)

    assert [0.5] == train(0.5, 1)["planned values"]["known"]["rate"]["values"]
    resumed = train(0.25, 2)
    assert [0.25] == resumed["planned values"]["known"]["rate"]["values"]
    assert "planned values" not in resumed["resumptions"][0]["changed"]

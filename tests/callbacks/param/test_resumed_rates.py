"""A resumed training has the rate of the uninterrupted one at every step, whatever sets it."""

from __future__ import annotations

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.param.hyperparam import GraphVarParam, ObjAttrParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.param.setter import HyperParamSetterWithFunc
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.utils import logger, schedules

STEPS = 2


class Rates(Callback):
    """Keeps the rate in each step, and stops training after one."""

    def __init__(self, last_step):
        self.last_step, self.seen = last_step, {}

    def _setup_graph(self):
        self.param = GraphVarParam("rate")
        self.param.setup_graph()

    def _before_run(self, ctx):
        self.seen[self.global_step] = round(float(self.param.get_value()), 6)

    def _trigger_step(self):
        if self.global_step == self.last_step:
            raise StopTraining


class Late:
    """An attribute that is the parameter of a setter behind it, which copies it to the variable."""


def cosine(length):
    return [HyperParamSetterWithFunc("rate", schedules.cosine(1.0, length))]


def cosine_by_step(length):
    return [HyperParamSetterWithFunc("rate", schedules.cosine(1.0, length * STEPS), step_based=True)]


def periodic(length):
    return [PeriodicTrigger(*cosine(length), every_k_epochs=2)]


def linear(length):
    return [ScheduledHyperParamSetter("rate", [(0, 1.0), (length, 0.0)], interp="linear")]


def decay(length):
    return [HyperParamSetterWithFunc("rate", lambda epoch, rate: rate * 0.9 if epoch else None)]


def half(epoch, rate):
    return rate / 2 if epoch else None


def two_schedules(length):
    return [*cosine(length), HyperParamSetterWithFunc("rate", schedules.polynomial(0.5, length))]


def schedule_and_function(length):
    return [*cosine(length), HyperParamSetterWithFunc("rate", half)]


def scheduled_and_function(length):
    return [*linear(length), HyperParamSetterWithFunc("rate", half)]


def function_and_schedule(length):
    return [HyperParamSetterWithFunc("rate", half), *cosine(length)]


def attribute(length):
    thing = Late()
    thing.value = 1.0
    first = HyperParamSetterWithFunc(ObjAttrParam(thing, "value"), schedules.cosine(1.0, length))
    return [first, HyperParamSetterWithFunc("rate", lambda epoch, rate: thing.value)]


ALONE = [cosine, cosine_by_step, periodic, linear, decay, attribute]
PAIRS = [two_schedules, schedule_and_function, scheduled_and_function, function_and_schedule]


def train(make, epochs, length, last_step=0, saver_first=False):
    """Train, or resume, and return the rate of each step that was done."""
    savers, rates = [PeriodicTrigger(ModelSaver(), every_k_steps=1)], Rates(last_step)
    setters = make(length)
    callbacks = [*savers, *setters, rates] if saver_first else [*setters, *savers, rates]
    config = AutoResumeTrainConfig(steps_per_epoch=STEPS, max_epoch=epochs)
    with tf.Graph().as_default():
        trainer = CountingTrainer()
        tf.get_variable("rate", initializer=1.0, trainable=False)
        arguments = {"session_init": config.session_init, "starting_epoch": config.starting_epoch}
        run(trainer, callbacks, steps=STEPS, epochs=epochs, **arguments)
    return rates.seen


SAVED_BEFORE = [(make, True) for make in (cosine, two_schedules, schedule_and_function)]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "saver_first"), [*((make, False) for make in ALONE + PAIRS), *SAVED_BEFORE])
def test_resumed_anywhere(tmp_path, make, saver_first):
    """A training that ends after any step, and resumes, has the rates of the uninterrupted one."""
    logger.set_logger_dir(str(tmp_path / "whole"), action="d")
    expected = train(make, 4, 4, saver_first=saver_first)
    logger.set_logger_dir(str(tmp_path / "parts"), action="d")
    found = {}
    for last_step in (2, 3, 4, 0):
        found.update(train(make, 4, 4, last_step, saver_first))
    assert expected == found


@pytest.mark.slow
@pytest.mark.parametrize("make", [cosine, cosine_by_step, periodic, linear, two_schedules, function_and_schedule])
def test_resumed_with_another_length(tmp_path, make):
    """A schedule that has become longer is evaluated at the resume: the rates are those of the longer one from there on."""
    logger.set_logger_dir(str(tmp_path / "whole"), action="d")
    expected = train(make, 4, 4)
    logger.set_logger_dir(str(tmp_path / "parts"), action="d")
    train(make, 2, 2)
    found = train(make, 4, 4)
    assert {step: rate for step, rate in expected.items() if step >= 2 * STEPS} == found

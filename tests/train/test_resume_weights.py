"""Training runs that resume from checkpoints with the weights only."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from fakes.models import Mean, threes
from fakes.trainers import launch

from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.param.setter import HyperParamSetterWithFunc
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars
from tensorpack_lite.train.config import AutoResumeTrainConfig


class Model(Mean):
    """The model with Momentum and a rate in a variable."""

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.25, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.5)


def train(epochs, collections, exact=False):
    """Train or resume. Return the steps and rates that the callbacks see at each step."""
    seen = []

    def note(callback):
        callback.trainer.monitors.put_scalar("epoch", callback.epoch_num)

    def by_step(step, rate):
        seen.append(step)
        return 0.25 / (1 + step)

    launch(
        kind=AutoResumeTrainConfig,
        model=Model(),
        data=QueueInput(threes()),
        callbacks=[
            HyperParamSetterWithFunc("learning_rate", by_step, step_based=True),
            CallbackFactory(trigger=note),
            ModelSaver(var_collections=collections),
        ],
        monitors=[JSONWriter()],
        extra_callbacks=[],
        steps_per_epoch=3,
        max_epoch=epochs,
        exact=exact,
    )
    return seen


@pytest.mark.slow
def test_the_step_comes_from_the_state(log_dir, log_lines):
    """Steps, schedules, names of checkpoints and rows continue, and the log names the variables of the optimizer that start from their initial values."""
    train(2, "trainable_variables")
    assert [7, 8, 9] == train(3, "trainable_variables")[-3:]
    assert os.path.exists(os.path.join(log_dir, "model-9.index"))
    with open(os.path.join(log_dir, "stats.json")) as file:
        assert [(1, 3), (2, 6), (3, 9)] == [(row["epoch_num"], row["global_step"]) for row in json.load(file)]
    assert any("does not have these variables of the optimizer" in line and "w/Momentum" in line for line in log_lines)
    assert any("model-6 has no global_step. Its state says 6." in line for line in log_lines)


@pytest.mark.slow
def test_exact_names_what_is_lost(log_dir):
    """With exact="require", the variables that the checkpoint does not have are an error."""
    train(1, "trainable_variables", exact=True)
    with pytest.raises(RuntimeError, match="2 variables that the checkpoint does not have: learning_rate, w/Momentum"):
        train(2, tf.GraphKeys.GLOBAL_VARIABLES, exact="require")


def test_without_a_step(log_dir):
    """A checkpoint with neither a state nor a step is an error, which explains how to start a new training from it."""
    save_checkpoint_vars({"w": np.float32(1)}, os.path.join(log_dir, "weights"))
    with pytest.raises(ValueError, match=r"the step of .*weights is unknown.*session_init=SmartInit\("):
        AutoResumeTrainConfig(model=Model(), data=QueueInput(threes()), steps_per_epoch=3)

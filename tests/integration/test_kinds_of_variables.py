"""Resource variables and ref variables behave the same in callbacks, checkpoints and predictors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks.graph import ProcessTensors
from tensorpack_lite.callbacks.param.hyperparam import GraphVarParam
from tensorpack_lite.callbacks.param.schedule import ScheduledHyperParamSetter
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict.base import OnlinePredictor
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.train.base import Trainer

KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])


def variables(use_resource):
    """Create the two variables of the tests."""
    x = tf.get_variable("x", initializer=0.0, use_resource=use_resource)
    rate = tf.get_variable("rate", initializer=1.0, use_resource=use_resource, trainable=False)
    return x, rate


class Adding(Trainer):
    """A trainer whose steps add `rate` to `x`."""

    def __init__(self, use_resource):
        super().__init__()
        x, rate = variables(use_resource)
        self.train_op = tf.assign_add(x, rate).op


def train(use_resource, directory, callbacks=()):
    """Train three epochs of two steps, with the rates 1, 5 and 7."""
    setters = [
        ScheduledHyperParamSetter(GraphVarParam("rate"), [(1, 5.0)]),
        ScheduledHyperParamSetter(GraphVarParam("rate:0"), [(2, 7.0)]),
    ]
    Adding(use_resource).train_with_defaults(
        callbacks=[*setters, *callbacks, ModelSaver(checkpoint_dir=directory)],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=2,
        max_epoch=3,
    )


@KINDS
def test_callbacks_that_take_names(tmp_path, use_resource):
    """A schedule sets the variable, and a callback gets its value."""
    rates = []
    train(use_resource, str(tmp_path), [ProcessTensors(["rate:0"], rates.append)])
    assert [1.0, 1.0, 5.0, 5.0, 7.0, 7.0] == rates
    assert all(np.float32 is type(rate) for rate in rates)


@KINDS
@pytest.mark.parametrize("other", [True, False], ids=["into resource", "into ref"])
def test_checkpoints_and_predictors(tmp_path, use_resource, other):
    """A checkpoint of either kind restores into either kind, and predictors return values for variable names."""
    train(use_resource, str(tmp_path))
    with tf.Graph().as_default() as graph:
        x, _ = variables(other)
        tf.train.create_global_step()
        tf.add(x, 1.0, name="y")
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            SmartInit(str(tmp_path / "model-6")).init(session)
            predict = OnlinePredictor([], ["x", "x:0", "y", x, "rate", "global_step"], sess=session)
            assert [26.0, 26.0, 27.0, 26.0, 7.0, 6] == predict()

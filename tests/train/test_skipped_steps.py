"""Steps that a loss scale skips, over trainers and optimizer wrappers: nothing is updated, nothing is averaged."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks import MergeAllSummaries, MovingAverageSummary, RunUpdateOps
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BatchNorm
from tensorpack_lite.tfutils.gradproc import CheckGradient, GlobalNormClip, MapGradient, SummaryGradient
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.optimizer import (
    AccumGradOptimizer,
    PostProcessOptimizer,
    accumulate_gradients,
    apply_grad_processors,
    clip_by_norm,
    clip_by_value,
)
from tensorpack_lite.tfutils.proxy_optimizer import ProxyOptimizer
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
)

TRAINERS = {
    "simple": SimpleTrainer,
    "parameter server": lambda: SyncMultiGPUTrainerParameterServer(2),
    "replicated": lambda: SyncMultiGPUTrainerReplicated(2),
    "async": lambda: AsyncMultiGPUTrainer(2),
}
RATE = 0.125


def scaled():
    return DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(RATE), initial_scale=64)


class Hides(ProxyOptimizer):
    """A user's wrapper that replaces what is not finite, in a method that the library does not know."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [
            (tf.where(tf.is_finite(grad), grad, tf.zeros_like(grad)), var) for grad, var in grads_and_vars
        ]
        return super().apply_gradients(pairs, global_step, name)


def by_map(opt):
    return apply_grad_processors(opt, [MapGradient(lambda grad: tf.clip_by_value(grad, -100.0, 100.0))])


# name -> an optimizer with a loss scale
WRAPPERS = {
    "alone": scaled,
    "clip by value": lambda: clip_by_value(scaled(), 100),
    "clip by norm": lambda: clip_by_norm(scaled(), 100),
    "processor": lambda: by_map(by_map(scaled())),
    "processor around a wrapper": lambda: by_map(PostProcessOptimizer(scaled(), lambda var: None)),
    "wrapper around a processor": lambda: PostProcessOptimizer(by_map(scaled()), lambda var: None),
    "user's wrapper": lambda: Hides(scaled()),
    "clip inside": lambda: DynamicLossScaleOptimizer(
        clip_by_value(tf.train.GradientDescentOptimizer(RATE), 100), initial_scale=64
    ),
    "checked": lambda: apply_grad_processors(
        scaled(), [GlobalNormClip(100), CheckGradient(), SummaryGradient()]
    ),
}


class Model(ModelDesc):
    """cost = w * mean(x), whose gradient is mean(x)."""

    def __init__(self, make_optimizer):
        super().__init__()
        self.make_optimizer = make_optimizer

    def inputs(self):
        return [tf.TensorSpec([2], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=1.0)
        BatchNorm("bn", tf.reshape(x, [2, 1]), center=False, scale=False)
        level = tf.reduce_mean(x, name="level")
        add_moving_summary(level, decay=0.5)
        return w * level

    def optimizer(self):
        return self.make_optimizer()


class Values(Callback):
    """Keeps the values of all variables after training."""

    def _after_train(self):
        variables = [*tf.global_variables(), *tf.local_variables()]
        self.values = self.trainer.sess.run({var.op.name: var for var in variables})


def train(make_trainer, make_optimizer, data):
    """Train for one epoch, with one datapoint per tower and step, and return the values of the variables."""
    trainer, values = make_trainer(), Values()
    steps = len(data) // len(getattr(trainer, "devices", [0]))
    source = QueueInput(DataFromList([[np.full([2], x, "float32")] for x in data], shuffle=False))
    config = TrainConfig(
        model=Model(make_optimizer), data=source, callbacks=[values], monitors=[], max_epoch=1, steps_per_epoch=steps,
        # one thread, because towers of an AsyncMultiGPUTrainer could overwrite each other's updates
        session_config=tf.ConfigProto(inter_op_parallelism_threads=1, allow_soft_placement=True),
        extra_callbacks=[MovingAverageSummary(), MergeAllSummaries(), RunUpdateOps()],
    )  # fmt: skip
    with tf.Graph().as_default():
        launch_train_with_config(config, trainer)
    return values.values


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_law(trainer, wrapper, bad):
    """If a tower's gradient is not finite, the step changes no weight and no average, and the scale shrinks."""
    values = train(TRAINERS[trainer], WRAPPERS[wrapper], [2.0, 4.0, 1.0, bad, bad, 3.0, 6.0, 8.0])
    if trainer == "simple":
        gradients = of_first_tower = [2.0, 4.0, 1.0, 3.0, 6.0, 8.0]
    else:
        gradients, of_first_tower = [3.0, 7.0], [2.0, 6.0]
    average = total = weight = 0.0
    for x in of_first_tower:
        total, weight = total / 2 + x, weight / 2 + 1
        average = 0.9 * average + 0.1 * x
    assert 1 - RATE * sum(gradients) == pytest.approx(values["w"], rel=1e-5)
    assert 64 / 4 == values["loss_scale/scale"]
    np.testing.assert_allclose(values["bn/mean/EMA"], [average], rtol=1e-5)
    np.testing.assert_allclose(values["EMA/level"], total / weight, rtol=1e-5)
    assert all(np.isfinite(value).all() for value in values.values())


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["simple", "replicated"])
@pytest.mark.parametrize(
    ("wrap", "factor"),
    [(lambda opt: AccumGradOptimizer(opt, 2), 1), (lambda opt: accumulate_gradients(opt, 2), 0.5)],
    ids=["sum", "mean"],
)
def test_accumulation_around_a_clip(trainer, wrap, factor):
    """If one of the accumulated gradients is infinite, none of them is applied, even if their sum is clipped."""
    num = 1 if trainer == "simple" else 2
    data = [x for x in (1.0, 2.0, np.inf, 2.0, 4.0, 2.0) for _ in range(num)]
    values = train(TRAINERS[trainer], lambda: wrap(clip_by_value(scaled(), 100)), data)
    assert 1 - RATE * (3 + 6) * factor == pytest.approx(values["w"])
    assert 32 == values["loss_scale/scale"]


@pytest.mark.slow
def test_a_last_step_that_is_skipped():
    """Summaries of gradients and averages are evaluated also in a step that is skipped."""
    values = train(SimpleTrainer, WRAPPERS["checked"], [np.inf, 2.0, np.inf])
    assert 1 - RATE * 2 == values["w"]


@pytest.mark.slow
def test_check_gradient_finds_the_rest():
    """CheckGradient raises if gradients are not finite although the scale is 1."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="CheckGradient/w"):
        train(SimpleTrainer, WRAPPERS["checked"], [np.nan] * 8)


def test_without_a_loss_scale():
    """Without a loss scale, a cost that is not finite is averaged, and shown."""
    values = train(SimpleTrainer, lambda: tf.train.GradientDescentOptimizer(RATE), [1.0, np.inf])
    assert not np.isfinite(values["EMA/level"])

"""Decoupled weight decay over trainers, accumulation and loss scale, against a closed form."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import l2_regularizer, regularize_cost
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.optimizer import (
    AccumGradOptimizer,
    PostProcessOptimizer,
    VariableAssignmentOptimizer,
    accumulate_gradients,
)
from tensorpack_lite.tfutils.weight_decay import AdamWOptimizer, DecoupledDecayOptimizer, SGDWOptimizer
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
)

RATE, DECAY, STEPS, NUM = 0.125, 0.5, 4, 3

# name -> trainer, factor between the gradients of a step and their mean
TRAINERS = {
    "simple": (SimpleTrainer, 1),
    "parameter server": (lambda: SyncMultiGPUTrainerParameterServer(NUM), 1),
    "replicated": (lambda: SyncMultiGPUTrainerReplicated(NUM), 1),
    "replicated, sum": (lambda: SyncMultiGPUTrainerReplicated(NUM, average=False), NUM),
    "async": (lambda: AsyncMultiGPUTrainer(NUM), 1),
    "async, not scaled": (lambda: AsyncMultiGPUTrainer(NUM, scale_gradient=False), NUM),
}


def sgd():
    return tf.train.GradientDescentOptimizer(RATE)


def decoupled():
    return DecoupledDecayOptimizer(sgd(), RATE, DECAY)


# name -> optimizer, steps per update, factor between the applied gradient and the mean of these steps
OPTIMIZERS = {
    "alone": (decoupled, 1, 1),
    "momentum 0": (lambda: SGDWOptimizer(RATE, DECAY, momentum=0.0), 1, 1),
    "in a loss scale": (lambda: DynamicLossScaleOptimizer(decoupled()), 1, 1),
    "around a loss scale": (
        lambda: DecoupledDecayOptimizer(DynamicLossScaleOptimizer(sgd()), RATE, DECAY),
        1,
        1,
    ),
    "accumulated": (lambda: AccumGradOptimizer(decoupled(), 2), 2, 2),
    "mean": (lambda: accumulate_gradients(decoupled(), 2), 2, 1),
    "mean in a loss scale": (lambda: DynamicLossScaleOptimizer(accumulate_gradients(decoupled(), 2)), 2, 1),
    "in another wrapper": (lambda: PostProcessOptimizer(decoupled(), lambda var: None), 1, 1),
}


class Model(ModelDesc):
    """cost = w * x, whose gradient is x, and by option a cost of w."""

    def __init__(self, make_optimizer, decay=0.0):
        super().__init__()
        self.make_optimizer, self.decay = make_optimizer, decay

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=1.0)
        cost = w * x
        return cost + regularize_cost("w", l2_regularizer(self.decay)) if self.decay else cost

    def optimizer(self):
        return self.make_optimizer()


class LastValue(Callback):
    """Keeps the last value of w."""

    def _after_train(self):
        self.value = float(self.trainer.sess.run(self.trainer.find_tensor("w")))


def train(make_trainer, model, values):
    """Train with one of the values in each step, the same on all towers, and return the last value of w."""
    trainer, last = make_trainer(), LastValue()
    num = len(getattr(trainer, "devices", [0]))
    source = QueueInput(DataFromList([[np.float32(x)] for x in values for _ in range(num)], shuffle=False))
    config = TrainConfig(
        model=model, data=source, callbacks=[last], extra_callbacks=[], monitors=[], max_epoch=1,
        steps_per_epoch=len(values),
        # one thread, because towers of an AsyncMultiGPUTrainer could overwrite each other's updates
        session_config=tf.ConfigProto(inter_op_parallelism_threads=1, allow_soft_placement=True),
    )  # fmt: skip
    with tf.Graph().as_default():
        launch_train_with_config(config, trainer)
    return last.value


VALUES = [1.0, -2.0, 3.0, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_law(trainer, optimizer):
    """An update is w * (1 - f * rate * decay) - f * rate * gradient, where f is 1 for a mean of gradients, their number for a sum."""
    (make_trainer, factor), (make, per_update, summed) = TRAINERS[trainer], OPTIMIZERS[optimizer]
    w = 1.0
    for k in range(0, STEPS, per_update):
        gradient = summed * np.mean(VALUES[k : k + per_update])
        w = w * (1 - factor * RATE * DECAY) - factor * RATE * gradient
    assert w == pytest.approx(train(make_trainer, Model(make), VALUES), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [name for name in TRAINERS if "async" not in name])
def test_equal_to_a_cost(trainer):
    """With gradient descent, the decay equals that of `l2_regularizer`, whatever the trainer does to the gradients."""
    make_trainer, _ = TRAINERS[trainer]
    expected = train(make_trainer, Model(sgd, DECAY), VALUES)
    assert expected == pytest.approx(train(make_trainer, Model(decoupled), VALUES), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["simple", "replicated", "parameter server"])
def test_adamw(trainer):
    """AdamW with equal gradients: each step is w * (1 - rate * decay) - rate."""
    w = 1.0
    for _ in range(STEPS):
        w = w * (1 - RATE * DECAY) - RATE
    found = train(TRAINERS[trainer][0], Model(lambda: AdamWOptimizer(RATE, DECAY)), [2.0] * STEPS)
    assert w == pytest.approx(found, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_new_value_is_assigned_once(trainer):
    """A step halves each variable once after its update, whatever the number of towers."""
    make_trainer, factor = TRAINERS[trainer]
    w = 1.0
    for x in VALUES:
        w = (w - factor * RATE * x) / 2
    make = lambda: VariableAssignmentOptimizer(sgd(), lambda var: var / 2)  # noqa: E731
    assert w == pytest.approx(train(make_trainer, Model(make), VALUES), rel=1e-5)


@pytest.mark.slow
def test_a_skipped_step_does_not_decay():
    """A decay around a loss scale leaves out the steps that it skips."""
    values = [1.0, np.inf, 2.0]
    found = train(SimpleTrainer, Model(OPTIMIZERS["around a loss scale"][0]), values)
    w = 1.0
    for x in (1.0, 2.0):
        w = w * (1 - RATE * DECAY) - RATE * x
    assert w == pytest.approx(found, rel=1e-5)

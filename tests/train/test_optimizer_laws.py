"""
Laws of optimizer wrappers over trainers, against closed forms: decoupled weight decay, and steps that a loss scale skips.

CI runs each trainer with one wrapper and each wrapper with one trainer; `tox -e nightly` runs all pairs.
"""

from __future__ import annotations

import numpy as np
import pytest
from fakes.models import Mean, threes

from tensorpack_lite.callbacks import MergeAllSummaries, MovingAverageSummary, RunUpdateOps
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BatchNorm, l2_regularizer, regularize_cost
from tensorpack_lite.tfutils.dependency import updates_wait_for_data
from tensorpack_lite.tfutils.gradproc import CheckGradient, GlobalNormClip, MapGradient, SummaryGradient
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.optimizer import (
    AccumGradOptimizer,
    PostProcessOptimizer,
    VariableAssignmentOptimizer,
    accumulate_gradients,
    apply_grad_processors,
    clip_by_norm,
    clip_by_value,
)
from tensorpack_lite.tfutils.proxy_optimizer import ProxyOptimizer
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.weight_decay import AdamWOptimizer, DecoupledDecayOptimizer, SGDWOptimizer
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
)

pytestmark = pytest.mark.slow

RATE, DECAY, STEPS, NUM = 0.125, 0.5, 4, 2

# name -> trainer, factor between the gradients of a step and their mean
TRAINERS = {
    "simple": (SimpleTrainer, 1),
    "parameter server": (lambda: SyncMultiGPUTrainerParameterServer(NUM), 1),
    "replicated": (lambda: SyncMultiGPUTrainerReplicated(NUM), 1),
    "async": (lambda: AsyncMultiGPUTrainer(NUM), 1),
    "replicated, sum": (lambda: SyncMultiGPUTrainerReplicated(NUM, average=False), NUM),
    "async, not scaled": (lambda: AsyncMultiGPUTrainer(NUM, scale_gradient=False), NUM),
}
MEANS = ["simple", "parameter server", "replicated", "async"]


def pairs(trainers, wrappers):
    """Return all pairs. CI runs those with the replicated trainer or with the first wrapper; the others are nightly."""
    cases = [(trainer, wrapper) for trainer in trainers for wrapper in wrappers]
    in_ci = {"replicated", next(iter(wrappers))}
    return [pytest.param(*case, marks=[pytest.mark.nightly] * (not in_ci & set(case))) for case in cases]


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


def scaled():
    return DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(RATE), initial_scale=64)


class Hides(ProxyOptimizer):
    """A user's wrapper that replaces what is not finite, in a method that the library does not know."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [(tf.where(tf.is_finite(grad), grad, tf.zeros_like(grad)), var) for grad, var in grads_and_vars]
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
    "checked": lambda: apply_grad_processors(scaled(), [GlobalNormClip(100), CheckGradient(), SummaryGradient()]),
}


class Model(ModelDesc):
    """cost = w * mean(x), whose gradient is mean(x), and by option a cost of w."""

    def __init__(self, make_optimizer, decay=0.0):
        super().__init__()
        self.make_optimizer, self.decay = make_optimizer, decay

    def inputs(self):
        return [tf.TensorSpec([2], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=1.0)
        BatchNorm("bn", tf.reshape(x, [2, 1]), center=False, scale=False)
        level = tf.reduce_mean(x, name="level")
        add_moving_summary(level, decay=0.5)
        return w * level + regularize_cost("w", l2_regularizer(self.decay)) if self.decay else w * level

    def optimizer(self):
        return self.make_optimizer()


class Values(Callback):
    """Keeps the values of all variables after training."""

    def _after_train(self):
        variables = [*tf.global_variables(), *tf.local_variables()]
        self.values = self.trainer.sess.run({var.op.name: var for var in variables})


def train(trainer, model, data, num=None):
    """Train for one epoch, with one datapoint per tower and step, or the same one on all towers. Return all variables."""
    trainer, values = TRAINERS[trainer][0](), Values()
    num_towers = len(getattr(trainer, "devices", [0]))
    data = [x for x in data for _ in range(num_towers if num is None else num)]
    source = QueueInput(DataFromList([[np.full([2], x, "float32")] for x in data], shuffle=False))
    config = TrainConfig(
        model=model, data=source, callbacks=[values], monitors=[], max_epoch=1, steps_per_epoch=len(data) // num_towers,
        # one thread, because towers of an AsyncMultiGPUTrainer could overwrite each other's updates
        session_config=tf.ConfigProto(inter_op_parallelism_threads=1, allow_soft_placement=True),
        extra_callbacks=[MovingAverageSummary(), MergeAllSummaries(), RunUpdateOps()],
    )  # fmt: skip
    with tf.Graph().as_default():
        launch_train_with_config(config, trainer)
    return values.values


def trained_weight(trainer, make_optimizer, data, decay=0.0):
    """Train with the same datapoint on all towers, and return the weight."""
    return train(trainer, Model(make_optimizer, decay), data)["w"]


VALUES = [1.0, -2.0, 3.0, 0.5]


@pytest.mark.parametrize(("trainer", "optimizer"), pairs(TRAINERS, OPTIMIZERS))
def test_weight_decay(trainer, optimizer):
    """An update is w * (1 - f * rate * decay) - f * rate * gradient, where f is 1 for a mean of gradients, their number for a sum."""
    factor, (make, per_update, summed) = TRAINERS[trainer][1], OPTIMIZERS[optimizer]
    w = 1.0
    for k in range(0, STEPS, per_update):
        gradient = summed * np.mean(VALUES[k : k + per_update])
        w = w * (1 - factor * RATE * DECAY) - factor * RATE * gradient
    assert w == pytest.approx(trained_weight(trainer, make, VALUES), rel=1e-5)


@pytest.mark.parametrize("trainer", ["simple", "replicated"])
@pytest.mark.parametrize(
    "make", [make for make, *_ in OPTIMIZERS.values()] + [*WRAPPERS.values()], ids=[*OPTIMIZERS, *WRAPPERS]
)
def test_updates_wait_for_data(trainer, make):
    """A step that fails because data is missing has changed no variable, e.g. no count of accumulated gradients."""
    model = Mean()
    model.optimizer = make
    with tf.Graph().as_default():
        trainer = TRAINERS[trainer][0]()
        trainer.setup_graph(model.get_input_signature(), QueueInput(threes()), model.build_graph, model.get_optimizer)
        assert updates_wait_for_data(trainer.train_op)


@pytest.mark.parametrize("trainer", [name for name in TRAINERS if "async" not in name])
def test_equal_to_a_cost(trainer):
    """With gradient descent, the decay equals that of `l2_regularizer`, whatever the trainer does to the gradients."""
    expected = trained_weight(trainer, sgd, VALUES, DECAY)
    assert expected == pytest.approx(trained_weight(trainer, decoupled, VALUES), rel=1e-5)


@pytest.mark.parametrize("trainer", MEANS[:3])
def test_adamw(trainer):
    """AdamW with equal gradients: each step is w * (1 - rate * decay) - rate."""
    w = 1.0
    for _ in range(STEPS):
        w = w * (1 - RATE * DECAY) - RATE
    found = trained_weight(trainer, lambda: AdamWOptimizer(RATE, DECAY), [2.0] * STEPS)
    assert w == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_new_value_is_assigned_once(trainer):
    """A step halves each variable once after its update, whatever the number of towers."""
    w = 1.0
    for x in VALUES:
        w = (w - TRAINERS[trainer][1] * RATE * x) / 2
    make = lambda: VariableAssignmentOptimizer(sgd(), lambda var: var / 2)  # noqa: E731
    assert w == pytest.approx(trained_weight(trainer, make, VALUES), rel=1e-5)


def test_a_skipped_step_does_not_decay():
    """A decay around a loss scale leaves out the steps that it skips."""
    w = 1.0
    for x in (1.0, 2.0):
        w = w * (1 - RATE * DECAY) - RATE * x
    found = trained_weight("simple", OPTIMIZERS["around a loss scale"][0], [1.0, np.inf, 2.0])
    assert w == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize(("trainer", "wrapper"), pairs(MEANS, WRAPPERS))
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_skipped_steps(trainer, wrapper, bad):
    """If a tower's gradient is not finite, the step changes no weight and no average, and the scale shrinks."""
    values = train(trainer, Model(WRAPPERS[wrapper]), [2.0, 4.0, 1.0, bad, bad, 3.0, 6.0, 8.0], num=1)
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


@pytest.mark.parametrize("trainer", ["simple", "replicated"])
@pytest.mark.parametrize(
    ("wrap", "factor"),
    [(lambda opt: AccumGradOptimizer(opt, 2), 1), (lambda opt: accumulate_gradients(opt, 2), 0.5)],
    ids=["sum", "mean"],
)
def test_accumulation_around_a_clip(trainer, wrap, factor):
    """If one of the accumulated gradients is infinite, none of them is applied, even if their sum is clipped."""
    data = [1.0, 2.0, np.inf, 2.0, 4.0, 2.0]
    values = train(trainer, Model(lambda: wrap(clip_by_value(scaled(), 100))), data)
    assert 1 - RATE * (3 + 6) * factor == pytest.approx(values["w"])
    assert 32 == values["loss_scale/scale"]


def test_a_last_step_that_is_skipped():
    """Summaries of gradients and averages are evaluated also in a step that is skipped."""
    assert 1 - RATE * 2 == trained_weight("simple", WRAPPERS["checked"], [np.inf, 2.0, np.inf])


def test_check_gradient_finds_the_rest():
    """CheckGradient raises if gradients are not finite although the scale is 1."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="CheckGradient/w"):
        trained_weight("simple", WRAPPERS["checked"], [np.nan] * 8)


def test_without_a_loss_scale():
    """Without a loss scale, a cost that is not finite is averaged, and shown."""
    assert not np.isfinite(train("simple", Model(sgd), [1.0, np.inf])["EMA/level"])

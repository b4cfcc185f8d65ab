"""Training on K devices equals training on one device with the concatenated batch: weights, datapoints, checkpoints."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest
from fakes.logical_gpus import need_gpus, need_real_gpus

from tensorpack_lite.callbacks import ModelSaver
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BatchNorm, FullyConnected, regularize_cost
from tensorpack_lite.models.regularize import l2_regularizer
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.tfutils.gradproc import GlobalNormClip, ScaleGradient
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.optimizer import (
    AccumGradOptimizer,
    AdamWOptimizer,
    LAMBOptimizer,
    apply_grad_processors,
)
from tensorpack_lite.tfutils.sessinit import JustCurrentSession, SmartInit
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

pytestmark = pytest.mark.any_tensorflow

BATCH, STEPS = 4, 20


class Net(ModelDesc):
    """
    A small network with the layers that could make towers differ: frozen BatchNorm, L2 regularization, an embedding.

    Args:
        make_optimizer: returns the optimizer.
        embeds: whether the network has an embedding, whose gradient is an IndexedSlices.
        trains_batch_norm: whether BatchNorm uses the statistics of the batch.
    """

    def __init__(self, make_optimizer, embeds=True, trains_batch_norm=False):
        self.make_optimizer, self.embeds, self.trains_batch_norm = make_optimizer, embeds, trains_batch_norm

    def inputs(self):
        return [TensorSpec([None, 5], tf.float32, "x"), TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        with argscope(BatchNorm, training=self.trains_batch_norm and self.training):
            hidden = BatchNorm("bn", FullyConnected("fc0", x, 6, activation=tf.nn.relu))
        logits = FullyConnected("fc1", hidden, 3)
        if self.embeds:
            table = tf.get_variable("table", [3, 3], initializer=tf.random_normal_initializer())
            logits += tf.nn.embedding_lookup(table, (y + 1) % 3)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y)
        return tf.add(tf.reduce_mean(losses), regularize_cost("fc.*/W", l2_regularizer(1e-2)), name="cost")

    def optimizer(self):
        return self.make_optimizer()


class Stream:
    """Numbered batches that differ from each other. Each contains `times` small batches."""

    def __init__(self, times=1):
        self.times = times

    def __call__(self):
        rng = np.random.RandomState(0)
        while True:
            xs = [rng.uniform(-1, 1, (BATCH, 5)).astype("float32") for _ in range(self.times)]
            ys = [(x[:, 0] * 100).astype("int32") % 3 for x in xs]
            yield [np.concatenate(xs), np.concatenate(ys)]


class Watch(Callback):
    """Records the weights after each step and the inputs of each tower."""

    def __init__(self):
        self.inputs, self.weights, self.copies = [], [], []

    def _setup_graph(self):
        self.fetches = [tower.inputs[0] for tower in self.trainer.towers.training()]
        self.trained = {var.op.name: var for var in tf.trainable_variables()}

    def _before_run(self, ctx):
        return self.fetches

    def _after_run(self, ctx, values):
        self.inputs.append(values.results)

    def _trigger_step(self):
        self.weights.append(self.trainer.sess.run(self.trained))


class Run(NamedTuple):
    """The records of one training, and the values of all global variables at its end."""

    watch: Watch
    final: dict
    local: list


def train(make_trainer, model, times=1, stage=None, init=None, steps=STEPS, checkpoint_dir=None, stream=None):
    """Train `steps` steps from the values in `init`."""
    final: dict = {}
    local: list = []

    class End(Callback):
        def _setup_graph(self):
            self.variables = {var.op.name: var for var in tf.global_variables()}
            local.extend(var.op.name for var in tf.local_variables())

        def _after_train(self):
            final.update(self.trainer.sess.run(self.variables))

    with tf.Graph().as_default():
        tf.set_random_seed(3)
        trainer = make_trainer()
        source: Any = QueueInput(DataFromGenerator(stream or Stream(times)))
        if stage is not None:
            source = StagingInput(source, nr_stage=stage)
        trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
        watch = Watch()
        savers = [] if checkpoint_dir is None else [ModelSaver(checkpoint_dir=checkpoint_dir)]
        trainer.train_with_defaults(
            callbacks=[watch, *savers, End()],
            extra_callbacks=[],
            monitors=[],
            session_init=JustCurrentSession() if init is None else SmartInit(init),
            steps_per_epoch=max(steps, 1),
            max_epoch=1 if steps else 0,
        )
    return Run(watch, final, local)


def sgd():
    return tf.train.GradientDescentOptimizer(0.1)


def unit_steps():
    return tf.train.GradientDescentOptimizer(1.0)


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


def adam():
    return tf.train.AdamOptimizer(0.01)


def processed():
    return apply_grad_processors(momentum(), [GlobalNormClip(0.5), ScaleGradient([("fc0/b", 0), ("fc1/.*", 0.5)])])


def accumulating():
    return AccumGradOptimizer(adam(), 3)


def adamw():
    return AdamWOptimizer(0.01, 0.1)


def lamb():
    return LAMBOptimizer(0.01, 0.1)


def scaled():
    return DynamicLossScaleOptimizer(adam(), growth_steps=5)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": sgd,
    "momentum": momentum,
    "adam": adam,
    "processed": processed,
    "accumulating": accumulating,
    "scaled": scaled,
    "adamw": adamw,
    "lamb": lamb,
}

TRAINERS: dict[str, Callable[[], Any]] = {
    "ps-cpu-2": lambda: SyncMultiGPUTrainerParameterServer(2, ps_device="cpu"),
    "ps-gpu-3": lambda: SyncMultiGPUTrainerParameterServer([0, 1, 2], ps_device="gpu"),
    "gpu-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="gpu"),
    "gpu-3": lambda: SyncMultiGPUTrainerReplicated(3, mode="gpu"),
    "cpu-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="cpu"),
    "nccl-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="nccl"),
    "collective-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="collective"),
    "collective-3": lambda: SyncMultiGPUTrainerReplicated(3, mode="collective"),
    "async-3": lambda: AsyncMultiGPUTrainer(3),
    "hierarchical-8": lambda: SyncMultiGPUTrainerReplicated(8),
}

QUICK = [("ps-cpu-2", "momentum"), ("gpu-2", "adam"), ("gpu-3", "processed"), ("collective-2", "momentum")]
CASES = [("ps-cpu-2", name) for name in OPTIMIZERS] + [("gpu-3", name) for name in OPTIMIZERS]
CASES += [("collective-2", name) for name in ("sgd", "adam", "accumulating")]
CASES += [(name, optimizer) for name in ("ps-gpu-3", "gpu-2", "cpu-2") for optimizer in ("sgd", "adam")]
CASES += [(name, "momentum") for name in ("ps-gpu-3", "gpu-2", "cpu-2", "collective-3", "hierarchical-8")]
CASES = QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in QUICK]


def num_towers(name):
    return int(name.rsplit("-", 1)[1])


def assert_same(expected, actual, tolerance=1e-5):
    """Compare the weights of two training runs, relative to the largest one of each variable."""
    assert set(expected) <= set(actual)
    for name, values in expected.items():
        scale = np.abs(values).max() + 1e-3
        np.testing.assert_allclose(actual[name] / scale, values / scale, atol=tolerance, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "optimizer"), CASES)
def test_weights_equal_those_of_the_joint_batch(trainer, optimizer):
    """After 20 steps, K towers have the weights and slots of one tower with K times the batch."""
    check_weights(trainer, optimizer)


@pytest.mark.parametrize(
    ("trainer", "nr_stage"),
    [
        ("ps-cpu-2", 1),
        ("gpu-2", 2),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("ps-gpu-3", 2), ("collective-3", 1)]),
    ],
)
def test_staging_changes_no_weight(trainer, nr_stage):
    """StagingInput does not change the steps."""
    init = train(SimpleTrainer, Net(momentum), steps=0).final
    plain, staged = (
        train(TRAINERS[trainer], Net(momentum), init=init, stage=stage, steps=5).final for stage in (None, nr_stage)
    )
    assert set(plain) == set(staged)
    for name, value in plain.items():
        np.testing.assert_allclose(staged[name], value, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.gpu
@pytest.mark.parametrize("trainer", ["nccl-2", "gpu-2", "collective-2", "ps-gpu-3", "hierarchical-8"])
def test_weights_on_gpus(trainer):
    """The same holds if each tower has a GPU."""
    if trainer.startswith(("nccl", "collective")):
        need_real_gpus(num_towers(trainer), "NCCL cannot use one GPU twice")
    need_gpus(num_towers(trainer))
    check_weights(trainer, "momentum")


def check_weights(trainer, optimizer):
    times = num_towers(trainer)
    single = train(SimpleTrainer, Net(OPTIMIZERS[optimizer]), times, steps=0)
    init = {name: value for name, value in single.final.items() if name != "global_step"}
    single = train(SimpleTrainer, Net(OPTIMIZERS[optimizer]), times, init=init)
    several = train(TRAINERS[trainer], Net(OPTIMIZERS[optimizer]), init=init)
    renamed = {name.replace("apply_gradients/", ""): value for name, value in several.final.items()}
    assert STEPS == int(several.final["global_step"])
    assert_same(single.final, renamed)
    assert not np.allclose(init["fc1/W"], single.final["fc1/W"])


@pytest.mark.parametrize(
    ("trainer", "stage"),
    [
        ("ps-cpu-2", None),
        ("ps-gpu-3", 1),
        ("gpu-3", None),
        ("gpu-3", 3),
        ("collective-2", 1),
        ("async-3", None),
        ("async-3", 2),
    ],
)
def test_every_datapoint_once_and_in_order(trainer, stage):
    """In each step, the towers take the next datapoints. Staging skips and repeats none."""
    several = train(TRAINERS[trainer], Net(sgd), stage=stage, steps=6)
    stream = Stream()()
    expected = [[next(stream)[0] for _ in range(num_towers(trainer))] for _ in range(6)]
    np.testing.assert_array_equal(expected, several.watch.inputs)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("trainer", "optimizer"),
    [
        ("gpu-2", "adam"),
        ("cpu-2", "sgd"),
        ("collective-3", "momentum"),
        pytest.param("gpu-3", "processed", marks=pytest.mark.slow),
        pytest.param("gpu-3", "accumulating", marks=pytest.mark.slow),
        pytest.param("collective-2", "adam", marks=pytest.mark.slow),
        pytest.param("hierarchical-8", "adam", marks=pytest.mark.slow),
    ],
)
def test_replicas_are_equal_to_the_bit(trainer, optimizer):
    """After each step, all copies of a trained variable are equal, although only the first was restored."""
    watch = train(TRAINERS[trainer], Net(OPTIMIZERS[optimizer]), steps=5).watch
    for weights in watch.weights:
        for name, values in weights.items():
            np.testing.assert_array_equal(weights[name.split("/", 1)[1] if name.startswith("tower") else name], values)
    assert num_towers(trainer) * 7 == len(watch.weights[0])


class TestVariables:
    """Names, collections and checkpoints are those of training on one device."""

    def names(self, trainer, optimizer):
        """Return the names of global and of local variables of a model with one layer."""

        class Layer(Net):
            def build_graph(self, x, y):
                logits = BatchNorm("bn", FullyConnected("fc", x, 3))
                return tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y), name="cost"
                )

        run = train(trainer, Layer(optimizer), steps=1)
        return set(run.final), set(run.local)

    MODEL = ("fc/W", "fc/b", "bn/gamma", "bn/beta", "bn/mean/EMA", "bn/variance/EMA")
    TRAINED = MODEL[:4]

    @pytest.mark.slow
    @pytest.mark.parametrize("trainer", ["ps-cpu-2", "async-3"])
    def test_shared(self, trainer):
        """Shared variables have the same names as on one device, except that async training has Adam's powers in a scope."""
        found, local = self.names(TRAINERS[trainer], adam)
        scope = "async_apply_gradients/" if trainer.startswith("async") else ""
        adam_slots = {f"{name}/{slot}" for name in self.TRAINED for slot in ("Adam", "Adam_1")}
        powers = {f"{scope}beta1_power", f"{scope}beta2_power"}
        assert {*self.MODEL, "global_step", *adam_slots, *powers} == found
        assert set() == {name for name in local if not name.startswith("EMA/")}

    @pytest.mark.slow
    def test_replicated_adam(self):
        """Copies are local variables in `tower<i>/`. Adam's powers exist once and are saved."""
        found, local = self.names(TRAINERS["gpu-2"], adam)
        adam_slots = {f"{name}/{slot}" for name in self.TRAINED for slot in ("Adam", "Adam_1")}
        powers = {"apply_gradients/beta1_power", "apply_gradients/beta2_power"}
        assert {*self.MODEL, "global_step", *adam_slots, *powers} == found
        copies = {f"tower1/{name}" for name in {*self.MODEL, *adam_slots}}
        assert copies == {name for name in local if not name.startswith("EMA/")}
        assert 14 == len(copies)  # as many as tensorpack syncs

    @pytest.mark.slow
    def test_replicated_accumulation(self):
        """Each tower has a counter. The first one is saved, and the others are copies of it."""
        found, local = self.names(TRAINERS["gpu-2"], lambda: AccumGradOptimizer(sgd(), 2))
        assert "apply_gradients/AccumGrad/counter" in found
        assert "tower1/apply_gradients/AccumGrad/counter" in local
        assert {f"tower1/{name}/AccumGrad" for name in self.TRAINED} < local


SAVED = {
    "single": SimpleTrainer,
    "ps": TRAINERS["ps-cpu-2"],
    "replicated": TRAINERS["gpu-2"],
    "async": lambda: AsyncMultiGPUTrainer(2),
}


# The quick set has a ring of pairs: each trainer writes once and reads once.
RING = {("single", "ps"), ("ps", "replicated"), ("replicated", "async"), ("async", "single")}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("writer", "reader", "optimizer"),
    [
        pytest.param(
            writer, reader, optimizer,
            marks=[] if optimizer is adam and (writer, reader) in RING else pytest.mark.slow,
        )
        for writer, reader, optimizer in itertools.product(SAVED, SAVED, [momentum, adam])
    ],
)  # fmt: skip
def test_a_checkpoint_restores_into_any_trainer(writer, reader, optimizer, tmp_path):
    """A checkpoint of any trainer restores into any other, including slots and Adam's powers."""
    written = train(SAVED[writer], Net(optimizer), steps=3, checkpoint_dir=str(tmp_path))
    path = os.path.join(str(tmp_path), "model-3")
    assert set(written.final) == set(load_checkpoint_vars(path))
    read = train(SAVED[reader], Net(optimizer), init=path, steps=0)
    expected, actual = (
        {re.sub("^(async_)?apply_gradients/", "", name): value for name, value in run.final.items()}
        for run in (written, read)
    )
    assert set(expected) == set(actual)
    assert optimizer is not adam or not np.allclose(0.9, expected["beta1_power"])
    for name, value in expected.items():
        np.testing.assert_array_equal(value, actual[name], err_msg=name)


class Slope(Net):
    """A model whose cost is a function of the two weights v and w."""

    def __init__(self, cost, make_optimizer):
        super().__init__(make_optimizer)
        self.cost = cost

    def build_graph(self, x, y):
        return self.cost(*(tf.get_variable(name, initializer=0.0) for name in "vw"))


class TestAsync:
    """Asynchronous updates have no order, so the tests check results that hold in any order."""

    @pytest.mark.parametrize("scale", [True, False])
    def test_applications(self, scale):
        """A gradient of 1 is applied K times a step, divided by K if scaled."""

        model = Slope(lambda v, w: v + 2 * w, unit_steps)
        run = train(lambda: AsyncMultiGPUTrainer(3, scale_gradient=scale), model, steps=4)
        assert (-4 * 3 / (3 if scale else 1)) == pytest.approx(run.final["v"])
        assert 2 * run.final["v"] == pytest.approx(run.final["w"])

    def test_accumulation(self):
        """The gradients of all towers in several steps are added to one update of each variable."""

        model = Slope(lambda v, w: v + w, lambda: AccumGradOptimizer(unit_steps(), 2))
        run = train(lambda: AsyncMultiGPUTrainer(3), model, steps=5)
        assert [0, -2, -2, -4, -4] == [pytest.approx(step["w"], abs=1e-5) for step in run.watch.weights]

    def test_processors_see_all_gradients_of_a_tower(self):
        """The joint norm of a tower's gradients (3, 4) is clipped to 1."""

        def clipped():
            inner = apply_grad_processors(unit_steps(), [ScaleGradient(("w", 0.5))])
            return apply_grad_processors(inner, [GlobalNormClip(1.0)])

        model = Slope(lambda v, w: 3 * v + 4 * w, clipped)
        final = train(lambda: AsyncMultiGPUTrainer(2, scale_gradient=False), model, steps=1).final
        assert (-2 * 0.6, -2 * 0.8 * 0.5) == pytest.approx((final["v"], final["w"]), rel=1e-5)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "optimizer", [lambda: tf.train.GradientDescentOptimizer(0.3), lambda: tf.train.AdamOptimizer(0.1)]
    )
    def test_converges(self, optimizer):
        """A convex problem converges."""

        class Regression(Net):
            def build_graph(self, x, y):
                wanted = tf.reduce_sum(x, axis=1, keepdims=True)
                return tf.reduce_mean((FullyConnected("fc", x, 1) - wanted) ** 2)

        run = train(lambda: AsyncMultiGPUTrainer(2), Regression(optimizer), steps=300)
        np.testing.assert_allclose(run.final["fc/W"], np.ones([5, 1]), atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["ps-cpu-2", "gpu-3", "async-3"])
def test_adam_advances_once_a_step(trainer):
    """Adam's powers advance once a step, whatever the number of towers and variables."""
    final = train(TRAINERS[trainer], Net(adam), steps=5).final
    power = next(value for name, value in final.items() if name.endswith("beta1_power"))
    assert 0.9**6 == pytest.approx(float(power), rel=1e-5)


@pytest.mark.parametrize("trainer", ["ps-cpu-2", "gpu-2"])
def test_towers_with_inputs_of_different_shapes(trainer):
    """Towers may have batches of different sizes, and the gradient is the mean over towers."""

    class Sizes(Stream):
        def __call__(self):
            for n in range(1, 1000):
                yield [np.full([n, 5], n, "float32"), np.zeros([n], "int32")]

    class Biggest(Net):
        def build_graph(self, x, y):
            return tf.get_variable("w", initializer=0.0) * tf.cast(tf.shape(x)[0], tf.float32)

    model = Biggest(unit_steps)
    watch = train(TRAINERS[trainer], model, stage=1, steps=3, stream=Sizes()).watch
    assert [-1.5, -5.0, -10.5] == [step["w"] for step in watch.weights]

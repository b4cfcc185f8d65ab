"""Training on K devices equals training on one with the concatenated batch: weights, datapoints, checkpoints."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

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
from tensorpack_lite.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tensorpack_lite.tfutils.sessinit import JustCurrentSession, SmartInit
from tensorpack_lite.train import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

BATCH, STEPS = 4, 20


class Net(ModelDesc):
    """
    A small network with everything that could make towers differ: frozen BatchNorm, L2, rows of an embedding.

    Args:
        make_optimizer: makes the optimizer.
        embeds: whether there is an embedding, whose gradient is an IndexedSlices.
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
    """Batches that differ from each other, numbered; each is made of `times` of the small ones."""

    def __init__(self, times=1):
        self.times = times

    def __call__(self):
        rng = np.random.RandomState(0)
        while True:
            xs = [rng.uniform(-1, 1, (BATCH, 5)).astype("float32") for _ in range(self.times)]
            ys = [(x[:, 0] * 100).astype("int32") % 3 for x in xs]
            yield [np.concatenate(xs), np.concatenate(ys)]


class Watch(Callback):
    """Keeps the weights after each step, and what each tower was fed."""

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
    """One training: what was seen, and the values of all global variables at its end."""

    watch: Watch
    final: dict
    local: list


def train(make_trainer, model, times=1, stage=None, init=None, steps=STEPS, checkpoint_dir=None):
    """Train `steps` steps, beginning with the values in `init`."""
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
        source: Any = QueueInput(DataFromGenerator(Stream(times)))
        if stage is not None:
            source = StagingInput(source, nr_stage=stage)
        trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
        watch = Watch()
        savers = [] if checkpoint_dir is None else [ModelSaver(checkpoint_dir=checkpoint_dir)]
        trainer.train_with_defaults(
            callbacks=[watch, *savers, End()],
            extra_callbacks=[],
            monitors=[],
            session_init=JustCurrentSession() if init is None else SmartInit(dict(init)),
            steps_per_epoch=steps,
            max_epoch=1,
        )
    return Run(watch, final, local)


def sgd():
    return tf.train.GradientDescentOptimizer(0.1)


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


def adam():
    return tf.train.AdamOptimizer(0.01)


def processed():
    return apply_grad_processors(
        momentum(), [GlobalNormClip(0.5), ScaleGradient([("fc0/b", 0), ("fc1/.*", 0.5)])]
    )


def accumulating():
    return AccumGradOptimizer(adam(), 3)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": sgd,
    "momentum": momentum,
    "adam": adam,
    "processed": processed,
    "accumulating": accumulating,
}

TRAINERS: dict[str, Callable[[], Any]] = {
    "ps-cpu-2": lambda: SyncMultiGPUTrainerParameterServer(2, ps_device="cpu"),
    "ps-gpu-3": lambda: SyncMultiGPUTrainerParameterServer([0, 1, 2], ps_device="gpu"),
    "gpu-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="gpu"),
    "gpu-3": lambda: SyncMultiGPUTrainerReplicated(3, mode="gpu"),
    "cpu-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="cpu"),
    "collective-2": lambda: SyncMultiGPUTrainerReplicated(2, mode="collective"),
    "collective-3": lambda: SyncMultiGPUTrainerReplicated(3, mode="collective"),
    "hierarchical-8": lambda: SyncMultiGPUTrainerReplicated(8),
}

CASES = [("ps-cpu-2", name) for name in OPTIMIZERS] + [("gpu-3", name) for name in OPTIMIZERS]
CASES += [("collective-2", name) for name in ("adam", "accumulating")]
CASES += [(name, "momentum") for name in ("ps-gpu-3", "gpu-2", "cpu-2", "collective-3", "hierarchical-8")]


def num_towers(name):
    return int(name.rsplit("-", 1)[1])


def assert_same(expected, actual, tolerance=1e-5):
    """Each weight is that of the other training, by the size of the largest one in its variable."""
    assert set(expected) <= set(actual)
    for name, values in expected.items():
        scale = np.abs(values).max() + 1e-3
        np.testing.assert_allclose(actual[name] / scale, values / scale, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(("trainer", "optimizer"), CASES)
def test_weights_equal_those_of_the_joint_batch(trainer, optimizer):
    """After 20 steps, K towers have the weights and slots of one tower with K times the batch."""
    times = num_towers(trainer)
    single = train(SimpleTrainer, Net(OPTIMIZERS[optimizer]), times, steps=0)
    init = {name: value for name, value in single.final.items() if name != "global_step"}
    single = train(SimpleTrainer, Net(OPTIMIZERS[optimizer]), times, init=init)
    several = train(TRAINERS[trainer], Net(OPTIMIZERS[optimizer]), init=init)
    renamed = {name.replace("apply_gradients/", ""): value for name, value in several.final.items()}
    assert STEPS == int(several.final["global_step"])
    assert_same(single.final, renamed)
    assert not np.allclose(init["fc1/W"], single.final["fc1/W"])

"""The law of callbacks that write variables: afterwards, all towers compute the same."""

from __future__ import annotations

import pytest

from tensorpack_lite.callbacks.best_saver import MinSaver
from tensorpack_lite.callbacks.ema import EMAWeights, SwapEMAWeights
from tensorpack_lite.callbacks.graph import RunOp
from tensorpack_lite.callbacks.param.finder import LearningRateFinder
from tensorpack_lite.callbacks.param.setter import HyperParamSetterWithFunc
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.tensor import TensorInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.sessinit import SaverRestore
from tensorpack_lite.tfutils.varmanip import SessionUpdate
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TRAINERS = {
    "simple": SimpleTrainer,
    "server": lambda: SyncMultiGPUTrainerParameterServer(2),
    "asynchronous": lambda: AsyncMultiGPUTrainer(2),
    "replicated": lambda: SyncMultiGPUTrainerReplicated(2),
    "collective": lambda: SyncMultiGPUTrainerReplicated(2, mode="collective"),
}


class Watch(Callback):
    """Records what the towers compute at each trigger and in `after_train`."""

    def __init__(self):
        self.seen = []

    def _trigger(self):
        towers = self.trainer.towers.training()
        self.seen.append([float(value) for value in self.trainer.sess.run([one["out"] for one in towers])])

    _trigger_step = _trigger
    _after_train = _trigger


class RestoreLater(Callback):
    """Saves in epoch 1, and restores with `SaverRestore` in epoch 2."""

    def __init__(self, directory):
        self._directory = directory

    def _setup_graph(self):
        with tf.Graph().as_default():
            variables = [tf.get_variable(name, initializer=7.0) for name in ("w", "scale", "rate")]
            with tf.Session() as session:
                session.run(tf.variables_initializer(variables))
                tf.train.Saver(variables).save(session, f"{self._directory}/other")
        self._init = SaverRestore(f"{self._directory}/other")
        self._init._setup_graph()

    def _trigger(self):
        self._init._run_init(self.trainer.sess)


def variable(name):
    return next(one for one in tf.global_variables() if one.op.name == name)


def double_scale():
    return tf.assign(variable("scale"), variable("scale") * 2.0)


def put_three(callback):
    SessionUpdate(callback.trainer.sess, [variable("w")]).update({"w:0": 3.0})


def report(callback):
    callback.trainer.monitors.put_scalar("error", float(callback.epoch_num))


def swap(watch, directory):
    ema = EMAWeights(0.5)
    return [ema, SwapEMAWeights(watch, ema), watch]


def restore_best(watch, directory):
    saver = ModelSaver(checkpoint_dir=directory, fsync=False)
    return [
        CallbackFactory(trigger=report),
        saver,
        MinSaver("error", checkpoint_dir=directory, restore_best=True),
        watch,
    ]


def restore_averages(watch, directory):
    ema, (report_error, saver, _, _) = EMAWeights(0.5), restore_best(watch, directory)
    best = MinSaver("error", checkpoint_dir=directory, restore_best="averages")
    return [ema, report_error, saver, best, watch]


WRITERS = {
    "swap": swap,
    "restore_best": restore_best,
    "restore_averages": restore_averages,
    "set": lambda watch, _: [HyperParamSetterWithFunc("scale", lambda epoch, value: value + 1.0), watch],
    "load": lambda watch, _: [CallbackFactory(trigger=put_three), watch],
    "run_op": lambda watch, _: [RunOp(double_scale), watch],
    "run_op_each_step": lambda watch, _: [
        RunOp(double_scale, run_before=False, run_as_trigger=False, run_step=True),
        PeriodicTrigger(watch, every_k_steps=1),
    ],
    "restore": lambda watch, directory: [RestoreLater(directory), watch],
    "find_rate": lambda watch, _: [LearningRateFinder("rate", 1e-3, 1e-2, num_steps=20), watch],
}


def model(x):
    """`out` = w * scale. Each step makes w smaller."""
    weight = tf.get_variable("w", initializer=1.0)
    scale = tf.get_variable("scale", initializer=2.0, trainable=False)
    out = tf.multiply(weight, scale, name="out")
    return tf.add(out, 0.0 * x, name="cost")


def optimizer():
    return tf.train.GradientDescentOptimizer(tf.get_variable("rate", initializer=0.1, trainable=False))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "trainer", [pytest.param(name, marks=[pytest.mark.slow] * (name != "replicated")) for name in TRAINERS]
)
def test_towers_compute_the_same(tmp_path, trainer, writer):
    """After each callback that writes variables, all towers compute the same, whether they share variables or have copies."""
    watch = Watch()
    trained = TRAINERS[trainer]()
    source = TensorInput(lambda: [tf.constant(1.0)], 10)
    trained.setup_graph([tf.TensorSpec([], tf.float32, "x")], source, model, optimizer)
    callbacks = WRITERS[writer](watch, str(tmp_path))
    trained.train_with_defaults(callbacks=callbacks, monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=2)
    assert len(watch.seen) >= 3
    assert len({values[0] for values in watch.seen}) > 1
    assert all(value == values[0] for values in watch.seen for value in values)

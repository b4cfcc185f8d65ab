"""
Script that the tests of several ranks run in each rank: a small training, with a fault on request.

Arguments: engine, directory, fault, time limit, and the number of ranks whose batches one process joins. Rank r of n writes its final
weights to `directory/rank-<r>-of-<n>.npz`.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

from tensorpack_lite.callbacks import CheckReplicas, ModelSaver
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.train import ModelDesc
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.train.horovod import HorovodTrainer
from tensorpack_lite.utils import logger

BATCH, STEPS = 4, 20
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "stop, seen": signal.SIGSTOP}
ENGINES = {"collective": CollectiveTrainer, "horovod": HorovodTrainer}


class Net(ModelDesc):
    """Two dense layers and an embedding, whose gradient is an IndexedSlices."""

    def __init__(self, width=6, embeds=True):
        self.width, self.embeds = width, embeds

    def inputs(self):
        return [TensorSpec([None, 5], tf.float32, "x"), TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        initializer = tf.random_normal_initializer(stddev=0.3)
        w0 = tf.get_variable("w0", [5, self.width], initializer=initializer)
        w1 = tf.get_variable("w1", [self.width, 3], initializer=initializer)
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w0)), w1)
        if self.embeds:
            table = tf.get_variable("table", [3, 3], initializer=initializer)
            logits += tf.nn.embedding_lookup(table, (y + 1) % 3)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y)
        return tf.reduce_mean(losses, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def batches(ranks):
    """Yield the joint batches of some ranks, for one process that trains on all data."""
    streams = [np.random.RandomState(rank) for rank in ranks]
    while True:
        xs = [rng.uniform(-1, 1, (BATCH, 5)).astype("float32") for rng in streams]
        ys = [(x[:, 0] * 100).astype("int32") % 3 for x in xs]
        yield [np.concatenate(xs), np.concatenate(ys)]


class Faulty(Callback):
    """Plants the fault of the test on rank 1 in step 5."""

    _chief_only = False

    def __init__(self, fault, directory):
        self.fault, self.directory = fault, directory

    def _before_run(self, ctx):
        if self.trainer.rank == 1 and self.local_step == 5:
            note_planted(self.directory)
            if self.fault in SIGNALS:
                os.kill(os.getpid(), SIGNALS[self.fault])
            if self.fault == "callback":
                raise KeyError("planted in a callback")
            if self.fault == "behind":
                time.sleep(60)
            if self.fault == "early end":
                raise StopTraining("planted")
            if self.fault == "drift":
                tf.trainable_variables()[1].load(np.ones((6, 3)), ctx.session)

    def _trigger_step(self):
        if self.fault == "stop, seen" and self.trainer.rank == 0 and self.local_step == 4:
            self.trainer.ranks.channel.wait_for_failure(60)


class SlowChief(Callback):
    """A callback of the chief that takes longer than the time limit."""

    @staticmethod
    def work():
        time.sleep(7)

    def _trigger_step(self):
        if self.local_step == 5:
            self.work()


class Keep(Callback):
    """Writes the variables at the end."""

    _chief_only = False

    def __init__(self, path):
        self.path = path

    def _setup_graph(self):
        self.variables = {var.op.name.replace("/", "."): var for var in tf.global_variables()}

    def _trigger_epoch(self):
        np.savez(self.path, **self.trainer.sess.run(self.variables))


def note_planted(directory):
    """Record the time of the fault for the test."""
    open(os.path.join(directory, "planted"), "w").close()


def wait_for_all(directory, fault):
    """Wait until all ranks have imported TensorFlow; the time this takes varies on a busy machine."""
    os.makedirs(directory, exist_ok=True)
    ranks = range(int(os.environ.get("HOROVOD_SIZE", 0)))
    paths = [os.path.join(directory, f"here-{len(ranks)}-{fault}-{rank}") for rank in ranks]
    if len(paths) > 1:
        open(paths[int(os.environ["HOROVOD_RANK"])], "w").close()
    while len(paths) > 1 and not all(map(os.path.exists, paths)):
        time.sleep(0.02)


def failing(stream, rank):
    """Data that fails after five batches on rank 1."""
    for i, batch in enumerate(stream):
        if rank == 1 and i == 5:
            raise ValueError("planted in the data")
        yield batch


def main(engine, directory, fault="", limit="20", joint="2"):
    if fault == "late" and os.environ["HOROVOD_RANK"] == "1":
        note_planted(directory)
        time.sleep(60)
    if fault != "late":
        wait_for_all(directory, fault)
    if fault == "twice":  # first train another model, then train as for the other faults
        with tf.Graph().as_default():
            train(engine, directory, fault, limit, joint, Net(embeds=False))
    train(engine, directory, fault, limit, joint, Net())


def train(engine, directory, fault, limit, joint, model):
    """Train once."""
    compression = "fp16" if fault == "fp16" else None
    trainer = ENGINES[engine](average=fault != "sum", compression=compression, time_limit=float(limit))
    rank = trainer.rank
    tf.set_random_seed(rank)  # different initial values on each rank, which the chief's replace
    if trainer.is_chief:
        path = os.path.join(directory, f"log-{trainer.size}{fault}")
        logger.set_logger_dir(path, action="k" if fault == "twice" else None)
    ranks = range(int(joint)) if trainer.size == 1 else [rank]
    data = DataFromGenerator(lambda: failing(batches(ranks), rank if fault == "data" else 0))
    if fault == "script" and rank == 1:
        raise TypeError("planted in the script")
    if fault == "graph" and rank == 1:
        model = Net(7)
    trainer.setup_graph(model.get_input_signature(), FeedInput(data), model.build_graph, model.get_optimizer)
    callbacks = [ModelSaver(), Keep(os.path.join(directory, f"rank-{rank}-of-{trainer.size}.npz"))]
    callbacks += [SlowChief()] if fault == "slow chief" else [Faulty(fault, directory)] if fault else []
    callbacks += [CheckReplicas(4)] if fault in ("drift", "fp16") else []
    steps = STEPS + (fault == "steps" and rank == 1)
    trainer.train_with_defaults(
        callbacks=callbacks,
        monitors=[],
        extra_callbacks=[],
        steps_per_epoch=steps,
        session_init=SmartInit(os.path.join(directory, "log-2", "checkpoint"))
        if fault == "resume" and rank == 0
        else None,
        starting_epoch=2 if fault == "resume" and rank == 0 else 1,  # the chief's counts
        max_epoch=2 if fault == "resume" else 1,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

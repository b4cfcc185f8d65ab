"""
Training of a model whose BatchNorm has joint statistics. Tests import it, and also run it as a script in each rank.

Arguments: directory, engine ("collective" or "horovod"). Rank r of K writes its variables to `directory/rank-<r>-of-<K>.npz`.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from tensorpack_lite.callbacks import RunUpdateOps
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.models import BatchNorm, Conv2D, FullyConnected
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.train import ModelDesc

__all__ = ["BATCH", "STEPS", "Net", "joined", "train"]

BATCH, STEPS = 4, 20


class Net(ModelDesc):
    """
    A convolution and a dense layer, each followed by BatchNorm, which thus normalizes images and vectors.

    Args:
        sync: `sync_statistics` of both BatchNorm layers.
    """

    def __init__(self, sync):
        self.sync = sync

    def inputs(self):
        return [TensorSpec([None, 5, 5, 2], tf.float32, "x"), TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        random = tf.random_normal_initializer(stddev=0.5, seed=2)
        with argscope([Conv2D, FullyConnected], kernel_initializer=random), argscope(
            BatchNorm, sync_statistics=self.sync
        ):
            hidden = tf.tanh(BatchNorm("bn0", Conv2D("conv", x, 4, 3, use_bias=False)))
            hidden = tf.tanh(BatchNorm("bn1", FullyConnected("fc0", hidden, 6, use_bias=False)))
            logits = FullyConnected("fc1", hidden, 3)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y)
        return tf.reduce_mean(losses, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def _batch(rng, which):
    x = rng.normal(which, which + 1, (BATCH, 5, 5, 2)).astype("float32")
    return [x, (np.abs(x[:, 0, 0, 0]) * 100).astype("int32") % 3]


def joined(streams):
    """Yield the batches of some streams, joined. The streams have different means and variances."""
    rngs = {which: np.random.RandomState(which) for which in streams}
    while True:
        parts = [_batch(rng, which) for which, rng in rngs.items()]
        yield [np.concatenate(arrays) for arrays in zip(*parts)]


class Keep(Callback):
    """Keeps the final values of all variables in `values`."""

    _chief_only = False

    def _setup_graph(self):
        self.variables = {var.op.name: var for var in tf.global_variables()}

    def _trigger_epoch(self):
        self.values = self.trainer.sess.run(self.variables)


def train(trainer, sync, batches):
    """Train 20 steps, and return all variables."""
    tf.set_random_seed(3)
    model, keep = Net(sync), Keep()
    source = QueueInput(DataFromGenerator(lambda: batches))
    trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(
        callbacks=[keep], monitors=[], extra_callbacks=[RunUpdateOps()], steps_per_epoch=STEPS, max_epoch=1
    )
    return keep.values


def main(directory, engine):
    if engine == "horovod":
        from tensorpack_lite.train.horovod import HorovodTrainer as Trainer
    else:
        from tensorpack_lite.train.collective import CollectiveTrainer as Trainer
    trainer = Trainer(time_limit=40)
    streams = [trainer.rank] if trainer.size > 1 else range(2)
    values = train(trainer, engine, joined(streams))
    path = os.path.join(directory, f"rank-{trainer.rank}-of-{trainer.size}.npz")
    np.savez(path, **{name.replace("/", "."): value for name, value in values.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])

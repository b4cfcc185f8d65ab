"""
Script that tests/train/test_several_ranks.py runs in each rank: it trains w with cost w * (rank + 1) for two epochs of four steps.

Arguments: engine, directory, mode. Each rank writes the values of w after each epoch to `directory/w-<rank>.json`. In the second
step of the first epoch, rank 1 adds 1 to its w if the mode starts with "drift". In the mode "best", the chief ends with the largest
w of an epoch, and each rank also writes its w at the end.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

from tensorpack_lite.callbacks.best_saver import MaxSaver
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.train import ModelDesc
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.train.horovod import HorovodTrainer
from tensorpack_lite.utils import logger


class Slope(ModelDesc):
    def inputs(self):
        return [TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        return tf.get_variable("w", initializer=100.0) * x

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(1.0)


class Keep(Callback):
    """Records w after each epoch. If `drifts`, changes it on rank 1."""

    _chief_only = False

    def __init__(self, path, mode):
        self.path, self.drifts, self.has_end, self.seen = path, mode.startswith("drift"), mode == "best", []

    def _before_epoch(self):
        self.weight = next(var for var in tf.trainable_variables() if var.op.name == "w")

    def _trigger_step(self):
        if self.drifts and self.trainer.rank == 1 and self.global_step == 2:
            self.weight.load(self.trainer.sess.run(self.weight) + 1, self.trainer.sess)

    def _trigger_epoch(self):
        self.seen.append(float(self.trainer.sess.run(self.weight)))

    def _after_train(self):
        if self.has_end:
            self._trigger_epoch()
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.seen, file)


def report(callback):
    """Report w."""
    weight = next(var for var in tf.trainable_variables() if var.op.name == "w")
    callback.trainer.monitors.put_scalar("w", float(callback.trainer.sess.run(weight)))


def main(engine, directory, mode):
    trainer = (HorovodTrainer if engine == "horovod" else CollectiveTrainer)(
        average=mode != "sum", time_limit=30
    )
    trainer.BROADCAST_EVERY_EPOCH = mode != "drift, left"
    if trainer.is_chief:
        logger.set_logger_dir(os.path.join(directory, "log"), action="d")
    data = DataFromGenerator(lambda: iter(lambda: [np.float32(trainer.rank + 1)], None))
    model = Slope()
    trainer.setup_graph(model.get_input_signature(), FeedInput(data), model.build_graph, model.get_optimizer)
    keep = Keep(os.path.join(directory, f"w-{trainer.rank}.json"), mode)
    best = [ModelSaver(), CallbackFactory(trigger=report), MaxSaver("w", restore_best=True)]
    callbacks = [*(best if mode == "best" else []), keep]
    trainer.train_with_defaults(callbacks=callbacks, steps_per_epoch=4, max_epoch=2)


if __name__ == "__main__":
    main(*sys.argv[1:])

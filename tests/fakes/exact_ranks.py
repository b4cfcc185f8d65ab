"""
Script that trains exactly on several ranks and is resumed. Only the chief has a directory of the logger.

Arguments: the engine ("collective" or "horovod"), a directory, the kind of data ("own": each rank shuffles by itself, "shard":
ShardData, "chief saves": like "own", only the chief has a ModelSaver), and optionally a fault: a signal, the `global_step` after which it is sent, and the ranks that send it to themselves.
Each rank appends to `rank-<r>.txt` a line for each step: the step, what it has drawn after the step before, and the batch.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

from tensorpack_lite import (
    AutoResumeTrainConfig,
    BatchData,
    BatchNorm,
    Callback,
    DataFromList,
    Dropout,
    FullyConnected,
    JSONWriter,
    MergeAllSummaries,
    ModelDesc,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    QueueInput,
    RepeatedData,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import ShardData
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.train.horovod import HorovodTrainer
from tensorpack_lite.utils import fix_rng_seed

NUM, TOTAL_BATCH = 60, 12


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        x = tf.identity(x, name="batch")
        features = tf.stack([x, tf.sin(x), tf.cos(x)], axis=1)
        features = Dropout("drop", FullyConnected("fc", features, 4), keep_prob=0.7)
        features = BatchNorm("norm", features)
        cost = tf.reduce_mean(tf.square(FullyConnected("out", features, 1) - 1.0), name="cost")
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(0.01)


class Note(Callback):
    """Writes a line for each run, and sends the signal. It stands behind the ModelSaver, and draws a number after each step."""

    _chief_only = False

    def __init__(self, path, number, step):
        self._path, self._number, self._step = path, number, step
        self._drawn = []

    def state_dict(self):
        return {"drawn": self._drawn}

    def load_state_dict(self, state):
        self._drawn = state["drawn"]

    def _before_run(self, ctx):
        return ["batch:0"]

    def _after_run(self, ctx, values):
        with open(self._path, "a") as file:
            file.write(json.dumps([self.global_step, self._drawn, [int(i) for i in values.results[0]]]) + "\n")

    def _trigger_step(self):
        averages = tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)
        self._drawn = [float(np.random.rand()), [value.tolist() for value in self.trainer.sess.run(averages)]]
        if self._number and self.global_step == self._step:
            os.kill(os.getpid(), self._number)
        if self._step and self.global_step >= self._step:
            time.sleep(float(os.environ.get("STEP_SECONDS", "0.15")))  # while the ranks agree on the last step


def main(engine, directory, kind, number=0, step=0, ranks=""):
    np.random.seed(5)
    tf.set_random_seed(3)
    trainer = {"collective": CollectiveTrainer, "horovod": HorovodTrainer}[engine](
        time_limit=float(os.environ.get("TIME_LIMIT", "60"))
    )
    fix_rng_seed(3 + trainer.rank)
    if trainer.is_chief:
        logger.set_logger_dir(f"{directory}/log", action="k")
    ds = DataFromList([[np.float32(i)] for i in range(NUM)], shuffle=True)
    if kind == "shard":
        ds = ShardData(RepeatedData(ds, -1), trainer.rank, trainer.size)
    saver = PeriodicTrigger(ModelSaver(), every_k_steps=4, every_k_epochs=1)
    config = AutoResumeTrainConfig(
        exact="require" if kind == "own" else True,
        model=Model(),
        data=QueueInput(BatchData(ds, TOTAL_BATCH // trainer.size)),
        callbacks=[
            *([] if kind == "chief saves" and not trainer.is_chief else [saver]),
            Note(f"{directory}/rank-{trainer.rank}.txt", number if str(trainer.rank) in ranks else 0, step),
        ],
        extra_callbacks=[MovingAverageSummary(), MergeAllSummaries(period=5)],
        monitors=[JSONWriter()],
        steps_per_epoch=10,
        max_epoch=3,
    )
    launch_train_with_config(config, trainer)


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]), *sys.argv[6:])

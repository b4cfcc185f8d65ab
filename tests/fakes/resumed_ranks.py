"""
Script that trains on two ranks and is resumed. Only the chief has a directory. Each rank writes its record to `rank-<r>.json`.

Arguments: the directory, and the `global_step` after which the script fails, 0 for none.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from tensorpack_lite import (
    AutoResumeTrainConfig,
    Callback,
    DataFromList,
    FeedInput,
    ModelDesc,
    ModelSaver,
    PeriodicTrigger,
    RepeatedData,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.utils import fix_rng_seed


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        weight = tf.get_variable("weight", initializer=0.0)
        return tf.identity(weight * tf.cast(tf.not_equal(x, -1.0), tf.float32), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(1.0)


class Note(Callback):
    """Records epoch, step and datapoint of each step."""

    _chief_only = False

    def __init__(self, path, end):
        self._path, self._end, self._notes = path, end, []

    def _before_run(self, ctx):
        return ["x:0"]

    def _after_run(self, ctx, values):
        self._notes.append([self.epoch_num, self.local_step, float(values.results[0])])

    def _trigger_step(self):
        if self.global_step == self._end:
            raise RuntimeError("planted")

    def _after_train(self):
        weight = self.trainer.sess.run(next(v for v in tf.global_variables() if v.op.name == "weight"))
        with open(self._path, "w") as file:
            json.dump({"notes": self._notes, "weight": float(weight)}, file)


def main(directory, end):
    fix_rng_seed(3)
    trainer = CollectiveTrainer(time_limit=60)
    if trainer.is_chief:
        logger.set_logger_dir(f"{directory}/log", action="k")
    config = AutoResumeTrainConfig(
        model=Model(),
        data=FeedInput(RepeatedData(DataFromList([[np.float32(i)] for i in range(20)], shuffle=True), -1)),
        callbacks=[
            PeriodicTrigger(ModelSaver(), every_k_steps=4) if trainer.is_chief else Callback(),
            Note(f"{directory}/rank-{trainer.rank}.json", end),
        ],
        steps_per_epoch=6,
        max_epoch=3,
    )
    launch_train_with_config(config, trainer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

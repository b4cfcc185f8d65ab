"""
Script that trains without end on several ranks, for tests of Ctrl-C.

Arguments: the moment at which each rank prints READY, "graph", "setup" or "step", and "exact" or "plain". Checkpoints are in `log/`.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from tensorpack_lite import (
    AutoResumeTrainConfig,
    Callback,
    DataFromGenerator,
    ModelDesc,
    ModelSaver,
    PeriodicTrigger,
    QueueInput,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.train.collective import CollectiveTrainer

MOMENT, KIND = sys.argv[1:]


def wait_at(moment):
    if moment == MOMENT:
        print("READY", flush=True)
        time.sleep(300)


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([4], tf.float32, "x")]

    def build_graph(self, x):
        wait_at("graph")
        w = tf.get_variable("w", initializer=0.0)
        return tf.reduce_mean((w - x) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


class Ready(Callback):
    _chief_only = False

    def _setup_graph(self):
        wait_at("setup")

    def _trigger_step(self):
        if MOMENT == "step" and self.global_step == 13:
            print("READY", flush=True)

    def _after_train(self):
        print("AFTER_TRAIN", flush=True)


def data():
    while True:
        yield [np.ones([4], "float32")]


def main():
    trainer = CollectiveTrainer(time_limit=120)
    if trainer.is_chief:
        logger.set_logger_dir("log", action="k")
    config = AutoResumeTrainConfig(
        exact=KIND == "exact",
        model=Model(),
        data=QueueInput(DataFromGenerator(data)),
        callbacks=[PeriodicTrigger(ModelSaver(), every_k_steps=10), Ready()],
        monitors=[],
        extra_callbacks=[],
        steps_per_epoch=10**6,
        max_epoch=1,
    )
    launch_train_with_config(config, trainer)
    print("RETURNED", flush=True)


if __name__ == "__main__":
    main()

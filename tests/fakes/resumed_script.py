"""
Training script with AutoResumeTrainConfig that a test kills and restarts until the training is complete.

`resumed.json` in the working directory contains the options: `case`, one of CASES; `epochs`; and `kill_after`, the seconds from the
start of training to SIGKILL, or `kill_at`, the number of the file change before which the process kills itself. Results are in `log/`.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess

import numpy as np

from tensorpack_lite import (
    AutoResumeTrainConfig,
    Callback,
    CallbackFactory,
    CSVWriter,
    DataFromList,
    FeedInput,
    JSONWriter,
    MergeAllSummaries,
    MinSaver,
    ModelDesc,
    ModelSaver,
    PeriodicTrigger,
    RepeatedData,
    SimpleTrainer,
    TopKSaver,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.callbacks.monitor.rows import RowFile

from tensorflow.python.lib.io import file_io  # isort: skip (after tensorpack_lite)

STEPS = 20


class Model(ModelDesc):
    """One weight, trained with momentum. Its value shows the number of steps."""

    def inputs(self):
        return [tf.TensorSpec([2], tf.float32, "x")]

    def build_graph(self, x):
        weight = tf.get_variable("weight", initializer=0.0)
        cost = tf.reduce_mean(tf.square(x - weight), name="cost")
        tf.summary.scalar("cost", cost)
        return cost

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.003, 0.9)


class Report(Callback):
    """Reports the weight under a name at each trigger and, by option, after every seventh step."""

    def __init__(self, name, after_steps=False):
        self._name, self._after_steps = name, after_steps

    def _put(self):
        weight = next(v for v in tf.global_variables() if v.op.name == "weight")
        self.trainer.monitors.put_scalar(self._name, self.trainer.sess.run(weight))

    def _before_train(self):
        self._put()

    def _trigger_step(self):
        if self._after_steps and self.local_step % 7 == 3:
            self._put()

    def _trigger(self):
        self._put()

    def __str__(self):
        return f"Report-{self._name}"


class TwoRunsTrainer(SimpleTrainer):
    """Runs the session twice per step, as GAN trainers do."""

    def run_step(self):
        for _ in range(2):
            self.hooked_sess.run(self.train_op)


CASES = {
    "every epoch": lambda: [
        Report("before"),
        ModelSaver(max_to_keep=3),
        Report("after"),
        MinSaver("after"),
        TopKSaver("after", k=1, mode="max"),
    ],
    "every third epoch": lambda: [PeriodicTrigger(ModelSaver(), every_k_epochs=3), Report("after")],
    "rows inside epochs": lambda: [ModelSaver(), Report("after", after_steps=True)],
    "inside epochs": lambda: [
        Report("before", after_steps=True),
        PeriodicTrigger(ModelSaver(max_to_keep=3), every_k_steps=9, every_k_epochs=1),
        Report("after", after_steps=True),
        MinSaver("before"),
    ],
    "two runs a step": lambda: [PeriodicTrigger(ModelSaver(), every_k_steps=14), Report("after")],
}


def kill_at(number):
    """Kill this process before the given file change: a move, a removal, a copy, or a row."""
    made = iter(range(1, 10**6))

    def count(owner, name):
        function = getattr(owner, name)

        def counted(*args, **kwargs):
            if next(made) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        setattr(owner, name, counted)

    for name in ("rename", "remove", "copy", "makedirs", "rmtree"):
        count(tf.io.gfile, name)
    count(os, "replace")
    count(file_io, "rename")  # of meta graphs
    count(RowFile, "_save")


def main():
    with open("resumed.json") as file:
        told = json.load(file)
    logger.set_logger_dir("log", action="k")
    callbacks = CASES[told["case"]]()
    if told.get("kill_after") is not None:
        callbacks.append(CallbackFactory(before_train=lambda _: kill_after(told["kill_after"])))
    else:
        callbacks.append(CallbackFactory(before_train=lambda _: kill_at(told.get("kill_at"))))
    config = AutoResumeTrainConfig(
        model=Model(),
        data=FeedInput(RepeatedData(DataFromList([[np.float32([2, 4])]]), -1)),
        callbacks=callbacks,
        extra_callbacks=[MergeAllSummaries(period=7 if "inside" in told["case"] else 0)],
        monitors=[JSONWriter(), CSVWriter()],
        steps_per_epoch=STEPS,
        max_epoch=told["epochs"],
    )
    launch_train_with_config(config, TwoRunsTrainer() if "two runs" in told["case"] else SimpleTrainer())


def kill_after(seconds):
    """Start a process that kills this one after some seconds."""
    killer = subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -9 {os.getpid()}"])
    atexit.register(killer.wait)
    atexit.register(killer.terminate)


if __name__ == "__main__":
    main()

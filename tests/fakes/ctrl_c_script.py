"""
Training script for tests of Ctrl-C, with options in `options.json`, which sends itself SIGINT.

- `exact`: whether training has it. `saver`: whether it has a ModelSaver that saves every tenth step, in `log/`.
- `input`: "feed", where the signal comes in the callback of step 13, which then takes `sleep` seconds; "queue", where it comes when the
  main thread waits for datapoint 15.
- `signals`: their number; the second one follows after half a second.
- `catch`: whether the script catches KeyboardInterrupt. `handler`: whether it has a handler.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import numpy as np

from tensorpack_lite import (
    AutoResumeTrainConfig,
    Callback,
    DataFlow,
    FeedInput,
    ModelDesc,
    ModelSaver,
    PeriodicTrigger,
    QueueInput,
    SimpleTrainer,
    launch_train_with_config,
    logger,
)
from tensorpack_lite import tfv1 as tf

with open("options.json") as file:
    OPTIONS = {
        "exact": True, "saver": True, "input": "feed", "sleep": 0, "signals": 1, "catch": False, "handler": False, **json.load(file)
    }  # fmt: skip


def press():
    """Send the signals, from another thread."""
    for number in range(OPTIONS["signals"]):
        time.sleep(0.5 if number else 0)
        os.kill(os.getpid(), signal.SIGINT)


def press_soon(seconds):
    thread = threading.Timer(seconds, press)
    thread.daemon = True
    thread.start()


def tell(*words):
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([4], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=0.0)
        return tf.reduce_mean((w - x) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


class Points(DataFlow):
    def __iter__(self):
        number = 0
        while True:
            number += 1
            if OPTIONS["input"] == "queue" and number == 15:
                press_soon(0.7)  # when the main thread waits, too
                threading.Event().wait()
            yield [np.ones([4], "float32")]


class Press(Callback):
    def _before_train(self):
        self.press_at = self.global_step + 13 if OPTIONS["input"] == "feed" else -1

    def _trigger_step(self):
        if self.global_step == self.press_at:
            press_soon(0.01)
            end = time.monotonic() + OPTIONS["sleep"] + 0.1
            while time.monotonic() < end:
                time.sleep(0.01)
            self.press_at += 1  # until it comes

    def _after_train(self):
        tell("AFTER_TRAIN")


def handler(number, frame):
    tell("HANDLER")
    raise ZeroDivisionError("of the handler")


def train():
    logger.set_logger_dir("log", action="k")
    savers = [PeriodicTrigger(ModelSaver(), every_k_steps=10)] if OPTIONS["saver"] else []
    config = AutoResumeTrainConfig(
        exact=OPTIONS["exact"],
        model=Model(),
        data={"feed": FeedInput, "queue": QueueInput}[OPTIONS["input"]](Points()),
        callbacks=[*savers, Press()],
        monitors=[],
        extra_callbacks=[],
        steps_per_epoch=10**6,
        max_epoch=1,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    os.setsid()
    signal.signal(signal.SIGINT, handler if OPTIONS["handler"] else signal.default_int_handler)
    if OPTIONS["catch"]:
        try:
            train()
        except KeyboardInterrupt as error:
            tell("CAUGHT", isinstance(error, SystemExit), signal.getsignal(signal.SIGINT).__name__)
    else:
        train()
    tell("RETURNED")

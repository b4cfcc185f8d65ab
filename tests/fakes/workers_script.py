"""
Script with worker processes that gets Ctrl-C, with options in `options.json`.

- `stage`: one of STAGES. `method`: the start method of the workers.
- `moment`: what the main thread does when the signal comes, one of MOMENTS, or "graph", "training", "validation", "no datapoint" and
  "after_train" of a training.
- `group`: whether the signal goes to all processes, as from a terminal, or only to this one.
- `busy`: whether the workers are in a call that holds the interpreter's lock for seconds.

The script has its own session.
"""

from __future__ import annotations

import json
import multiprocessing.util
import os
import signal
import threading
import time

import numpy as np

from tensorpack_lite.dataflow import (
    DataFromList,
    MapData,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
)

STEPS = 10**6


def options():
    with open("options.json") as file:
        return json.load(file)


def hold_lock(seconds):
    """Spend some seconds in native code that does not release the interpreter's lock."""
    number = 10**6
    end = time.monotonic() + seconds
    while True:
        begin = time.monotonic()
        sum(range(number))
        if time.monotonic() >= end:
            return
        # one call for the rest of the time
        number = max(1, int(number * (end - time.monotonic()) / (time.monotonic() - begin)))


def identity(dp):
    return dp


def never(dp):
    time.sleep(300)


def hold(dp):
    hold_lock(6)
    return dp


def points():
    return DataFromList([[np.float32([k, k + 1])] for k in range(64)], shuffle=False)


def function():
    if options()["moment"] == "no datapoint":
        return never
    return hold if options()["busy"] else identity


def mapped():
    return MapData(points(), function())


STAGES = {
    "MultiProcessMapData": lambda: MultiProcessMapData(points(), 4, function(), buffer_size=16),
    "MultiProcessMapAndBatchDataZMQ": lambda: MultiProcessMapAndBatchDataZMQ(points(), 4, function(), batch_size=4),
    "MultiProcessRunner": lambda: MultiProcessRunner(mapped(), 16, 4),
    "MultiProcessRunnerZMQ": lambda: MultiProcessRunnerZMQ(mapped(), 4),
    "nested": lambda: MultiProcessRunnerZMQ(MultiProcessMapData(points(), 2, function(), buffer_size=4), 2),
}


def press():
    """Send the signal."""
    with open("pressed", "w"):
        pass
    (os.killpg if options()["group"] else os.kill)(os.getpid(), signal.SIGINT)


def press_after(seconds):
    thread = threading.Timer(seconds, press)
    thread.daemon = True
    thread.start()


def in_each_start(flow):
    """Press when each spawned process has begun to start, so before its Python can handle the signal."""
    spawn = multiprocessing.util.spawnv_passfds

    def spawn_and_press(*args):
        pid = spawn(*args)
        os.kill(pid, signal.SIGINT)
        return pid

    multiprocessing.util.spawnv_passfds = spawn_and_press
    flow.reset_state()
    press()
    time.sleep(60)


def in_reset_state(flow):
    press_after(0.01)
    flow.reset_state()
    for _ in flow:
        pass


def in_native_code(flow):
    flow.reset_state()
    if not options()["busy"]:
        next(iter(flow))
    press_after(0.3)
    hold_lock(2)
    time.sleep(60)


def in_a_loop(flow):
    flow.reset_state()
    press_after(0.5)
    while True:
        for _ in flow:
            pass


def in_a_thread(flow):
    """A thread iterates, and the main thread waits, as scripts of old projects do."""
    flow.reset_state()

    def iterate():
        while True:
            for _ in flow:
                pass

    threading.Thread(target=iterate, daemon=True).start()
    press_after(0.5)
    time.sleep(60)


def started_in_a_thread(flow):
    """As `in_a_thread`, but the thread starts the workers."""
    threading.Thread(target=in_a_loop, args=(flow,), daemon=True).start()
    time.sleep(60)


MOMENTS = {
    "each start": in_each_start,
    "reset_state": in_reset_state,
    "native code": in_native_code,
    "loop": in_a_loop,
    "thread": in_a_thread,
    "started in a thread": started_in_a_thread,
}


def train(moment, flow):
    from tensorpack_lite import (
        Callback,
        InferenceRunner,
        ModelDesc,
        QueueInput,
        ScalarStats,
        SimpleTrainer,
        TrainConfig,
        get_current_tower_context,
        launch_train_with_config,
    )
    from tensorpack_lite import tfv1 as tf

    def wait(value):
        if not os.path.exists("pressed"):
            press_after(0.2)
        time.sleep(0.5)
        return value

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec(None, tf.float32, "x")]

        def build_graph(self, x):
            if moment == "graph":
                press_after(0.1)
                time.sleep(60)
            if moment == "validation" and not get_current_tower_context().is_training:
                x = tf.py_func(wait, [x], tf.float32)
            w = tf.get_variable("w", initializer=0.0)
            return tf.reduce_mean((w - x) ** 2, name="cost")

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.1)

    class Press(Callback):
        def _trigger_step(self):
            if self.global_step == 20 and moment == "training":
                press_after(0.2)

        def _after_train(self):
            if moment == "after_train":
                press_after(0.1)
                time.sleep(60)

    if moment == "no datapoint":
        press_after(8)
    validation = []
    if moment == "validation":
        validation = [InferenceRunner(STAGES[options()["stage"]](), [ScalarStats("cost")])]
    config = TrainConfig(
        model=Model(),
        data=QueueInput(flow),
        callbacks=[Press(), *validation],
        monitors=[],
        extra_callbacks=[],
        steps_per_epoch=STEPS if moment == "training" else 20,
        max_epoch=1,
    )
    launch_train_with_config(config, SimpleTrainer())


def main():
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method(options()["method"], force=True)
    flow = STAGES[options()["stage"]]()
    moment = options()["moment"]
    if moment in MOMENTS:
        MOMENTS[moment](flow)
    else:
        train(moment, flow)


if __name__ == "__main__":
    main()

"""
Script that starts training runs that wait for data forever, each in a fork, and sends each one a Ctrl-C.

Arguments: names of cases. Prints a JSON object {case: {"seconds": time from the Ctrl-C to the end, "output": text}}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback

import numpy as np

from tensorpack_lite import (
    AsyncMultiGPUTrainer,
    BatchQueueInput,
    Callback,
    DataFlow,
    DataFromList,
    DataParallelInferenceRunner,
    FeedInput,
    InferenceRunner,
    ModelDesc,
    PeriodicTrigger,
    QueueInput,
    ScalarStats,
    SimpleTrainer,
    StagingInput,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TFDatasetInput,
    TrainConfig,
    ZMQInput,
    launch_train_with_config,
)
from tensorpack_lite import tfv1 as tf

POINTS = [[np.ones([4], "float32")]] * 3


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([4], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=0.0)
        return tf.reduce_mean((w - x) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


class Stalls(DataFlow):
    """Yields some datapoints, then blocks."""

    def __init__(self, points=POINTS):
        self.points = points

    def __len__(self):
        return 10

    def __iter__(self):
        yield from self.points
        print("WAITING", flush=True)
        threading.Event().wait()


class Watch(Callback):
    """Uses the session in after_train, where it must still be open."""

    def _after_train(self):
        print("AFTER_TRAIN", float(self.trainer.sess.run(self.trainer.find_tensor("w"))))


def flowing():
    return QueueInput(DataFromList(POINTS))


def raising_handler(number, frame):
    assert threading.current_thread() is threading.main_thread()
    print("HANDLER", flush=True)
    raise ZeroDivisionError("raised by the handler")


def exit_handler(number, frame):
    print("HANDLER", flush=True)
    sys.exit(3)


def quiet_handler(number, frame):
    print("HANDLER", flush=True)


CASES = {
    "feed": lambda: {"data": FeedInput(Stalls())},
    "queue": lambda: {"data": QueueInput(Stalls())},
    "batch_queue": lambda: {"data": BatchQueueInput(Stalls([[np.float32(1)]] * 6), 4)},
    "staging": lambda: {"data": StagingInput(QueueInput(Stalls()))},
    "staging_first": lambda: {"data": StagingInput(QueueInput(Stalls([])))},
    "dataset": lambda: {"data": TFDatasetInput(Stalls())},
    "staging_dataset": lambda: {"data": StagingInput(TFDatasetInput(Stalls()))},
    "zmq": lambda: {"data": ZMQInput("ipc://stalls", 5)},
    "replicated": lambda: {"data": QueueInput(Stalls()), "trainer": SyncMultiGPUTrainerReplicated([0, 1], mode="cpu")},
    "parameter_server": lambda: {
        "data": StagingInput(QueueInput(Stalls())), "trainer": SyncMultiGPUTrainerParameterServer([0, 1])
    },
    "async": lambda: {"data": QueueInput(Stalls()), "trainer": AsyncMultiGPUTrainer([0, 1])},
    "inference": lambda: {
        "data": flowing(), "callbacks": [InferenceRunner(QueueInput(Stalls()), ScalarStats("cost"))]
    },
    "inference_dataset": lambda: {
        "data": flowing(),
        "callbacks": [PeriodicTrigger(InferenceRunner(TFDatasetInput(Stalls()), ScalarStats("cost")), every_k_epochs=1)],
    },
    "data_parallel_inference": lambda: {
        "data": flowing(), "callbacks": [DataParallelInferenceRunner(Stalls(), ScalarStats("cost"), [0, 1])]
    },
    "raising_handler": lambda: {"data": QueueInput(Stalls()), "handler": raising_handler},
    "exit_handler": lambda: {"data": TFDatasetInput(Stalls()), "handler": exit_handler},
    "quiet_handler": lambda: {"data": QueueInput(Stalls()), "handler": quiet_handler},
}  # fmt: skip


def train(data, trainer=None, callbacks=(), handler=signal.default_int_handler):
    signal.signal(signal.SIGINT, handler)
    config = TrainConfig(
        model=Model(), data=data, callbacks=[*callbacks, Watch()], monitors=[], steps_per_epoch=3, max_epoch=10**6,
    )  # fmt: skip
    launch_train_with_config(config, trainer or SimpleTrainer())


def run_case(case, output):
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        train(**CASES[case]())
        print("RETURNED")
    except BaseException as error:  # noqa: BLE001 (reported)
        traceback.print_exc()
        print("RAISED", type(error).__name__)
    print("SIGINT", signal.getsignal(signal.SIGINT).__name__, signal.set_wakeup_fd(-1), flush=True)
    os._exit(0)


def start(case):
    """Start a case and return its pid and its output."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        run_case(case, sender)
    os.close(sender)
    return pid, os.fdopen(receiver)


def wait_until_it_waits(output, has_data):
    """Read the output until the first epoch has begun and, unless there is no data, the data waits."""
    text = ""
    for line in output:
        text += line
        if "Start epoch 1 " in text and ("WAITING" in text or not has_data):
            break
    return text


def main():
    report = {}
    for case in sys.argv[1:]:
        pid, output = start(case)
        before = wait_until_it_waits(output, has_data=case != "zmq")
        time.sleep(0.7)  # until the main thread waits as well
        begin = time.monotonic()
        os.kill(pid, signal.SIGINT)
        killer = threading.Timer(20, os.kill, [pid, signal.SIGKILL])
        killer.start()
        after = output.read()
        killer.cancel()
        os.waitpid(pid, 0)
        report[case] = {"seconds": time.monotonic() - begin, "output": before + after}
    print(json.dumps(report))


if __name__ == "__main__":
    main()

"""
Script that starts training runs, each in a fork, sends each one its signals, and starts those with exact resume again.

Arguments: an empty directory, and names of CASES. Prints a JSON object {case: {"codes": exit codes of the processes, negative for
a signal, "outputs": their texts, "steps": the checkpoints after the signal, "rows": stats.json, "w" and "global_step": the
variables in the last checkpoint}}. A process is sent its signals when it has printed all of `ready`, and `delay` seconds later.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time

import numpy as np

from tensorpack_lite import (
    DEFAULT_EXTENSIONS,
    AsyncMultiGPUTrainer,
    AutoResumeTrainConfig,
    BatchQueueInput,
    Callback,
    DataFlow,
    DataFromList,
    DataParallelInferenceRunner,
    FeedInput,
    InferenceRunner,
    JSONWriter,
    ModelDesc,
    ModelSaver,
    MultiProcessMapData,
    PeriodicTrigger,
    QueueInput,
    RepeatedData,
    ScalarStats,
    SimpleTrainer,
    StagingInput,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TFDatasetInput,
    ZMQInput,
    launch_train_with_config,
)
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.utils import logger

POINT = [np.ones([4], "float32")]
READY_AT = 6  # the global_step: the second step of the second epoch


def tell(*words):
    """Write a line at once: with `print`, the lines of two threads may mix."""
    sys.stdout.flush()
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def pause(seconds=0.5):
    """Print READY, and sleep in small pieces, during which a signal arrives."""
    tell("READY")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


def pause_long():
    pause(100)


def pause_and_fill_disk():
    pause()
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))


class Model(ModelDesc):
    """The mean of (w - x)^2. By option, a step of the first process takes long inside the graph."""

    def __init__(self, is_slow):
        self.is_slow = is_slow

    def inputs(self):
        return [tf.TensorSpec([4], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", initializer=0.0)
        if self.is_slow:
            x = tf.numpy_function(self.wait, [x, tf.train.get_or_create_global_step()], tf.float32)
        return tf.reduce_mean((w - x) ** 2, name="cost")

    def wait(self, x, step):
        if step == READY_AT - 1:
            tell("READY")
            time.sleep(1.5)
        return x

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


class Stalls(DataFlow):
    """Yields `size` datapoints. After `number` of them, prints READY and blocks for some seconds, or forever."""

    def __init__(self, number, seconds=None, size=10**6, tells=True, point=POINT):
        self.number, self.seconds, self.size, self.tells, self.point = number, seconds, size, tells, point

    def __len__(self):
        return self.size

    def __iter__(self):
        for k in range(self.size):
            if k == self.number:
                if self.tells:
                    tell("READY")
                threading.Event().wait(self.seconds)
            if k == self.size - 1:
                tell("LAST DATAPOINT")
            yield self.point


def same(point):
    return point


def mapped():
    return MultiProcessMapData(RepeatedData(DataFromList([POINT]), -1), 2, same, buffer_size=4)


class BeginsWithReady(ScalarStats):
    """Prints READY when a round of validation begins; the input reads ahead and would print it earlier."""

    def _before_inference(self):
        super()._before_inference()
        tell("READY")


class Tally(Callback):
    """Counts its triggers in each row of stats.json, and reads the variable when training ends."""

    def __init__(self, name):
        self.name, self.steps, self.epochs = name, 0, 0

    def _trigger_step(self):
        self.steps += 1

    def _trigger_epoch(self):
        self.epochs += 1
        self.trainer.monitors.put_scalar(f"{self.name}-steps", self.steps)
        self.trainer.monitors.put_scalar(f"{self.name}-epochs", self.epochs)

    def _after_train(self):
        tell("AFTER_TRAIN", float(self.trainer.sess.run(self.trainer.find_tensor("w"))))

    def state_dict(self):
        return {"steps": self.steps, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.steps, self.epochs = state["steps"], state["epochs"]

    def __str__(self):
        return f"Tally-{self.name}"


class At(Callback):
    """Calls a function at a moment of the step that is READY_AT, or before the first one."""

    def __init__(self, moment=None, function=None):
        self.moment, self.function = moment, function

    def _call(self, moment, step):
        if moment == self.moment and self.global_step == step:
            self.function()

    def _before_train(self):
        self._call("before_train", 0)

    def _after_run(self, ctx, values):
        self._call("after_run", READY_AT)

    def _trigger_step(self):
        self._call("trigger_step", READY_AT)


def mine(number, frame):
    tell("HANDLER", number)


def raising(number, frame):
    tell("HANDLER", number)
    raise ZeroDivisionError("of the handler")


def exiting(number, frame):
    tell("HANDLER", number)
    sys.exit(3)


def inference(source):
    return InferenceRunner(source, ScalarStats("cost"))


def points(number, seconds=None):
    """Five datapoints for validation, after `number` of which it stalls, without READY."""
    return Stalls(number, seconds, 5, False)


PLAIN = {
    "signals": [signal.SIGTERM], "to_group": False, "ready": ["READY", "Start epoch 1 "], "delay": 0.2, "handler": None,
    "catches": False, "exact": True, "has_saver": True, "end_within": 20, "is_slow": False, "at": (), "trainer": SimpleTrainer,
    "data": lambda: FeedInput(DataFromList([POINT])), "validation": lambda number: inference(points(-1)),
    "validate_every": 2,
}  # fmt: skip
"""Defaults of a case. Only in the first process, data and validation stall and `at` is called."""


def at(moment="after_run", function=pause, **options):
    return {"at": (moment, function), **options}


def ctrl_c(function=pause, **options):
    return at("after_run", function, **{"signals": [signal.SIGINT], **options})


def waits(make_data, **options):
    """A training whose main thread waits inside TensorFlow when Ctrl-C comes, without exact resume."""
    return {
        "data": make_data,
        "signals": [signal.SIGINT],
        "delay": 0.7,
        "exact": False,
        "has_saver": False,
        **options,
    }


def validates(make_validation):
    return waits(PLAIN["data"], validation=make_validation, validate_every=1)


CASES = {
    "undisturbed": {"signals": []},
    "step": at(),
    "usr1": at(signals=[signal.SIGUSR1]),
    "chained": at(handler=(signal.SIGTERM, mine)),
    "group": at(data=lambda: QueueInput(mapped()), to_group=True),
    "long_step": {"is_slow": True},
    "waiting": {"data": lambda: QueueInput(Stalls(READY_AT, 20)), "delay": 1.5},
    "staging": {"data": lambda: StagingInput(QueueInput(Stalls(READY_AT, 2.5))), "delay": 1.5},
    "validation": {"validation": lambda number: InferenceRunner(points(number, 0.5), BeginsWithReady("cost"))},
    "parallel_validation": {
        "validation": lambda number: DataParallelInferenceRunner(points(number), BeginsWithReady("cost"), [0])
    },
    "validation_waits": {
        "validation": lambda number: InferenceRunner(QueueInput(points(number)), BeginsWithReady("cost"))
    },
    "before": at("before_train", ready=["READY"]),
    "second": at(function=pause_long, signals=[signal.SIGTERM] * 2),
    "limit": at("trigger_step", pause_long, end_within=1),
    "disk": at(function=pause_and_fill_disk),
    "no_saver": at(has_saver=False),
    "ctrl_c": ctrl_c(),
    "ctrl_c_waiting": {
        "data": lambda: QueueInput(Stalls(READY_AT)),
        "delay": 1.5,
        "signals": [signal.SIGINT],
    },
    "ctrl_c_twice": ctrl_c(function=pause_long, signals=[signal.SIGINT] * 2),
    "ctrl_c_not_exact": ctrl_c(function=pause_long, exact=False),
    "ctrl_c_no_saver": ctrl_c(function=pause_long, has_saver=False),
    "ctrl_c_caught": ctrl_c(catches=True),
    "ctrl_c_caught_not_exact": ctrl_c(function=pause_long, catches=True, exact=False),
    "ctrl_c_own_handler": ctrl_c(function=pause_long, handler=(signal.SIGINT, raising)),
    "queue": waits(lambda: QueueInput(Stalls(3))),
    "staging_first": waits(lambda: StagingInput(QueueInput(Stalls(0)))),
    "dataset": waits(lambda: TFDatasetInput(Stalls(3))),
    "inference": validates(lambda _: inference(QueueInput(Stalls(3, None, 10)))),
    "feed": waits(lambda: FeedInput(Stalls(3))),
    "batch_queue": waits(lambda: BatchQueueInput(Stalls(6, point=[np.float32(1)]), 4)),
    "after_staging": waits(lambda: StagingInput(QueueInput(Stalls(3)))),
    "staging_dataset": waits(lambda: StagingInput(TFDatasetInput(Stalls(3)))),
    "zmq": waits(lambda: ZMQInput("ipc://stalls", 5), ready=["Start epoch 1 "]),
    "replicated": waits(
        lambda: QueueInput(Stalls(3)), trainer=lambda: SyncMultiGPUTrainerReplicated([0, 1], mode="cpu")
    ),
    "parameter_server": waits(
        lambda: StagingInput(QueueInput(Stalls(3))),
        trainer=lambda: SyncMultiGPUTrainerParameterServer([0, 1]),
    ),
    "async": waits(lambda: QueueInput(Stalls(3)), trainer=lambda: AsyncMultiGPUTrainer([0, 1])),
    "inference_dataset": validates(lambda _: inference(TFDatasetInput(Stalls(3, None, 10)))),
    "data_parallel_inference": validates(
        lambda _: DataParallelInferenceRunner(Stalls(3, None, 10), ScalarStats("cost"), [0, 1])
    ),
    "raising_handler": waits(lambda: QueueInput(Stalls(3)), handler=(signal.SIGINT, raising)),
    "exiting_handler": waits(lambda: TFDatasetInput(Stalls(3)), handler=(signal.SIGINT, exiting)),
    "quiet_handler": waits(lambda: QueueInput(Stalls(3)), handler=(signal.SIGINT, mine)),
}


def train(case, directory, is_first):
    """Train a case in this process, to which the signals come."""
    logger.set_logger_dir(directory, action="k")
    used = case if is_first else PLAIN
    validation = PeriodicTrigger(case["validation"](2 if is_first else -1), every_k_epochs=case["validate_every"])
    saver = [PeriodicTrigger(ModelSaver(), every_k_epochs=1)] if case["has_saver"] else []
    config = AutoResumeTrainConfig(
        model=Model(used["is_slow"]),
        data=used["data"](),
        callbacks=[Tally("first"), At(*used["at"]), validation, *saver, Tally("last")],
        extra_callbacks=[],
        monitors=[JSONWriter()],
        steps_per_epoch=4,
        max_epoch=3,
        exact=case["exact"],
    )
    trainer = case["trainer"]()
    trainer.extensions = DEFAULT_EXTENSIONS(end_within=case["end_within"])
    launch_train_with_config(config, trainer)


def name_of_handler(number):
    handler = signal.getsignal(number)
    return handler.__name__ if callable(handler) else int(handler)


def run_here(case, directory, is_first):
    """Train, and show the error and the handlers of signals. The process ends like one whose script this is."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if case["handler"]:
        signal.signal(*case["handler"])
    try:
        train(case, directory, is_first)
    except BaseException as error:
        tell("RAISED", type(error).__name__, error)
        if not (case["catches"] and isinstance(error, KeyboardInterrupt)):
            raise
        tell("CAUGHT", isinstance(error, SystemExit))
    finally:
        names = map(name_of_handler, (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1))
        tell("HANDLERS", *names, signal.set_wakeup_fd(-1))
    tell("RETURNED")


def start(case, directory, is_first):
    """Fork. Return the pid and the output in this process; the other one trains, and never returns."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        os.dup2(sender, 1)
        os.dup2(sender, 2)
        run_here(case, directory, is_first)
        sys.exit()
    os.close(sender)
    return pid, os.fdopen(receiver)


def finish(pid, output, case=None):
    """Wait until a process has ended, and send it the signals of a case when it is ready. Return exit code and output."""
    text = ""
    for line in output:
        text += line
        if case and case["signals"] and all(part in text for part in case["ready"]):
            time.sleep(case["delay"])  # until the main thread waits as well
            killer = threading.Timer(30, os.kill, [pid, signal.SIGKILL])
            for number in case["signals"]:
                (os.killpg if case["to_group"] else os.kill)(pid, number)
                time.sleep(0.5 if number is not case["signals"][-1] or len(case["signals"]) > 1 else 0)
            killer.start()
            text += output.read()
            killer.cancel()
    status = os.waitpid(pid, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), text


def steps_in(directory):
    names = os.listdir(directory)
    return sorted(int(name[6:-6]) for name in names if name.startswith("model-") and name.endswith(".index"))


def run(case, directory):
    """Run a case to its end, and return what is left of it."""
    code, output = finish(*start(case, directory, True), case)
    result = {"codes": [code], "outputs": [output], "steps": steps_in(directory)}
    if code != 0 and case["exact"]:
        code, output = finish(*start(case, directory, False))
        result["codes"].append(code)
        result["outputs"].append(output)
    stats = os.path.join(directory, "stats.json")
    if os.path.exists(stats):
        with open(stats) as file:
            result["rows"] = json.load(file)
    path = tf.train.latest_checkpoint(directory)
    if path is not None:
        result["w"] = float(tf.train.load_variable(path, "w"))
        result["global_step"] = int(tf.train.load_variable(path, "global_step"))
    return result


def main():
    report = {}
    for name in sys.argv[2:]:
        directory = os.path.join(sys.argv[1], name)
        os.makedirs(directory)
        report[name] = run({**PLAIN, **CASES[name]}, directory)
    print(json.dumps(report))


if __name__ == "__main__":
    main()

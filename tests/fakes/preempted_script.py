"""
Script that starts training runs, each in a fork, sends each one a signal, and starts it again until it has finished.

Arguments: an empty directory, and names of cases. Prints a JSON object {case: {"codes": exit codes of the processes, negative for
a signal, "seconds": time from the signal to the end, "output": text of all processes, "rows": stats.json without times,
"w": the variable in the last checkpoint, "steps": the checkpoints after the signal}}.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback

import numpy as np

from tensorpack_lite import (
    DEFAULT_EXTENSIONS,
    AutoResumeTrainConfig,
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


def ready():
    tell("READY")


def sleep(seconds):
    """Sleep in small pieces, during which the signal arrives."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


class Model(ModelDesc):
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
            ready()
            time.sleep(1.5)
        return x

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


class Stalls(DataFlow):
    """Yields some datapoints, then blocks if `stalls`."""

    def __init__(self, number, stalls, tells=True):
        self.number, self.stalls, self.tells = number, stalls, tells

    def __len__(self):
        return 5

    def __iter__(self):
        for _ in range(self.number):
            yield POINT
        if self.stalls:
            if self.tells:
                ready()
            threading.Event().wait()
        for _ in range(5 - self.number):
            yield POINT


class BeginsWithReady(ScalarStats):
    """Prints READY when a round of validation begins; the input reads ahead and would print it earlier."""

    def _before_inference(self):
        super()._before_inference()
        ready()


class Slow(DataFlow):
    """Validation data during which the signal arrives."""

    def __init__(self, waits):
        self.waits = waits

    def __len__(self):
        return 5

    def __iter__(self):
        for k in range(5):
            if k == 2 and self.waits:
                ready()
                sleep(0.5)
            if k == 4 and self.waits:
                tell("ROUND WAS NOT DROPPED")
            yield POINT


class Tally(Callback):
    """Counts its triggers in each row of stats.json."""

    def __init__(self, name):
        self.name, self.steps, self.epochs = name, 0, 0

    def _trigger_step(self):
        self.steps += 1

    def _trigger_epoch(self):
        self.epochs += 1
        self.trainer.monitors.put_scalar(f"{self.name}-steps", self.steps)
        self.trainer.monitors.put_scalar(f"{self.name}-epochs", self.epochs)

    def _after_train(self):
        tell("AFTER_TRAIN")

    def state_dict(self):
        return {"steps": self.steps, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.steps, self.epochs = state["steps"], state["epochs"]

    def __str__(self):
        return f"Tally-{self.name}"


class At(Callback):
    """Calls a function at a moment of the step that is READY_AT."""

    def __init__(self, moment, function):
        self.moment, self.function = moment, function

    def _call(self, moment):
        if moment == self.moment and self.global_step in (0, READY_AT):
            self.function()

    def _before_train(self):
        self._call("before_train")

    def _after_run(self, ctx, values):
        if self.global_step == READY_AT:
            self._call("after_run")

    def _trigger_step(self):
        self._call("trigger_step")


def pause(seconds=0.5):
    ready()
    sleep(seconds)


def fill_disk():
    ready()
    sleep(0.5)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))


def same(point):
    return point


def mapped():
    return MultiProcessMapData(RepeatedData(DataFromList([POINT]), -1), 2, same, buffer_size=4)


def mine(number, frame):
    tell("HANDLER", number)


# case -> (moment and function of the callback `At`, if any)
AT = {
    "step": ("after_run", pause), "usr1": ("after_run", pause), "chained": ("after_run", pause),
    "before": ("before_train", pause), "group": ("after_run", pause),
    "second": ("after_run", lambda: pause(20)), "limit": ("trigger_step", lambda: pause(20)),
    "no_saver": ("after_run", pause), "disk": ("after_run", fill_disk),
}  # fmt: skip


def data_of(case, is_first):
    if case == "group":
        return QueueInput(mapped())
    if case == "waiting":
        return QueueInput(StallsLater(READY_AT, 20) if is_first else DataFromList([POINT]))
    if case == "staging":
        return StagingInput(QueueInput(StallsLater(READY_AT, 2.5) if is_first else DataFromList([POINT])))
    return FeedInput(DataFromList([POINT]))


class StallsLater(DataFlow):
    """Yields a number of datapoints, then blocks for some seconds."""

    def __init__(self, number, seconds):
        self.number, self.seconds = number, seconds

    def __iter__(self):
        for _ in range(self.number):
            yield POINT
        ready()
        threading.Event().wait(self.seconds)
        while True:
            yield POINT


def validation_of(case, is_first):
    if case == "validation":
        return InferenceRunner(Slow(is_first), ScalarStats("cost"))
    statistic = BeginsWithReady if is_first else ScalarStats
    if case == "parallel_validation":
        return DataParallelInferenceRunner(Stalls(2, is_first, tells=False), statistic("cost"), [0])
    if case == "validation_waits":
        return InferenceRunner(QueueInput(Stalls(2, is_first, tells=False)), statistic("cost"))
    return InferenceRunner(Slow(False), ScalarStats("cost"))


def train(case, directory, is_first):
    logger.set_logger_dir(directory, action="k")
    if case == "chained":
        signal.signal(signal.SIGTERM, mine)
    at = [At(*AT[case])] if case in AT and is_first else [At("never", None)]
    saver = [] if case == "no_saver" else [PeriodicTrigger(ModelSaver(), every_k_epochs=1)]
    validation = PeriodicTrigger(validation_of(case, is_first), every_k_epochs=2)
    config = AutoResumeTrainConfig(
        model=Model(case == "long_step" and is_first),
        data=data_of(case, is_first),
        callbacks=[Tally("first"), *at, validation, *saver, Tally("last")],
        extra_callbacks=[],
        monitors=[JSONWriter()],
        steps_per_epoch=4,
        max_epoch=3,
        exact=True,
    )
    trainer = SimpleTrainer()
    trainer.extensions = DEFAULT_EXTENSIONS(end_within=1 if case == "limit" else 20)
    try:
        launch_train_with_config(config, trainer)
    finally:
        print(
            "HANDLERS",
            *map(handler_of, (signal.SIGTERM, signal.SIGUSR1)),
            signal.set_wakeup_fd(-1),
            flush=True,
        )
    tell("RETURNED")


def handler_of(number):
    handler = signal.getsignal(number)
    return handler.__name__ if callable(handler) else int(handler)


def run_case(case, directory, is_first, output):
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.setsid()
    code = 0
    try:
        train(case, directory, is_first)
    except SystemExit as error:
        tell("RAISED", type(error).__name__, error)
        code = error.code
    except BaseException:  # noqa: BLE001 (reported)
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def start(case, directory, is_first):
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        run_case(case, directory, is_first, sender)
    os.close(sender)
    return pid, os.fdopen(receiver)


def send(case, pid):
    if case == "group":
        os.killpg(pid, signal.SIGTERM)
        return
    os.kill(pid, signal.SIGUSR1 if case == "usr1" else signal.SIGTERM)
    if case == "second":
        time.sleep(0.3)
        os.kill(pid, signal.SIGTERM)


def finish(pid, output, case=None):
    """Wait until a process has ended, and send it a signal when it is ready. Return exit code, output and seconds."""
    lines, begin = [], time.monotonic()
    for line in output:
        lines.append(line)
        if case and line == "READY\n":
            time.sleep(1.5 if case in ("waiting", "staging") else 0.2)  # until the main thread waits as well
            begin, killer = time.monotonic(), threading.Timer(30, os.kill, [pid, signal.SIGKILL])
            send(case, pid)
            killer.start()
            lines += output.readlines()
            killer.cancel()
    status = os.waitpid(pid, 0)[1]
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return code, "".join(lines), time.monotonic() - begin


def steps_in(directory):
    names = os.listdir(directory)
    return sorted(int(name[6:-6]) for name in names if name.startswith("model-") and name.endswith(".index"))


def run(case, directory):
    code, output, seconds = finish(*start(case, directory, case != "undisturbed"), case)
    steps = steps_in(directory)
    codes = [code]
    if code != 0:
        code, more, _ = finish(*start(case, directory, False))
        output, codes = output + "--- again\n" + more, [*codes, code]
    with open(os.path.join(directory, "stats.json")) as file:
        rows = json.load(file)
    result = {"codes": codes, "output": output, "seconds": seconds, "rows": rows, "steps": steps}
    path = tf.train.latest_checkpoint(directory)
    result["w"] = None if path is None else float(tf.train.load_variable(path, "w"))
    result["global_step"] = None if path is None else int(tf.train.load_variable(path, "global_step"))
    return result


def main():
    report = {}
    for case in sys.argv[2:]:
        directory = os.path.join(sys.argv[1], case)
        os.makedirs(directory)
        report[case] = run(case, directory)
    print(json.dumps(report))


if __name__ == "__main__":
    main()

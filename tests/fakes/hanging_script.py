"""
Training runs that hang, each in a fork: `hanging_script.py DIRECTORY ON_HANG CASE ...`.

Limits are 2 s instead of minutes. Each training logs to DIRECTORY/CASE. Prints a JSON object {case: exit code}.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time

import numpy as np

from tensorpack_lite import (
    Callback,
    FeedInput,
    InferenceRunner,
    ModelDesc,
    QueueInput,
    ScalarStats,
    SimpleTrainer,
    TrainConfig,
    launch_train_with_config,
    logger,
)
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import (
    DataFlow,
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    RepeatedData,
)
from tensorpack_lite.diagnostics.hangs import detector

FOREVER = 1000
UNABLE = 77  # exit code if this machine does not allow a case
LOCK, OTHER_LOCK = threading.Lock(), threading.Lock()
NUMBERS = [[np.float32(number)] for number in range(50)]
FILES = [[f"/data/{number:03}.jpg", np.float32(number)] for number in range(50)]


def read_and_crop(datapoint):
    path, number = datapoint
    time.sleep(0.002)
    if path == "/data/037.jpg":
        time.sleep(FOREVER)
    return [number]


def stop_yourself(datapoint):
    path, number = datapoint
    if path == "/data/037.jpg":
        os.kill(os.getpid(), signal.SIGSTOP)
    return [number]


def take_lock(datapoint):
    with LOCK:
        return datapoint[1:]


def find_file(datapoint):
    """Never returns for a datapoint without any string or number; `describe` knows its file."""
    if datapoint[0].tobytes() == b"/data/037.jpg":
        time.sleep(FOREVER)
    return [np.float32(0)]


find_file.describe = lambda datapoint: f"file {datapoint[0].tobytes().decode()}"


def wait_for_room(datapoint):
    """Wait, like a writer to shared memory, until /dev/shm has room."""
    path, number = datapoint
    while path == "/data/037.jpg" and os.statvfs("/dev/shm").f_bavail == 0:
        time.sleep(0.05)
    return [number]


def wait_for_disk(datapoint):
    """Wait in the kernel, where no signal arrives: for a process that is being started, whose input is a FIFO without a writer."""
    path, number = datapoint
    if path == "/data/037.jpg":
        fifo = os.path.join(os.environ["DIRECTORY"], "fifo")
        os.mkfifo(fifo)
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)])
    return [number]


def fill_shared_memory():
    """Mount a file system of 1 MB on /dev/shm, which only this process and its workers see, and fill it. Needs root."""
    library, private, unshared = ctypes.CDLL(None, use_errno=True), 1 << 18, 0x20000
    if library.unshare(unshared) or library.mount(b"none", b"/", None, private | 1 << 14, None):
        sys.exit(UNABLE)
    if library.mount(b"none", b"/dev/shm", b"tmpfs", 0, b"size=1m"):
        sys.exit(UNABLE)
    with open("/dev/shm/full", "wb") as file:
        file.write(bytes(1 << 20))


class TakesLockAtStart(DataFlow):
    """Needs a lock before its first datapoint."""

    def __iter__(self):
        with LOCK:
            yield from NUMBERS


class SlowReader(DataFlow):
    """Blocks at its 38th datapoint."""

    def __iter__(self):
        for datapoint in NUMBERS:
            if int(datapoint[0]) == 37:
                time.sleep(FOREVER)
            yield datapoint


class Short(DataFlow):
    """Has fewer datapoints than its length says."""

    def __init__(self, datapoints):
        self.datapoints = datapoints

    def __len__(self):
        return len(self.datapoints) + 3

    def __iter__(self):
        yield from self.datapoints


class WaitsForLock(Callback):
    """Takes a lock that is never released."""

    def _trigger_step(self):
        if self.global_step == 20:
            LOCK.acquire()
            LOCK.acquire()


class Deadlock(Callback):
    """Takes two locks in the wrong order."""

    def _trigger_step(self):
        if self.global_step == 20:
            taken = threading.Event()
            thread = threading.Thread(target=self.take_both, args=(taken,), name="loader", daemon=True)
            with LOCK:
                thread.start()
                taken.wait()
                with OTHER_LOCK:
                    pass

    def take_both(self, taken):
        with OTHER_LOCK:
            taken.set()
            with LOCK:
                pass


class SleepsInRun(Callback):
    """Sleeps before a run."""

    def _before_run(self, ctx):
        if self.global_step == 20:
            time.sleep(FOREVER)


class HoldsInterpreter(Callback):
    """Sleeps in native code, without releasing the interpreter's lock."""

    def _trigger_step(self):
        if self.global_step == 20:
            time.sleep(1)  # until there is an alarm, if any
            while True:  # a signal ends a call of sleep
                ctypes.PyDLL(None).sleep(FOREVER)


class Moves(Callback):
    """Takes longer than the limit, in parts."""

    def _trigger_step(self):
        if self.global_step == 20:
            for _ in range(8):
                time.sleep(0.5)
                self.trainer.end_if_preempted()


class StopsTraining(Callback):
    """Stops the process of the training for longer than the limit."""

    def _trigger_step(self):
        if self.global_step == 20:
            waker = os.fork()
            if waker == 0:
                time.sleep(4)
                os.kill(os.getppid(), signal.SIGCONT)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSTOP)
            os.waitpid(waker, 0)


class Debugged(Callback):
    """Is in a debugger."""

    def _trigger_step(self):
        if self.global_step == 20:
            code = compile("import time\ndef interaction():\n    time.sleep(5)\n", "/usr/lib/pdb.py", "exec")
            names = {}
            exec(code, names)
            names["interaction"]()


class Computes(Callback):
    """Computes for longer than the limit."""

    def _trigger_step(self):
        if self.global_step == 20:
            end = time.monotonic() + 5
            while time.monotonic() < end:
                sum(range(1000))


class Model(ModelDesc):
    def __init__(self, blocks=False):
        self.blocks = blocks

    def inputs(self):
        return [TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        if self.blocks:
            x = tf.py_func(block_at_37, [x], tf.float32)
            x.set_shape([])
        return tf.square(w - x, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.001)


def block_at_37(x):
    if int(x) == 37:
        time.sleep(FOREVER)
    return x


def numbers():
    return DataFromList(NUMBERS, shuffle=False)


def files():
    return DataFromList(FILES, shuffle=False)


def queue(stage, *args, **kwargs):
    """Return a QueueInput over a stage that reads the files."""
    return QueueInput(stage(files(), *args, **kwargs))


def two_workers(function):
    return queue(MultiProcessMapData, 2, function, buffer_size=8)


def while_locked(make_data):
    LOCK.acquire()  # by the main process, before it forks
    return make_data()


def without_strings():
    paths = [[np.frombuffer(path.encode(), np.uint8)] for path, _ in FILES]
    return QueueInput(MultiProcessMapData(DataFromList(paths, shuffle=False), 2, find_file, buffer_size=8))


def with_full_memory():
    fill_shared_memory()
    return two_workers(wait_for_room)


def endless():
    return QueueInput(RepeatedData(numbers(), -1))


def validated(source):
    return [InferenceRunner(source, [ScalarStats("cost")])]


# case -> a function that makes the data
DATA = {
    "map": lambda: two_workers(read_and_crop),
    "sigstop": lambda: two_workers(stop_yourself),
    "fork_lock": lambda: while_locked(lambda: two_workers(take_lock)),
    "runner_lock": lambda: while_locked(lambda: QueueInput(MultiProcessRunner(TakesLockAtStart(), 8, 1))),
    "describe": without_strings,
    "shared_memory": with_full_memory,
    "disk": lambda: queue(MultiProcessMapData, 1, wait_for_disk, buffer_size=8),
    "runner": lambda: QueueInput(MultiProcessRunner(MapData(files(), read_and_crop), 8, 1)),
    "threads": lambda: queue(MultiThreadMapData, 2, read_and_crop, buffer_size=8),
    "reader": lambda: QueueInput(SlowReader()),
    "feed": lambda: FeedInput(MapData(files(), read_and_crop)),
    "graph": endless,
    "validation": endless,
    "short_validation": endless,
}
# case -> a function that makes the callbacks
CALLBACKS = {
    "lock": lambda: [WaitsForLock()],
    "deadlock": lambda: [Deadlock()],
    "before_run": lambda: [SleepsInRun()],
    "native": lambda: [HoldsInterpreter()],
    "parts": lambda: [Moves()],
    "stopped": lambda: [StopsTraining()],
    "debugger": lambda: [Debugged()],
    "computing": lambda: [Computes()],
    "validation": lambda: validated(queue(MapData, read_and_crop)),
    "short_validation": lambda: validated(QueueInput(Short([[np.float32(1)]] * 5))),
}
SHORT = ("parts", "stopped", "debugger", "computing", "validation", "short_validation")


def train(case, log_dir, on_hang):
    logger.set_logger_dir(log_dir, action="d")
    os.environ["DIRECTORY"] = log_dir
    detector._POLL_SECONDS = 0.25
    detector._STEP_SECONDS = detector._FIRST_SECONDS = float(os.environ.get("LIMIT", "2"))
    config = TrainConfig(
        data=DATA.get(case, lambda: QueueInput(numbers()))(),
        model=Model(blocks=case == "graph"),
        callbacks=CALLBACKS.get(case, list)(),
        steps_per_epoch=40 if case in SHORT else 100,
        max_epoch=1,
        on_hang=on_hang,
    )
    launch_train_with_config(config, SimpleTrainer())


def main(directory, on_hang, *cases):
    codes = {}
    for case in cases:
        pid = os.fork()
        if pid == 0:
            sys.stdout = sys.stderr
            train(case, os.path.join(directory, case), on_hang)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if case == "disk":  # let the process that was being started end
            os.close(os.open(os.path.join(directory, case, "fifo"), os.O_WRONLY | os.O_NONBLOCK))
        codes[case] = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    print(json.dumps(codes))


if __name__ == "__main__":
    main(*sys.argv[1:])

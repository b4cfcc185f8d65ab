"""
The failures of `test_failures.py`, as a program: one pipeline and one consumer, each fault in a process of its own.

    python failure_cases.py PIPELINE CONSUMER START_METHOD FAULT...

imports what it needs once, and forks a process for each fault, which is so as fresh as a new one. In it the pipeline fails at
its fifth datapoint, nobody catches the error, and the interpreter ends as it does for a user. What is wrong with the
error, with the time that it took, and with what was left behind is printed as JSON, {fault: [sentences]}.
"""

from __future__ import annotations

import contextlib
import gc
import glob
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.map_and_batch import MultiProcessMapAndBatchDataZMQ
from tensorpack_lite.dataflow.map_process import MultiProcessMapDataZMQ
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.repeat import FixedSizeData
from tensorpack_lite.dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner

SIZE = 40  # datapoints in a pass
FAULT_AT = 5
BATCH = 4
CASE_SECONDS = 15  # a case that takes longer hangs
EXIT_SECONDS = 8  # from the error to the end of the process
NOTE = "faults.txt"  # in the directory of the case: when, and in which process
SEEN = "seen.txt"
LEFT = "left.txt"
OUTPUT = "output.txt"
LATE = "late:"  # begins what is wrong with times


class OfMyOwn(Exception):
    """Takes other arguments than a text."""

    def __init__(self, code, place):
        super().__init__(code, place)
        self.code, self.place = code, place


class Unpicklable(Exception):
    """Holds what cannot be sent."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class Mute(Exception):
    """Has no text."""

    def __str__(self):
        raise TypeError("planted: no text")


class Fault:
    """Something that goes wrong, and a note of when and where."""

    def __init__(self, kind, directory):
        self.kind, self.directory, self.delay = kind, directory, 0.0

    def misbehave(self, datapoint):
        """Do it; gives a strange datapoint if that is the fault."""
        time.sleep(self.delay)
        line = f"{time.time()} {os.getpid()}\n".encode()
        file = os.open(os.path.join(self.directory, NOTE), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, line)  # whole, although several workers do the same
        os.close(file)
        return FAULTS[self.kind](datapoint)


def raises(make_error):
    """A fault that is an exception."""

    def misbehave(datapoint):
        raise make_error()

    return misbehave


def end_process(datapoint):
    """Without a word to anybody."""
    os._exit(3)


FAULTS = {
    "error": raises(lambda: ValueError("planted")),
    "no text": raises(IndexError),
    "unicode error": raises(lambda: UnicodeDecodeError("utf8", b"x", 0, 1, "planted")),
    "error with a number": raises(lambda: FileNotFoundError(2, "planted", "name")),
    "error of one's own": raises(lambda: OfMyOwn(17, "planted")),
    "unpicklable error": raises(lambda: Unpicklable("planted")),
    "mute error": raises(Mute),
    "stop iteration": raises(lambda: StopIteration("planted")),
    "system exit": raises(lambda: SystemExit(0)),
    "ctrl-c": raises(KeyboardInterrupt),
    "sigkill": lambda datapoint: os.kill(os.getpid(), signal.SIGKILL),
    "sigsegv": lambda datapoint: os.kill(os.getpid(), signal.SIGSEGV),
    "os._exit": end_process,
    "unpicklable datapoint": lambda datapoint: [lambda: None],
    "components": lambda datapoint: [*datapoint, 1],
    "shape": lambda datapoint: [datapoint[0][:3]],
    "dtype": lambda datapoint: [np.array(list("abcd"))],
}
DEADLY = {"sigkill": "SIGKILL", "sigsegv": "SIGSEGV", "os._exit": "exit code 3"}
DRIFTS = {"components": "different components", "shape": "shapes", "dtype": "types"}
TEXTS = {  # what must be read in the end
    "error": "ValueError: .*planted",
    "no text": "IndexError",
    "unicode error": "UnicodeDecodeError.*planted",
    "error with a number": "FileNotFoundError: .*planted",
    "error of one's own": "OfMyOwn.*planted",
    "unpicklable error": "Unpicklable: .*planted",
    "mute error": "Mute",
    "stop iteration": "StopIteration",
    "system exit": "SystemExit",
    "ctrl-c": "KeyboardInterrupt",
    "unpicklable datapoint": "(?i)can(not|'t) pickle|a datapoint holds|cannot be stacked",
    **DEADLY,
    **DRIFTS,
}


class Source(DataFlow):
    """Datapoints [array of four numbers]; perhaps one goes wrong."""

    def __init__(self, fault=None):
        self.fault = fault

    def __iter__(self):
        for k in range(SIZE):
            datapoint = [np.full(4, k, "float32")]
            yield self.fault.misbehave(datapoint) if self.fault and k == FAULT_AT else datapoint

    def __len__(self):
        return SIZE


class Function:
    """Gives the datapoint; one goes wrong."""

    def __init__(self, fault):
        self.fault = fault

    def __call__(self, datapoint):
        return self.fault.misbehave(datapoint) if datapoint[0][0] == FAULT_AT else datapoint


class Pipeline:
    """
    How to build a pipeline with a fault in it, that gives batches.

    Attributes:
        name: of the class that is tried; it must be named in errors of workers.
        where: "flow" or "function": what fails.
        kind: of its workers: "process", "thread", "sender"; None if the fault happens where the consumer is.
    """

    def __init__(self, name, where, kind, build):
        self.name, self.where, self.kind, self.build = name, where, kind, build

    def faults(self):
        """Those that make sense: a thread cannot die alone, nor minds what cannot be pickled."""
        names = list(FAULTS)
        if self.kind in (None, "thread"):
            names = [name for name in names if name not in DEADLY]
        if "Thread" in self.name:
            names = [name for name in names if name != "unpicklable datapoint"]
        if self.kind is None:  # the user's own process, of his own will
            names = [name for name in names if name not in ("system exit", "ctrl-c")]
        return names


def flow_or_function(where, fault):
    """The pipeline that runs in the worker of a runner."""
    use_list = fault.kind == "unpicklable datapoint"  # would not become an array
    return BatchData(
        Source(fault) if where == "flow" else MapData(Source(), Function(fault)), BATCH, use_list=use_list
    )


def runner(kind, *arguments):
    """Build a runner with processes around a pipeline that fails."""
    return lambda where, fault: kind(flow_or_function(where, fault), *arguments)


def mapping(kind, strict):
    """Build a map with workers; batches are made by the consumer."""

    def build(where, fault):
        source, function = (Source(fault), list) if where == "flow" else (Source(), Function(fault))
        return BatchData(kind(source, 2, function, buffer_size=6, strict=strict), BATCH)

    return build


def map_and_batch(where, fault):
    """Build a map that batches."""
    source, function = (Source(fault), list) if where == "flow" else (Source(), Function(fault))
    return MultiProcessMapAndBatchDataZMQ(source, 2, function, BATCH, 16)


def send(ds, address):
    """Run a sender, once the receiver is there: whom nobody has ever seen, nobody can miss."""
    from tensorpack_lite.dataflow.remote import send_dataflow_zmq

    silence = os.open(os.devnull, os.O_WRONLY)  # what it prints is read on another machine, if at all
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    time.sleep(0.5)
    send_dataflow_zmq(ds, address)


def remote(scheme):
    """Start a sender, and build the receiver."""

    def build(where, fault):
        from tensorpack_lite.dataflow.remote import RemoteDataZMQ

        address = f"ipc://{fault.directory}/data.socket" if scheme == "ipc" else free_address()
        fault.delay = 0.3  # what was sent before has arrived then
        sender = multiprocessing.Process(
            target=send, args=(flow_or_function(where, fault), address), daemon=True
        )
        sender.start()
        return RemoteDataZMQ(address, sender_timeout=1, start_timeout=5)

    return build


def free_address():
    """An address of this machine that nobody uses."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def pipelines(name, kind, build, flow_kind="same"):
    """The same with the fault in the flow and in the function."""
    return {
        "flow": Pipeline(name, "flow", kind if flow_kind == "same" else flow_kind, build),
        "function": Pipeline(name, "function", kind, build),
    }


PIPELINES = {
    "MultiProcessRunner": pipelines("MultiProcessRunner", "process", runner(MultiProcessRunner, 8, 2)),
    "MultiProcessRunnerZMQ": pipelines("MultiProcessRunnerZMQ", "process", runner(MultiProcessRunnerZMQ, 2)),
    "MultiThreadRunner": pipelines(
        "MultiThreadRunner",
        "thread",
        lambda where, fault: MultiThreadRunner(lambda: flow_or_function(where, fault), 8, 2),
    ),
    "MultiThreadMapData": pipelines("MultiThreadMapData", "thread", mapping(MultiThreadMapData, False), None),
    "strict MultiThreadMapData": pipelines(
        "MultiThreadMapData", "thread", mapping(MultiThreadMapData, True), None
    ),
    "MultiProcessMapData": pipelines(
        "MultiProcessMapData", "process", mapping(MultiProcessMapDataZMQ, False), None
    ),
    "strict MultiProcessMapData": pipelines(
        "MultiProcessMapData", "process", mapping(MultiProcessMapDataZMQ, True), None
    ),
    "MultiProcessMapAndBatchData": pipelines("MultiProcessMapAndBatchData", "process", map_and_batch),
    "RemoteDataZMQ tcp": pipelines("RemoteDataZMQ", "sender", remote("tcp")),
    "RemoteDataZMQ ipc": pipelines("RemoteDataZMQ", "sender", remote("ipc")),
}


def iterate(flow):
    """The plain loop."""
    flow.reset_state()
    for _ in range(1000):
        for _ in zip(range(1000), flow):
            pass


def train(flow):
    """A trainer behind a QueueInput."""
    from tensorpack_lite.input_source.queueing import QueueInput

    launch(QueueInput(flow), [], steps=50)


def infer(flow):
    """An InferenceRunner, in a training on data without fault."""
    from tensorpack_lite.callbacks.inference import ScalarStats
    from tensorpack_lite.callbacks.inference_runner import InferenceRunner
    from tensorpack_lite.input_source.feed import FeedInput

    callbacks = [InferenceRunner(FixedSizeData(flow, SIZE // BATCH), [ScalarStats("cost")])]
    launch(FeedInput(BatchData(Source(), BATCH)), callbacks, steps=2)


def launch(source, callbacks, steps):
    """Train a variable."""
    from tensorpack_lite.compat import TensorSpec
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.graph_builder.model_desc import ModelDesc
    from tensorpack_lite.train.config import TrainConfig
    from tensorpack_lite.train.interface import launch_train_with_config
    from tensorpack_lite.train.simple import SimpleTrainer

    class Model(ModelDesc):
        def inputs(self):
            return [TensorSpec([None, 4], tf.float32, "x")]

        def build_graph(self, x):
            return tf.reduce_mean((tf.get_variable("w", initializer=0.0) - x) ** 2, name="cost")

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.01)

    config = TrainConfig(
        model=Model(),
        data=source,
        callbacks=callbacks,
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps,
        max_epoch=100,
    )
    launch_train_with_config(config, SimpleTrainer())


CONSUMERS = {"iteration": iterate, "training": train, "inference": infer}


# ---- in the process of a case


def run_case(pipeline, fault_name, consumer, directory):
    """Fail. What is noted down is for `judge`."""
    fault = Fault(fault_name, directory)
    if consumer == "iteration" and pipeline.kind != "sender":  # a sender is no part of this program
        look_at_what_is_left(pipeline, fault)
    try:
        CONSUMERS[consumer](pipeline.build(pipeline.where, fault))
    except BaseException:
        with open(os.path.join(directory, SEEN), "w") as file:
            file.write(str(time.time()))
        raise


def look_at_what_is_left(pipeline, fault):
    """Once before, with the error caught: a program that goes on has no threads and no children of it."""
    with contextlib.suppress(BaseException):  # whatever it is: the second time nobody catches it
        iterate(pipeline.build(pipeline.where, fault))
    os.remove(os.path.join(fault.directory, NOTE))
    deadline = time.monotonic() + 2
    while True:
        gc.collect()
        left = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        left += [child.name for child in multiprocessing.active_children()]
        if not left:
            return
        if time.monotonic() > deadline:
            with open(os.path.join(fault.directory, LEFT), "w") as file:
                file.write(str(left))
            return
        time.sleep(0.01)


# ---- in the process that starts the cases


def try_patiently(pipeline, fault_name, consumer):
    """Run a case; what is only late is tried twice more, because any process can be held up on a busy machine."""
    for _ in range(3):
        problems = try_fault(pipeline, fault_name, consumer)
        if not problems or not all(problem.startswith(LATE) for problem in problems[:-1]):
            break
    return problems


def try_fault(pipeline, fault_name, consumer):
    """Run a case in a child; gives what is wrong."""
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    directory = tempfile.mkdtemp()  # removed by this process alone
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(directory)
        output = os.open(os.path.join(directory, OUTPUT), os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # out of everything: the interpreter ends normally
        raise Case(pipeline, fault_name, consumer, directory)
    exit_code, ended = wait_for(pid)
    problems = judge(pipeline, fault_name, exit_code, ended, directory)
    problems += [f"{LATE} left in the session: {what}" for what in wait_for_session(pid)]
    after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    problems += [f"left in /dev/shm: {name}" for name in after - shared if "tensorpack" in name]
    problems += [
        f"left on disk: {name}" for name in os.listdir(directory) if name not in (NOTE, SEEN, LEFT, OUTPUT)
    ]
    if problems:
        with open(os.path.join(directory, OUTPUT), errors="replace") as file:
            problems.append(file.read()[-3000:])
    shutil.rmtree(directory)
    return problems


class Case(Exception):
    """Carries a case out of the loop that forks."""


def wait_for(pid):
    """Give the exit code, negative for signals, and when it ended; None for what had to be killed."""
    deadline = time.monotonic() + CASE_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            return code, time.time()
        time.sleep(0.005)
    os.killpg(pid, signal.SIGABRT)
    os.waitpid(pid, 0)
    return None, time.time()


def judge(pipeline, fault_name, exit_code, ended, directory):
    """What is wrong with the end of a case."""

    def read(name):
        path = os.path.join(directory, name)
        if not os.path.exists(path):
            return ""
        with open(path, errors="replace") as file:
            return file.read()

    faults = [line.split() for line in read(NOTE).splitlines()]
    seen, left, output = read(SEEN), read(LEFT), read(OUTPUT)
    if exit_code is None:
        return [f"hangs; the consumer {'saw' if seen else 'never saw'} an error"]
    if not faults or not seen:
        return [f"the fault {'was not noticed' if faults else 'did not happen'}; exit code {exit_code}"]
    noticed_after = float(seen) - min(float(when) for when, _ in faults)
    problems = [f"{LATE} left after the error: {left}"] if left else []
    if exit_code == 0 or exit_code < 0:
        problems.append(f"exit code {exit_code}")
    limit = 10 if pipeline.kind == "sender" else 2
    if noticed_after > limit:
        problems.append(f"{LATE} noticed after {noticed_after:.1f} s")
    if ended - float(seen) > EXIT_SECONDS:
        problems.append(f"{LATE} ended {ended - float(seen):.1f} s after the error")
    stopped = pipeline.kind == "sender" and fault_name in (*DEADLY, "ctrl-c")
    # why cannot be known on another machine
    wanted = ["senders? .*vanished"] if stopped else [TEXTS[fault_name]]
    outside = fault_name in DRIFTS and pipeline.name.endswith("MapData")  # BatchData is in the consumer
    # in the worker that batches, not where the fault was
    elsewhere = fault_name in DRIFTS and "AndBatch" in pipeline.name
    if pipeline.kind is not None and not outside:
        wanted += [
            pipeline.name,
            "worker|sender",
            r"pid \d" if elsewhere else rf"pid ({'|'.join(pid for _, pid in faults)})\b",
        ]
    if not stopped and fault_name not in (*DEADLY, *DRIFTS, "unpicklable datapoint"):
        wanted.append("in misbehave")  # the traceback
    return problems + [f"the error does not say /{text}/" for text in wanted if not re.search(text, output)]


def wait_for_session(session):
    """What still runs of a session after two seconds."""
    deadline = time.monotonic() + 2
    while True:
        left = session_members(session)
        if not left or time.monotonic() > deadline:
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
            return [f"{pid} {name}" for pid, name in left]
        time.sleep(0.01)


def session_members(session):
    """Pids and command lines of the processes of a session."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                head, _, tail = file.read().rpartition(")")
            state, _, _, of_session = tail.split()[:4]
        except OSError:  # it ended meanwhile
            continue
        if int(of_session) == session and state != "Z":
            found.append((int(head.split()[0]), head.split("(", 1)[1]))
    return found


def main(argv):
    """Try all faults; returns 0."""
    name, consumer, method, *faults = argv
    multiprocessing.set_start_method(method)
    if consumer != "iteration":
        import tensorpack_lite.train.simple  # noqa: F401 (so that the children have it)
    problems = {}
    for where, pipeline in PIPELINES[name].items():
        for fault_name in pipeline.faults():
            if faults and fault_name not in faults:
                continue
            try:
                found = try_patiently(pipeline, fault_name, consumer)
            except Case as case:
                return case.args
            problems[f"{where}: {fault_name}"] = found
    sys.stdout.write(json.dumps(problems))
    return None


def start(*arguments):
    """Run this file as a program; gives its problems."""
    package = os.path.dirname(
        os.path.dirname(os.path.dirname(os.path.abspath(sys.modules[DataFlow.__module__].__file__)))
    )
    environment = {
        **os.environ,
        "PYTHONPATH": package,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert 0 == done.returncode, done.stderr.decode()
    return json.loads(done.stdout.decode())


if __name__ == "__main__":
    case = main(sys.argv[1:])
    if case is not None:
        run_case(*case)

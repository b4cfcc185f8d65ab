"""
Tasks of workers in the tests of groups of workers.

The tests' own modules cannot be imported in a spawned process, this one can.
"""

from __future__ import annotations

import ctypes
import faulthandler
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time

from tensorpack_lite.dataflow.process import stack_file
from tensorpack_lite.dataflow.process.channel import Reader


def hold_interpreter(stacks):
    """Register a StackFile, note a datapoint, and hold the interpreter's lock in native code, without end."""
    library, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    wait = library.pthread_mutex_lock
    wait(lock)
    stacks.register()
    stacks.note = "datapoint é"
    wait(lock)  # waits for itself; signals do not end it


def compute_in_native_code(stacks):
    """Register a StackFile, and compute without end in native code that keeps the interpreter's lock."""
    stacks.register()
    stacks.note = "computes"
    sum(itertools.repeat(1))


def miss_a_request(stacks):
    """Register a StackFile, and answer in Python code only, from the second request on."""
    stacks.register()
    faulthandler.unregister(stack_file._NATIVE_SIGNAL)
    signal.signal(stack_file.SIGNAL, lambda *_: signal.signal(stack_file.SIGNAL, stacks._write))
    stacks.note = "waits"
    time.sleep(1000)


def answer_twice(stacks):
    """Register a StackFile, and answer each request twice, like a process that is asked again while it answers."""
    stacks.register()
    signal.signal(stack_file.SIGNAL, lambda *args: (stacks._write(*args), stacks._write(*args)))
    stacks.note = "waits"
    time.sleep(1000)


def compute_in_threads(stacks):
    """Register a StackFile, and change the stacks of two threads all the time."""

    def recurse(depth):
        return depth and recurse(depth - 1) + len(re.sub("a", "b", "aaa" * depth))

    def compute():
        while True:
            recurse(20)
            json.dumps({"a": [1, 2, {"b": list(range(10))}]})
            exec("def g(x):\n  return [i for i in range(x)]\ng(5)")

    stacks.register()
    for _ in range(2):
        threading.Thread(target=compute, daemon=True).start()
    time.sleep(0.2)
    stacks.note = "computes"
    time.sleep(1000)


def count_up():
    """Yield numbers without end."""
    yield from ([[k]] for k in itertools.count())


def fail_at(number, how):
    """Count up to a number, then call a function."""
    for k in range(number):
        yield [[k]]
    how()


def send_to_itself(*numbers):
    """Send signals to this process, and count up if it survives."""
    for number in numbers:
        os.kill(os.getpid(), number)
    yield from count_up()


def terminate_a_program():
    """Yield the exit code of a program that gets SIGTERM."""
    process = subprocess.Popen(["sleep", "20"])
    process.terminate()
    yield [[process.wait()]]
    yield from count_up()


def is_stopped_in(seconds):
    """Sleep without noticing anything."""
    yield [[0]]
    while True:
        time.sleep(seconds)


def with_grandchild():
    """Fork a child, which holds copies of all open files, and die."""
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    yield [[0]]
    os.kill(os.getpid(), signal.SIGKILL)


def leave_and_fail(connection):
    """Close the connection to another worker, and fail some time later."""
    connection.close()
    time.sleep(0.5)
    yield from fail_at(0, fail)


def fail():
    """Raise an error."""
    raise ValueError("planted")


def pass_on(connection):
    """Yield the datapoints that another worker sends."""
    reader = Reader(connection)
    while True:
        yield reader.receive()

"""Faults of data: errors of all kinds, deaths of processes, and datapoints that do not fit."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

__all__ = ["DEADLY", "DRIFTS", "FAULTS", "NOTE", "TEXTS", "Fault"]

NOTE = "faults.txt"  # time and pid of each fault, in the directory of the case


class TwoArgumentError(Exception):
    """An exception whose constructor does not take a message."""

    def __init__(self, code, place):
        super().__init__(code, place)
        self.code, self.place = code, place


class Unpicklable(Exception):
    """An exception that cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class Mute(Exception):
    """An exception without a message."""

    def __str__(self):
        raise TypeError("planted: no text")


class Fault:
    """A fault, which records when and in which process it happens."""

    def __init__(self, kind, directory):
        self.kind, self.directory, self.delay = kind, directory, 0.0

    def misbehave(self, datapoint):
        """Cause the fault. Return a datapoint that does not fit if that is the fault."""
        time.sleep(self.delay)
        line = f"{time.time()} {os.getpid()}\n".encode()
        file = os.open(os.path.join(self.directory, NOTE), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, line)  # atomic, because several workers write
        os.close(file)
        return FAULTS[self.kind](datapoint)


def raises(make_error):
    """Return a fault that raises an exception."""

    def misbehave(datapoint):
        raise make_error()

    return misbehave


def end_process(datapoint):
    """End the process without an error message."""
    os._exit(3)


FAULTS = {
    "error": raises(lambda: ValueError("planted")),
    "no text": raises(IndexError),
    "unicode error": raises(lambda: UnicodeDecodeError("utf8", b"x", 0, 1, "planted")),
    "error with a number": raises(lambda: FileNotFoundError(2, "planted", "name")),
    "error with two arguments": raises(lambda: TwoArgumentError(17, "planted")),
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
TEXTS = {  # patterns that the final error must match
    "error": "ValueError: .*planted",
    "no text": "IndexError",
    "unicode error": "UnicodeDecodeError.*planted",
    "error with a number": "FileNotFoundError: .*planted",
    "error with two arguments": "TwoArgumentError.*planted",
    "unpicklable error": "Unpicklable: .*planted",
    "mute error": "Mute",
    "stop iteration": "StopIteration",
    "system exit": "SystemExit",
    "ctrl-c": "KeyboardInterrupt",
    "unpicklable datapoint": "(?i)can(not|'t) (pickle|get local object)|a datapoint holds|cannot be stacked",
    **DEADLY,
    **DRIFTS,
}

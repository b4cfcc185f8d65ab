"""Stacks as text, the state of processes, and the socket that answers where a process is."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
import time

import numpy as np
import pytest
from fakes.waiting import wait_until

from tensorpack_lite.dataflow import DataFromList, MapData
from tensorpack_lite.diagnostics.hangs import where_socket
from tensorpack_lite.diagnostics.hangs.native_stacks import native_stacks
from tensorpack_lite.diagnostics.hangs.where_socket import NoAnswer, answer, ask, listen
from tensorpack_lite.utils.argtools import call_only_once
from tensorpack_lite.utils.frames import frame_of_thread, frames_of_threads
from tensorpack_lite.utils.process_state import catches_signal, describe_trouble
from tensorpack_lite.utils.stacks import (
    Line,
    describe_argument,
    describe_place,
    format_stacks,
    is_in_lock,
    lines_of,
    parse_stacks,
)


@pytest.fixture
def waiting():
    """A thread that waits in `wait_here`, which the library has called with a datapoint."""
    event, datapoint = threading.Event(), [np.zeros(2), "a.jpg", 3]

    class Calls:
        @call_only_once
        def wait_here(self, datapoint):
            event.wait()

    thread = threading.Thread(target=Calls().wait_here, args=(datapoint,), name="waiting")
    thread.start()
    time.sleep(0.05)
    yield thread
    event.set()
    thread.join()


def test_lines(waiting):
    """The place of a thread is its innermost line that belongs to the user."""
    lines = lines_of(frame_of_thread(waiting.ident))
    assert describe_place(lines).startswith("test_stacks.py:")
    assert describe_place(lines).endswith(" wait_here: event.wait()")
    assert lines[0].function == "wait"
    assert not lines[0].is_of_user
    script = Line("/nowhere/x.py", 3, "f")
    assert "x.py:3 f" == describe_place([script])
    inside = next(line for line in lines if line.path.endswith("argtools.py"))
    assert str(inside) == describe_place([inside, script])  # the line that has started the training says nothing


def test_datapoint(waiting):
    """The datapoint in work is described by its first string, bytes or integer."""
    assert "'a.jpg'" == describe_argument(frame_of_thread(waiting.ident))
    assert "" == describe_argument(None)


def test_format(waiting):
    """All threads except for the calling one are listed with their names."""
    text = format_stacks()
    assert "Thread waiting (most recent call last):" in text
    assert "event.wait()" in text
    assert "MainThread" not in text
    assert {threading.get_ident(), waiting.ident} <= set(frames_of_threads())


def test_parse(waiting, tmp_path):
    """The stacks that faulthandler writes are those of the threads."""
    with open(tmp_path / "stacks", "w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stacks = parse_stacks(file.read())
    assert lines_of(frame_of_thread(waiting.ident)) in stacks
    assert [] == parse_stacks("Thread 0x1 (most recent call first):\nnothing\n")


def test_trouble():
    """A process that is stopped or has ended is in trouble; one that waits or is unknown is not."""
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(100)
    assert "" == describe_trouble(pid)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    assert describe_trouble(pid).startswith("is stopped (state T: ")
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert "has ended (state Z)" == describe_trouble(pid)
    os.waitpid(pid, 0)
    assert "" == describe_trouble(pid)


def test_catches_signal():
    """Handlers of signals are seen from outside."""
    assert not catches_signal(os.getpid(), signal.SIGUSR2)
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    assert catches_signal(os.getpid(), signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)


def test_where():
    """A process of the same user gets the answer; there is one socket for each process."""
    listener = listen()
    with listener:
        assert listen() is None
        thread = threading.Thread(target=lambda: found.append(ask(os.getpid(), 10)))
        found = []
        listener.setblocking(True)
        thread.start()
        answer(listener, lambda: {"text": "here"})
        thread.join()
    assert [{"text": "here"}] == found
    assert ask(os.getpid(), 1) is None


def test_no_answer():
    """A process that does not answer in time raises NoAnswer."""
    with listen(), pytest.raises(NoAnswer):
        ask(os.getpid(), 0.1)


def test_other_users(monkeypatch):
    """Another user gets no answer."""
    listener = listen()
    with listener, socket.socket(socket.AF_UNIX) as peer:
        peer.connect(where_socket._address(os.getpid()))
        monkeypatch.setattr(where_socket, "_user_of", lambda connection: os.geteuid() + 1)
        answer(listener, lambda: {"text": "here"})
        assert b"" == peer.recv(1)


class Described:
    """A map with a description of its datapoints."""

    def __init__(self):
        self.frames = []

    def describe(self, datapoint):
        return f"file {datapoint[0][0]}"

    def __call__(self, datapoint):
        self.frames.append(describe_argument(sys._getframe()))
        return datapoint


def test_description_of_the_user():
    """`describe` of a map's function, or of the object whose method it is, describes the datapoint; an error in it is named."""
    data, found = DataFromList([[np.array([7])]]), []

    def function(datapoint):
        found.append(describe_argument(sys._getframe()))
        return datapoint

    for describe in (None, lambda datapoint: f"file {datapoint[0][0]}", lambda datapoint: datapoint["x"]):
        if describe is not None:
            function.describe = describe
        stage = MapData(data, function)
        stage.reset_state()
        list(stage)
    assert ["", "file 7"] == found[:2]
    assert found[2].startswith("describe() failed: TypeError: ")
    described = Described()
    stage = MapData(data, described)
    stage.reset_state()
    list(stage)
    assert ["file 7"] == described.frames


def wait_for(lock):
    with lock:
        pass


def test_locks(waiting):
    """A line of the user that takes a lock is recognized by its source; waiting for an event is not taking a lock."""
    lock = threading.Lock()
    thread = threading.Thread(target=wait_for, args=(lock,))
    with lock:
        thread.start()
        wait_until(lambda: is_in_lock(lines_of(frame_of_thread(thread.ident))))
    thread.join()
    assert not is_in_lock(lines_of(frame_of_thread(waiting.ident)))
    assert not is_in_lock([])


def test_native_stacks(monkeypatch, tmp_path):
    """The native stacks are what py-spy prints; without it, the text explains how to get them."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        "For the native stacks of process 123: pip install py-spy, then py-spy dump --native --pid 123"
        == native_stacks(123)
    )
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\necho got $*\n")
    program.chmod(0o755)
    assert "py-spy dump --native --pid 123:\ngot dump --native --pid 123\n" == native_stacks(123)

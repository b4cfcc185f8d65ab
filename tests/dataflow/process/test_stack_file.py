"""Stacks and notes of a process that another process reads without its help."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time

import pytest
from fakes.waiting import wait_until
from fakes.worker_tasks import (
    answer_twice,
    compute_in_native_code,
    compute_in_threads,
    hold_interpreter,
    miss_a_request,
)

from tensorpack_lite.dataflow.process import stack_file, worker
from tensorpack_lite.dataflow.process.stack_file import StackFile
from tensorpack_lite.dataflow.process.worker import InWork
from tensorpack_lite.dataflow.records import COUNT, Page
from tensorpack_lite.utils.process_state import cpu_seconds
from tensorpack_lite.utils.stacks import parse_stacks

pytestmark = pytest.mark.slow


def ignore(stacks):
    time.sleep(1000)


@pytest.fixture
def start():
    """Start a function with a StackFile in a process."""
    processes = []

    def start(method, function):
        stacks = StackFile()
        process = multiprocessing.get_context(method).Process(target=function, args=(stacks,))
        process.start()
        processes.append(process)
        return process.pid, stacks

    yield start
    for process in processes:
        process.kill()
        process.join()


def wait_for_note(stacks):
    wait_until(lambda: stacks.note)
    return stacks.note


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ask(start, method):
    """A process whose native code holds the interpreter's lock writes its stacks, each time that it is asked."""
    pid, stacks = start(method, hold_interpreter)
    assert "datapoint é" == wait_for_note(stacks)
    for _ in range(2):
        found = parse_stacks(stacks.ask(pid))
        assert ["hold_interpreter"] == [lines[0].function for lines in found]
    assert "datapoint é" == stacks.note


def test_ask_a_process_that_computes(start):
    """A process whose threads compute survives, which `faulthandler` in a handler in C does not."""
    pid, stacks = start("spawn", compute_in_threads)
    assert "computes" == wait_for_note(stacks)
    for _ in range(30):
        functions = [{line.function for line in lines} for lines in parse_stacks(stacks.ask(pid))]
        assert 2 == sum("compute" in found for found in functions)
        assert not any("_write" in found for found in functions)
    assert (0, 0) == os.waitpid(pid, os.WNOHANG)


def test_ask_again(start):
    """A signal just before the main thread begins to sleep does not wake it, so a process is asked again."""
    pid, stacks = start("spawn", miss_a_request)
    assert "waits" == wait_for_note(stacks)
    assert "miss_a_request" in stacks.ask(pid)


def test_two_answers(start):
    """If there are two answers, only the last one is returned."""
    pid, stacks = start("spawn", answer_twice)
    assert "waits" == wait_for_note(stacks)
    assert 1 == len(parse_stacks(stacks.ask(pid)))


def test_ask_native_code(start, monkeypatch):
    """
    A process that computes in native code writes its stacks, unless it has had no time to answer in Python.

    On a busy machine, a process that executes Python code may have had none, and `faulthandler` would crash it.
    """
    pid, stacks = start("spawn", compute_in_native_code)
    assert "computes" == wait_for_note(stacks)
    begin = cpu_seconds(pid)
    while cpu_seconds(pid) < begin + 0.2:  # until it is in native code
        time.sleep(0.01)
    # not the real CPU times, because other tests may use the cores
    monkeypatch.setattr(stack_file, "cpu_seconds", lambda pid: 0.0)
    assert "" == stacks.ask(pid)
    monkeypatch.setattr(stack_file, "cpu_seconds", lambda pid: next(seconds))
    seconds = itertools.count(0.0, stack_file._TURN_CPU_SECONDS)
    assert "compute_in_native_code" in stacks.ask(pid)


def test_stopped(start):
    """A process that is stopped writes nothing, also when it continues."""
    pid, stacks = start("spawn", compute_in_threads)
    assert "computes" == wait_for_note(stacks)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    assert "" == stacks.ask(pid)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.3)
    assert 512 == os.fstat(stacks._handle).st_size
    assert "compute" in stacks.ask(pid)


def test_without_a_handler(start):
    """A process without a handler gets no signal, which would end it."""
    pid, stacks = start("fork", ignore)
    assert "" == stacks.ask(pid)
    assert (0, 0) == os.waitpid(pid, os.WNOHANG)


def test_in_work(monkeypatch):
    """A datapoint is noted if no stage has moved between two looks, and the note is removed when one moves."""
    page, stacks = Page(), StackFile()
    os.write(stacks._handle, b" " * 512)
    words, _ = page.new_record("f")
    monkeypatch.setattr(worker, "describe_argument", lambda frame: "'a.jpg'")
    watch, seen = InWork(page, stacks), []
    for count in (1, 2, 2, 2, 3, 3):
        words[COUNT] = count
        watch.look()
        seen.append(stacks.note)
    assert ["", "", "'a.jpg'", "'a.jpg'", "", "'a.jpg'"] == seen
    InWork(None, None).look()
    page.close_handle()

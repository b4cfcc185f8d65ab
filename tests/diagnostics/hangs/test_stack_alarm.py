"""diagnostics/hangs/stack_alarm.py: stacks are written while native code holds the interpreter's lock."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tensorpack_lite.diagnostics.hangs.stack_alarm import SIGNAL, StackAlarm
from tensorpack_lite.utils.process_state import catches_signal
from tensorpack_lite.utils.stacks import parse_stacks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="timers of Linux")


# closes a pipe when a file has grown, or after a minute
_RELEASE = """
import os, sys, time
deadline = time.monotonic() + 60
while time.monotonic() < deadline and not os.path.getsize(sys.argv[1]):
    time.sleep(0.1)
"""


def hold_lock(path):
    """Wait in native code, with the interpreter's lock, until a file has grown; return whether no signal interrupted it."""
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-S", "-c", _RELEASE, path], pass_fds=[writer]):
        os.close(writer)
        result = ctypes.PyDLL(None).read(reader, ctypes.create_string_buffer(1), 1)
        os.close(reader)
    return result == 0


@pytest.fixture
def watched(tmp_path):
    """Function: run code while another thread sets an alarm of 0.3 s again and again; return whether it has rung, and the file."""
    path = tmp_path / "stacks.txt"

    def run(function):
        rings, end, ready = [], threading.Event(), threading.Event()

        def watch():
            alarm = StackAlarm(str(path))
            while not end.is_set():
                alarm.set(0.3)
                ready.set()
                end.wait(0.05)
                rings.append(alarm.stop())
            alarm.close()

        thread = threading.Thread(target=watch)
        thread.start()
        assert ready.wait(60)
        function()
        time.sleep(0.2)
        end.set()
        thread.join()
        return any(rings), path.read_text()

    return run


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_lock_is_held(tmp_path, watched):
    """The stacks of all threads are written, also that of the one that holds the lock, whose call is not interrupted."""
    ends = []
    has_rung, text = watched(lambda: ends.append(hold_lock(str(tmp_path / "stacks.txt"))))
    assert has_rung
    assert any("hold_lock" in [line.function for line in stack] for stack in parse_stacks(text))
    assert [True] == ends
    assert not catches_signal(os.getpid(), SIGNAL)


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_lock_is_free(watched):
    """Nothing is written while a thread sleeps, and while others compute."""
    assert (False, "") == watched(lambda: time.sleep(1))
    assert (False, "") == watched(lambda: [sum(range(1000)) for _ in range(50000)])


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_stopped(watched):
    """Nothing is written when the process was stopped."""
    pid = os.getpid()
    script = (
        f"import os, time; os.kill({pid}, {int(signal.SIGSTOP)}); time.sleep(2); os.kill({pid}, {int(signal.SIGCONT)})"
    )
    assert (False, "") == watched(lambda: subprocess.run([sys.executable, "-c", script], check=True))


def wait_for_output(file):
    deadline = time.monotonic() + 60
    while os.fstat(file.fileno()).st_size == 0 and time.monotonic() < deadline:
        time.sleep(0.05)


def test_the_timer_of_faulthandler_stays(tmp_path, watched):
    """The timer that the script has set with faulthandler still goes off."""
    with open(str(tmp_path / "own.txt"), "w+") as file:
        faulthandler.dump_traceback_later(0.3, file=file)
        try:
            watched(lambda: wait_for_output(file))
        finally:
            faulthandler.cancel_dump_traceback_later()
        file.seek(0)
        assert "Timeout" in file.read()


def test_another_handler(tmp_path):
    """If the signal has a handler, there is no alarm."""
    before = signal.signal(SIGNAL, lambda number, frame: None)
    try:
        with pytest.raises(OSError, match="cannot have such an alarm"):
            StackAlarm(str(tmp_path / "stacks.txt"))
    finally:
        signal.signal(SIGNAL, before)

"""utils/stack_alarm.py: stacks are written while native code holds the interpreter's lock."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time

import pytest

from tensorpack_lite.utils.process_state import catches_signal
from tensorpack_lite.utils.stack_alarm import SIGNAL, StackAlarm
from tensorpack_lite.utils.stacks import parse_stacks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="timers of Linux")


def hold_lock(seconds):
    """Sleep in native code with the interpreter's lock; return for how long."""
    begin = time.monotonic()
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return time.monotonic() - begin


@pytest.fixture
def watched(tmp_path):
    """Function: run code while another thread postpones an alarm; return whether it has rung, and the file."""
    path = tmp_path / "stacks.txt"

    def run(function, path=path):
        rings, end, ready = [], threading.Event(), threading.Event()

        def postpone():
            alarm = StackAlarm(str(path))
            while not end.wait(0.05):
                rings.append(alarm.postpone(0.4))
                ready.set()
            alarm.close()

        thread = threading.Thread(target=postpone)
        thread.start()
        assert ready.wait(10)
        function()
        time.sleep(0.2)
        end.set()
        thread.join()
        return any(rings), path.read_text()

    return run


def test_lock_is_held(watched):
    """The stacks of all threads are written, also that of the one that holds the lock, whose sleep is not interrupted."""
    slept = []
    has_rung, text = watched(lambda: slept.append(hold_lock(0.9)))
    assert has_rung
    assert any("hold_lock" in [line.function for line in stack] for stack in parse_stacks(text))
    assert slept[0] >= 0.9
    assert not catches_signal(os.getpid(), SIGNAL)


def test_the_timer_of_faulthandler_stays(tmp_path, watched):
    """The timer that the script has set with faulthandler still goes off."""
    with open(str(tmp_path / "own.txt"), "w+") as file:
        faulthandler.dump_traceback_later(0.3, file=file)
        try:
            watched(lambda: time.sleep(0.6))
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

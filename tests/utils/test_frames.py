"""The frames that other threads execute."""

from __future__ import annotations

import threading

from fakes.processes import run_python

from tensorpack_lite.utils.frames import frame_of_thread

# Each new container starts a collection, whose callback lets other threads run; threads start all the time.
STRESS = """
import gc, threading, time
from tensorpack_lite.utils.frames import frame_of_thread

def start_threads():
    for _ in range(300):
        threading.Thread(target=int).start()

gc.callbacks.append(lambda phase, info: time.sleep(0))
gc.set_threshold(1)
starters = [threading.Thread(target=start_threads, daemon=True) for _ in range(4)]
for starter in starters:
    starter.start()
while any(starter.is_alive() for starter in starters):
    frame_of_thread(threading.main_thread().ident)
print("ended")
"""


def test_the_frame_of_a_thread():
    """For the calling thread, the frame is the caller's. An unknown thread has no frame."""
    frame = frame_of_thread(threading.get_ident())
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    assert "test_the_frame_of_a_thread" in names
    assert frame_of_thread(-1) is None


def test_no_deadlock_with_threads_that_start():
    """Reading frames while threads start and the garbage collector runs does not deadlock."""
    assert "ended\n" == run_python("-c", STRESS).stdout

"""StartProcOrThread: processes and threads that run during training."""

from __future__ import annotations

import multiprocessing as mp
import threading
import time

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import concurrency
from tensorpack_lite.callbacks.concurrency import StartProcOrThread
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.utils.concurrency import StoppableThread


class Wait(StoppableThread):
    """Waits until it is stopped."""

    def run(self) -> None:
        while not self.stopped():
            time.sleep(0.001)


class Look(Callback):
    """Records whether the processes and threads are alive."""

    def __init__(self, *others) -> None:
        self._others, self.alive = others, []

    def _before_train(self) -> None:
        self.alive.append([o.is_alive() for o in self._others])


def test_threads():
    """A StoppableThread is started before training and stopped afterwards."""
    threads = [Wait(), Wait()]
    look = Look(*threads)
    run(CountingTrainer(), [StartProcOrThread(threads), look])

    assert [[True, True]] == look.alive
    assert [False, False] == [thread.is_alive() for thread in threads]


@pytest.mark.slow
def test_processes():
    """A process is started before training and terminated afterwards."""
    process = mp.get_context("fork").Process(target=time.sleep, args=(100,))
    look = Look(process)
    run(CountingTrainer(), [StartProcOrThread(process), look])

    assert [[True]] == look.alive
    assert process.exitcode is not None


def test_one_that_does_not_end(log_lines, monkeypatch):
    """A thread that ignores `stop()` is named in the log, and training ends without it."""
    monkeypatch.setattr(concurrency, "_JOIN_SECS", 0)
    go_on = threading.Event()

    class Stubborn(StoppableThread):
        def run(self) -> None:
            go_on.wait()

    thread = Stubborn()
    thread.name = "stubborn"
    run(CountingTrainer(), [StartProcOrThread(thread)])
    go_on.set()
    thread.join()

    assert any("stubborn did not stop within 0 seconds." in line for line in log_lines)


def test_not_at_the_end():
    """With stop_at_last=False, nothing is stopped."""
    thread = Wait()
    run(CountingTrainer(), [StartProcOrThread(thread, stop_at_last=False)])

    assert thread.is_alive()
    thread.stop()
    thread.join()


def test_a_plain_thread_is_left_alone():
    """Training does not wait for a thread that is not a StoppableThread."""
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    run(CountingTrainer(), [StartProcOrThread(thread)])

    assert thread.is_alive()
    event.set()
    thread.join()


def test_a_training_that_ends_before_it_begins():
    """If another callback ends training first, processes that were never started are not stopped."""

    class Stop(Callback):
        def _before_train(self) -> None:
            raise StopTraining

    thread = Wait()
    run(CountingTrainer(), [Stop(), StartProcOrThread(thread)])

    assert not thread.is_alive()

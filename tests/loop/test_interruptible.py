"""loop/signals/interruptible.py: how Interruptible handles SIGINT, with and without a waiting main thread."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.signals import interruptible
from tensorpack_lite.loop.signals.interruptible import Interruptible

FORK = multiprocessing.get_context("fork")


class Interrupted(Exception):
    """The exception that the handler of these tests raises."""


@pytest.fixture
def handler():
    """A SIGINT handler that raises, instead of pytest's."""

    def handler(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGINT, handler)
    yield handler
    signal.signal(signal.SIGINT, before)


def never():
    """Fail, because the main thread did not wait."""
    pytest.fail("called although the main thread moved")


def interrupt_this_process():
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_this_process_and_stay():
    """Send SIGINT to this process, survive it, and end after a time in which another process would notice it."""
    with pytest.raises(Interrupted):
        interrupt_this_process()
        time.sleep(10)
    time.sleep(0.3)


def test_leaves_everything_as_it_was(handler):
    """After the context, the handler, the wakeup file descriptor and the threads are the same as before."""
    threads = threading.enumerate()
    with Interruptible(never, never):
        pass
    assert handler is signal.getsignal(signal.SIGINT)
    assert -1 == signal.set_wakeup_fd(-1)
    assert threads == threading.enumerate()


def test_handler_runs_at_once_while_python_runs(handler):
    """While the main thread runs Python code, the handler's exception is raised and nothing is interrupted."""
    with pytest.raises(Interrupted), Interruptible(never, never):
        interrupt_this_process()
        threading.Event().wait(10)


def test_signals_are_passed_on(handler):
    """The previous wakeup file descriptor gets the signals, and is restored afterwards."""
    receiver, sender = socket.socketpair()
    receiver.settimeout(10)
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno())
    try:
        with pytest.raises(Interrupted), Interruptible(never, never):
            interrupt_this_process()
            threading.Event().wait(10)
    finally:
        assert sender.fileno() == signal.set_wakeup_fd(-1)
    assert bytes([signal.SIGINT]) == receiver.recv(10)
    receiver.close()
    sender.close()


def test_handler_set_inside_stays(handler):
    """A handler that is set inside the context is kept."""
    with Interruptible(never, never):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.SIG_IGN is signal.getsignal(signal.SIGINT)


def test_ignored_signal(handler):
    """If SIGINT is ignored, the context does nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruptible(never, never):
        assert -1 == signal.set_wakeup_fd(-1)
        assert signal.SIG_IGN is signal.getsignal(signal.SIGINT)


def test_outside_of_the_main_thread(handler):
    """In another thread, where Python cannot set handlers, the context does nothing."""
    seen = []

    def enter():
        with Interruptible(never, never):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert [handler] == seen


class TestForks:
    def test_a_fork_does_not_hold_up_the_end(self, handler):
        """The context is left although a forked process lives on."""
        with Interruptible(never, never):
            process = FORK.Process(target=time.sleep, args=(20,))
            process.start()
        assert process.is_alive()
        process.kill()
        process.join()

    def test_signals_of_a_fork(self, handler, monkeypatch):
        """A SIGINT that only a forked process gets does not interrupt the main process."""
        monkeypatch.setattr(interruptible, "_PATIENCE_SECONDS", 0.01)
        calls = []
        with Interruptible(lambda: calls.append("interrupt"), lambda: calls.append("close")):
            process = FORK.Process(target=interrupt_this_process_and_stay)
            process.start()
            process.join()
        assert [] == calls
        assert 0 == process.exitcode


@pytest.mark.slow
class TestWaitingRun:
    @pytest.fixture
    def queue(self):
        """An empty queue."""
        return tf.FIFOQueue(1, [tf.float32])

    @staticmethod
    def dequeue_once_running(queue):
        """Return an operation that takes from the queue, and an event that its run sets before."""
        is_running = threading.Event()
        with tf.control_dependencies([tf.py_func(is_running.set, [], [])]):
            return queue.dequeue(), is_running

    def test_first_signal_interrupts(self, handler, sess, queue):
        """A waiting run is interrupted, and the handler's exception is raised instead of TensorFlow's error."""
        close, (dequeue, is_running) = queue.close(), self.dequeue_once_running(queue)

        def send_signal():
            if is_running.wait(60):
                interrupt_this_process()

        thread = threading.Thread(target=send_signal)
        thread.start()
        with pytest.raises(Interrupted), Interruptible(lambda: sess.run(close), never):
            sess.run(dequeue)
        thread.join()
        assert 1.0 == sess.run(tf.constant(1.0))

    def test_second_signal_closes(self, handler, sess, queue, log_lines):
        """If the run still waits after the first signal, a warning is logged, and the next signal closes the session."""
        close, (dequeue, is_running) = queue.close(), self.dequeue_once_running(queue)
        interrupted = threading.Event()

        def signal_twice():
            if is_running.wait(60):
                interrupt_this_process()
            if interrupted.wait(60):
                interrupt_this_process()

        thread = threading.Thread(target=signal_twice)
        thread.start()
        with pytest.raises(Interrupted), Interruptible(interrupted.set, lambda: sess.run(close)):
            sess.run(dequeue)
        thread.join()
        assert any("Press Ctrl-C again to close the session" in line for line in log_lines)

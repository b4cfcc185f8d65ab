"""InterruptWatch: what it does to the process, and what it calls while the main thread waits inside TensorFlow."""

from __future__ import annotations

import os
import signal
import socket
import threading

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.interrupt import InterruptWatch


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
    """Fail: the main thread did not wait."""
    pytest.fail("called although the main thread moved")


def interrupt_this_process():
    os.kill(os.getpid(), signal.SIGINT)


def test_leaves_everything_as_it_was(handler):
    """Handler, wakeup file descriptor and threads are after the context what they were before."""
    threads = threading.enumerate()
    with InterruptWatch(never, never):
        pass
    assert handler is signal.getsignal(signal.SIGINT)
    assert -1 == signal.set_wakeup_fd(-1)
    assert threads == threading.enumerate()


def test_handler_runs_at_once_while_python_runs(handler):
    """A main thread that runs Python gets the exception of its handler, and nothing is interrupted."""
    with pytest.raises(Interrupted), InterruptWatch(never, never):
        interrupt_this_process()
        threading.Event().wait(10)


def test_signals_are_passed_on(handler):
    """The wakeup file descriptor that was set before gets the signals, and is set again afterwards."""
    receiver, sender = socket.socketpair()
    receiver.settimeout(10)
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno())
    try:
        with pytest.raises(Interrupted), InterruptWatch(never, never):
            interrupt_this_process()
            threading.Event().wait(10)
    finally:
        assert sender.fileno() == signal.set_wakeup_fd(-1)
    assert bytes([signal.SIGINT]) == receiver.recv(10)
    receiver.close()
    sender.close()


def test_handler_set_inside_stays(handler):
    """A handler that a callback sets inside the context is not replaced at its end."""
    with InterruptWatch(never, never):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.SIG_IGN is signal.getsignal(signal.SIGINT)


def test_ignored_signal(handler):
    """Where SIGINT is ignored, nothing is set up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with InterruptWatch(never, never):
        assert -1 == signal.set_wakeup_fd(-1)
        assert signal.SIG_IGN is signal.getsignal(signal.SIGINT)


def test_outside_of_the_main_thread(handler):
    """In another thread, where Python cannot set handlers, nothing is set up."""
    seen = []

    def enter():
        with InterruptWatch(never, never):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert [handler] == seen


@pytest.mark.slow
class TestWaitingRun:
    @pytest.fixture
    def queue(self):
        """An empty queue."""
        return tf.FIFOQueue(1, [tf.float32])

    def test_first_signal_interrupts(self, handler, sess, queue):
        """A run that waits is interrupted, and the exception of the handler, not TensorFlow's error, leaves the context."""
        dequeue, close = queue.dequeue(), queue.close()
        timer = threading.Timer(0.3, interrupt_this_process)
        timer.start()
        with pytest.raises(Interrupted), InterruptWatch(lambda: sess.run(close), never):
            sess.run(dequeue)
        timer.join()
        assert 1.0 == sess.run(tf.constant(1.0))

    def test_second_signal_closes(self, handler, sess, queue, log_lines):
        """If the run still waits after the first signal, a warning is logged, and the next signal closes the session."""
        dequeue, close = queue.dequeue(), queue.close()
        interrupted = threading.Event()

        def signal_twice():
            interrupt_this_process()
            interrupted.wait(10)
            interrupt_this_process()

        timer = threading.Timer(0.3, signal_twice)
        timer.start()
        with pytest.raises(Interrupted), InterruptWatch(interrupted.set, lambda: sess.run(close)):
            sess.run(dequeue)
        timer.join()
        assert any("Press Ctrl-C again to close the session" in line for line in log_lines)

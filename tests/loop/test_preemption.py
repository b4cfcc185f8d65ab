"""loop/preemption.py: the handlers of SIGTERM and SIGUSR1. Trainings are in tests/integration/test_preempted.py."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import pytest

from tensorpack_lite.loop.preemption import Preempted, Preemption

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


def send(number):
    os.kill(os.getpid(), number)
    time.sleep(0.01)


def handlers():
    return [signal.getsignal(number) for number in SIGNALS]


def in_fork(function):
    """Call a function in a fork. Return the status of the process; it ends with 0 if the function returns."""
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def test_preempted():
    """Preempted is a SystemExit with code 143 and a message, also after pickling."""
    error = pickle.loads(pickle.dumps(Preempted("why")))
    assert (143, "why") == (error.code, str(error))
    assert isinstance(error, SystemExit)


@pytest.mark.parametrize("number", SIGNALS)
def test_check(number):
    """After a signal, `check` raises Preempted, which names the signal. At exit, the handlers of before are back."""
    before, threads = handlers(), threading.enumerate()
    preemption = Preemption(lambda: True, 20)
    with pytest.raises(Preempted, match=number.name), preemption:
        preemption.check()
        send(number)
        preemption.check()
    assert before == handlers()
    assert threads == threading.enumerate()


def test_before_the_first_step():
    """While there is nothing to save, the handler itself raises Preempted."""
    with pytest.raises(Preempted), Preemption(lambda: False, 20):
        send(signal.SIGTERM)
        pytest.fail("not raised")


def test_inside_a_function_of_an_extension():
    """An extension that returns a result although the handler has raised causes a SystemError, which becomes Preempted."""
    with pytest.raises(Preempted), Preemption(lambda: False, 20):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Preempted as error:
            raise SystemError("returned a result with an error set") from error


def test_after_the_end_of_training():
    """A signal that nothing has looked at raises Preempted at exit, so it is not lost."""
    with pytest.raises(Preempted), Preemption(lambda: True, 20):
        send(signal.SIGTERM)


def test_an_error_is_not_replaced():
    """The error of a training that got a signal is raised as it is."""
    with pytest.raises(ZeroDivisionError), Preemption(lambda: True, 20):
        send(signal.SIGUSR1)
        raise ZeroDivisionError


def test_a_fork_has_no_handlers():
    """SIGTERM ends a process that was forked during a training, for example by StartProcOrThread."""
    with Preemption(lambda: True, 20):
        status = in_fork(lambda: send(signal.SIGTERM))
    assert signal.SIGTERM == os.WTERMSIG(status)


def test_a_second_sigterm_while_the_main_thread_is_busy():
    """If the main thread does not call its handler, the second SIGTERM ends the process from another thread."""

    def get_two():
        preemption = Preemption(lambda: True, 20)
        assert preemption.notice(bytes([signal.SIGUSR1, signal.SIGTERM]))
        assert not preemption.notice(bytes([signal.SIGINT]))
        preemption.notice(bytes([signal.SIGTERM]))

    assert 143 == os.WEXITSTATUS(in_fork(get_two))


def test_outside_the_main_thread():
    """In another thread, no handler is installed, and `request` makes `check` raise Preempted."""
    raised = []

    def train():
        before = handlers()
        preemption = Preemption(lambda: True, 20)
        try:
            with preemption:
                assert before == handlers()
                preemption.request(signal.SIGTERM)
                preemption.check()
        except Preempted as error:
            raised.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert 1 == len(raised)

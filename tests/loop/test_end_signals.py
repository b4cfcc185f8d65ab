"""loop/signals/end_signals.py: the handlers of SIGTERM and SIGUSR1. Training runs are in tests/integration/test_signals.py."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.signals import end_signals as module
from tensorpack_lite.loop.signals.end_signals import EndSignals, Interrupted, Preempted
from tensorpack_lite.tfutils.exact.state import begin_exact

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
    end_signals = EndSignals(lambda: True, 20)
    with pytest.raises(Preempted, match=number.name), end_signals:
        end_signals.check()
        send(number)
        end_signals.check()
    assert before == handlers()
    assert threads == threading.enumerate()


def test_before_the_first_step():
    """While there is nothing to save, the handler itself raises Preempted."""
    with pytest.raises(Preempted), EndSignals(lambda: False, 20):
        send(signal.SIGTERM)
        pytest.fail("not raised")


def test_inside_a_function_of_an_extension():
    """An extension that returns a result although the handler has raised causes a SystemError, which becomes Preempted."""
    with pytest.raises(Preempted), EndSignals(lambda: False, 20):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Preempted as error:
            raise SystemError("returned a result with an error set") from error


def test_after_the_end_of_training():
    """A signal that nothing has looked at raises Preempted at exit, so it is not lost."""
    with pytest.raises(Preempted), EndSignals(lambda: True, 20):
        send(signal.SIGTERM)


def test_an_error_is_not_replaced():
    """The error of a training that got a signal is raised as it is."""
    with pytest.raises(ZeroDivisionError), EndSignals(lambda: True, 20):
        send(signal.SIGUSR1)
        raise ZeroDivisionError


def test_a_fork_has_no_handlers():
    """SIGTERM ends a process that was forked during a training, for example by StartProcOrThread."""
    with EndSignals(lambda: True, 20):
        status = in_fork(lambda: send(signal.SIGTERM))
    assert signal.SIGTERM == os.WTERMSIG(status)


def test_a_second_sigterm_while_the_main_thread_is_busy():
    """If the main thread does not call its handler, the second SIGTERM ends the process from another thread."""

    def get_two():
        end_signals = EndSignals(lambda: True, 20)
        assert end_signals.notice(bytes([signal.SIGUSR1, signal.SIGTERM]))
        assert not end_signals.notice(bytes([signal.SIGINT]))
        end_signals.notice(bytes([signal.SIGTERM]))

    assert 143 == os.WEXITSTATUS(in_fork(get_two))


def test_outside_the_main_thread(log_lines):
    """In another thread, no handler is installed, which one log line says, and `request` makes `check` raise Preempted."""
    raised = []

    def train():
        before = handlers()
        end_signals = EndSignals(lambda: True, 20)
        try:
            with end_signals:
                assert before == handlers()
                end_signals.request(signal.SIGTERM)
                end_signals.check()
        except Preempted as error:
            raised.append(error)

    thread = threading.Thread(target=train, name="of Ray")
    thread.start()
    thread.join()
    assert 1 == len(raised)
    told = "SIGTERM is not handled, because train() runs in the thread of Ray. Save regularly."
    assert 1 == log_lines.count(told)


def test_both_of_two_sigterms_count():
    """Two SIGTERMs that arrive together end the process, also in a training that leaves Ctrl-C to Python."""

    def get_two():
        EndSignals(lambda: True, 20).notice(bytes([signal.SIGTERM, signal.SIGTERM]))

    assert 143 == os.WEXITSTATUS(in_fork(get_two))


def test_the_first_of_several_signals_counts():
    """Signals that arrive together count in their order."""
    end_signals = EndSignals(lambda: True, 20)
    end_signals.notice(bytes([signal.SIGTERM, signal.SIGUSR1]))
    assert signal.SIGTERM == end_signals.received


class TestCtrlC:
    @pytest.fixture(autouse=True)
    def _python_handler(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    @pytest.fixture
    def now(self, monkeypatch):
        """A list with the time, which tests change."""
        now = [100.0]
        monkeypatch.setattr(module, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
        return now

    @pytest.mark.parametrize("seen_together", [True, False])
    def test_one_press_may_send_two(self, now, seen_together):
        """Two SIGINTs at almost the same time are one Ctrl-C, however many calls of handlers they cause."""
        end_signals = EndSignals(lambda: True, 20, lambda: True)
        with pytest.raises(Interrupted), end_signals:
            for numbers in [[signal.SIGINT] * 2] if seen_together else [[signal.SIGINT]] * 2:
                send(signal.SIGINT)
                end_signals.notice(bytes(numbers))
                now[0] += 0.1
            assert not end_signals.is_given_up
            end_signals.check()

    def test_given_up(self, now):
        """After a second Ctrl-C, of which only the other thread knows, a plain KeyboardInterrupt leaves the context."""
        end_signals = EndSignals(lambda: True, 20, lambda: True)
        with pytest.raises(KeyboardInterrupt) as caught, end_signals:
            send(signal.SIGINT)
            for _ in range(2):
                end_signals.notice(bytes([signal.SIGINT]))
                now[0] += 1.0
            end_signals.check()
        assert KeyboardInterrupt is caught.type

    def test_sigterm_after_it(self, monkeypatch):
        """A SIGTERM after Ctrl-C sets the time limit."""
        monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)

        def get_both():
            with EndSignals(lambda: True, 0, lambda: True):
                send(signal.SIGINT)
                send(signal.SIGTERM)
                time.sleep(20)

        assert 143 == os.WEXITSTATUS(in_fork(get_both))

    def test_after_the_last_epoch(self, log_dir):
        """Once training has ended, Ctrl-C raises KeyboardInterrupt at once, because nothing is left to save."""
        raised = []

        class Press(Callback):
            def _after_train(self):
                try:
                    send(signal.SIGINT)
                except KeyboardInterrupt:
                    raised.append(True)

        trainer = CountingTrainer()
        begin_exact(True, None)
        run(trainer, [ModelSaver(), Press()])
        assert [True] == raised

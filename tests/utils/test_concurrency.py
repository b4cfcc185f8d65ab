"""Stoppable threads, signals, and processes that end with their parent."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from unittest import mock

import pytest

from tensorpack_lite.utils import concurrency
from tensorpack_lite.utils.argtools import log_once
from tensorpack_lite.utils.concurrency import (
    LoopThread,
    ShareSessionThread,
    StoppableThread,
    ensure_proc_terminate,
    is_main_thread,
    mask_sigint,
    start_proc_mask_signal,
    subproc_call,
)


def has_ended(pid: int, seconds: float = 60) -> bool:
    """Return whether a process, which is not a child of this one, ends in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True  # ended, and its parent has not read its return code
        except FileNotFoundError:
            return True
        threading.Event().wait(0.01)
    return False


class TestStoppableThread:
    def test_stop(self):
        """`stopped` returns True after `stop`."""
        thread = StoppableThread()
        before = thread.stopped()
        thread.stop()

        assert [False, True] == [before, thread.stopped()]

    def test_threads_can_share_an_event(self):
        """One event stops all threads that share it."""
        event = threading.Event()
        first, second = StoppableThread(event), StoppableThread(evt=event)
        first.stop()

        assert second.stopped()

    @pytest.mark.parametrize("method", ["put", "get"])
    def test_waiting_ends_when_stopped(self, monkeypatch, method):
        """A thread that waits for a queue ends soon after `stop`."""
        monkeypatch.setattr(concurrency, "_POLL_SECONDS", 0.01)
        objects = queue.Queue(maxsize=1)
        if method == "put":
            objects.put("full")

        class Waiter(StoppableThread):
            def run(self):
                self.result = (
                    self.queue_put_stoppable(objects, 1) if method == "put" else self.queue_get_stoppable(objects)
                )

        thread = Waiter()
        thread.start()
        thread.stop()
        thread.join(30)

        assert not thread.is_alive()
        assert thread.result is None

    def test_put_and_get(self, monkeypatch):
        """The queue methods pass objects, including None; putting into a full queue waits for room."""
        monkeypatch.setattr(concurrency, "_POLL_SECONDS", 0.001)
        thread, objects = StoppableThread(), queue.Queue(1)
        put = thread.queue_put_stoppable
        putting = threading.Thread(target=lambda: [put(objects, k) for k in ("a", None)], daemon=True)
        putting.start()
        putting.join(0.05)
        assert putting.is_alive()

        assert ["a", None] == [thread.queue_get_stoppable(objects) for _ in range(2)]
        putting.join()


class TestLoopThread:
    def run_until(self, thread, condition):
        """Start a thread and stop it once the condition holds."""
        thread.start()
        reached = condition.wait(30)
        thread.stop()
        thread.join(30)
        assert reached
        assert not thread.is_alive()

    def test_loops(self):
        """The function is called repeatedly until the thread is stopped."""
        calls, enough = [], threading.Event()

        def work():
            calls.append(1)
            if len(calls) == 10:
                enough.set()

        self.run_until(LoopThread(work), enough)

        assert len(calls) >= 10

    def test_is_a_daemon(self):
        """The thread is a daemon thread."""
        assert LoopThread(int).daemon

    def test_pause_and_resume(self):
        """A paused thread does not call the function until it is resumed."""
        enough = threading.Event()
        thread = LoopThread(enough.set)
        thread.pause()
        thread.start()
        paused = enough.wait(0.05)
        thread.resume()
        resumed = enough.wait(30)
        thread.stop()
        thread.join(30)

        assert [False, True] == [paused, resumed]

    def test_stops_while_paused(self):
        """A paused thread ends when it is stopped, without another call."""
        work = mock.Mock()
        thread = LoopThread(work)
        thread.pause()
        thread.start()
        thread.stop()
        thread.join(30)

        assert not thread.is_alive()
        work.assert_not_called()

    def test_not_pausable(self):
        """`pause` of a thread that is not pausable raises a RuntimeError."""
        with pytest.raises(RuntimeError, match="LoopThread.pause: .*pausable=True"):
            LoopThread(int, pausable=False).pause()


class TestShareSessionThread:
    tf = pytest.importorskip("tensorflow").compat.v1

    def finish(self, thread):
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    def test_runs_a_thread_in_the_session(self, fresh_graph):
        """A wrapped thread runs in the default session and its graph."""
        seen = []
        value = self.tf.constant(3)

        def work():
            seen.append(self.tf.get_default_session())
            seen.append(self.tf.get_default_graph())
            seen.append(value.eval())

        with self.tf.Session() as session:
            self.finish(ShareSessionThread(threading.Thread(target=work)))

        assert [session, fresh_graph, 3] == seen

    def test_subclass_uses_default_sess(self, sess):
        """A subclass may enter the session several times."""
        seen = []

        class Worker(StoppableThread, ShareSessionThread):
            def run(self):
                for _ in range(2):
                    with self.default_sess() as session:
                        seen.append((session, session is sess, self.stopped()))

        self.finish(Worker())

        assert [(sess, True, False)] * 2 == seen

    def test_without_a_session_it_warns(self, capsys):
        """Without a default session at the start, the context yields None and logs a warning with the thread's name."""
        seen = []

        class Worker(ShareSessionThread):
            def run(self):
                with self.default_sess() as session:
                    seen.append(session)

        worker = Worker()
        worker.name = "ants"
        self.finish(worker)

        assert [None] == seen
        assert (
            "WRN ShareSessionThread ants: there was no default session when it was started." in capsys.readouterr().out
        )

    def test_name_and_daemon_of_the_thread(self):
        """The wrapper has the name and the daemon flag of the wrapped thread."""
        thread = ShareSessionThread(threading.Thread(name="ants", daemon=True))

        assert ("ants", True) == (thread.name, thread.daemon)

    def test_nothing_to_run(self):
        """A thread without anything to run raises a NotImplementedError."""
        with pytest.raises(NotImplementedError, match="nothing to run. Pass a thread, or override run"):
            ShareSessionThread().run()

    def test_a_function(self):
        """A function instead of a thread raises a TypeError."""
        with pytest.raises(
            TypeError, match=r"ShareSessionThread: th has the wrong type \(expected Thread, got function\)"
        ):
            ShareSessionThread(lambda: None)


class TestMaskSigint:
    def test_ignores_and_restores(self):
        """Ctrl-C is ignored inside the context, and the former handler is restored."""
        before = signal.getsignal(signal.SIGINT)
        with mask_sigint() as masked:
            inside = signal.getsignal(signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

        assert (True, signal.SIG_IGN, before) == (masked, inside, signal.getsignal(signal.SIGINT))

    def test_restores_after_an_exception(self):
        """The former handler is restored after an exception."""
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(ZeroDivisionError), mask_sigint():
            raise ZeroDivisionError

        assert before == signal.getsignal(signal.SIGINT)

    def test_in_another_thread_nothing_happens(self):
        """Outside of the main thread, the context yields False and changes nothing."""
        seen = []

        def work():
            with mask_sigint() as masked:
                seen.append((masked, is_main_thread()))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

        assert [(False, False)] == seen
        assert is_main_thread()


class TestStartProcMaskSignal:
    def test_starts_with_sigint_ignored(self):
        """One object or a list of objects is started while Ctrl-C is ignored."""
        seen = []

        class Startable:
            def start(self):
                seen.append(signal.getsignal(signal.SIGINT))

        start_proc_mask_signal(Startable())
        start_proc_mask_signal([Startable(), Startable()])

        assert [signal.SIG_IGN] * 3 == seen

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_a_process_ignores_ctrl_c(self, method, run_script):
        """SIGINT does not end a child, with fork and with spawn."""
        done = run_script(
            """
            import multiprocessing, os, signal
            from tensorpack_lite.utils.concurrency import start_proc_mask_signal

            def work(queue):
                os.kill(os.getpid(), signal.SIGINT)
                queue.put("alive")

            if __name__ == "__main__":
                signal.signal(signal.SIGINT, signal.default_int_handler)  # off where the tests run in the background
                context = multiprocessing.get_context("METHOD")
                queue = context.SimpleQueue()
                process = context.Process(target=work, args=(queue,))
                start_proc_mask_signal(process)
                process.join()
                print(process.exitcode, queue.get())
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                except KeyboardInterrupt:
                    print("parent interrupted")
            """.replace("METHOD", method)
        )

        assert "0 alive\nparent interrupted\n" == done.stdout

    def test_takes_a_thread(self):
        """A thread is started like a process."""
        done = threading.Event()
        thread = threading.Thread(target=done.set)
        start_proc_mask_signal(thread)
        thread.join(30)

        assert done.is_set()


class TestEnsureProcTerminate:
    @pytest.mark.parametrize("wrong", ["pid", threading.Thread()])
    def test_other_objects(self, wrong):
        """A thread or a number instead of a process raises a TypeError."""
        with pytest.raises(TypeError, match="expected a multiprocessing.Process or a list of them, got "):
            ensure_proc_terminate([wrong])

    def test_kills_what_does_not_terminate(self, monkeypatch):
        """A process that ignores SIGTERM is killed after a timeout."""
        process = mock.Mock(pid=1, is_alive=mock.Mock(return_value=True))
        concurrency._terminate(lambda: process, os.getpid())

        assert ["is_alive", "terminate", "join", "is_alive", "kill", "join"] == [c[0] for c in process.method_calls]

    @pytest.mark.parametrize(
        ("process", "forks_since"),
        [
            (None, 0),  # collected
            (mock.Mock(pid=None), 0),  # never started
            (mock.Mock(pid=1, is_alive=mock.Mock(return_value=False)), 0),  # ended
            (mock.Mock(pid=1), 1),  # this process is a fork of the owner
        ],
    )
    def test_leaves_alone_what_is_not_running(self, process, forks_since):
        """Only running processes that this process has started are terminated."""
        concurrency._terminate(lambda: process, os.getpid() - forks_since)

        assert process is None or not process.terminate.called

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    @pytest.mark.parametrize("end", ["pass", "raise ValueError", "sys.exit(3)"])
    def test_children_end_with_the_process(self, method, end, run_script):
        """A sleeping child ends when the main script returns, raises or exits."""
        done = run_script(
            """
            import multiprocessing, sys, time
            from tensorpack_lite.utils.concurrency import ensure_proc_terminate

            if __name__ == "__main__":
                process = multiprocessing.get_context("METHOD").Process(target=time.sleep, args=(600,))
                ensure_proc_terminate(process)
                process.start()
                print(process.pid, flush=True)
                END
            """.replace("METHOD", method).replace("END", end)
        )

        assert has_ended(int(done.stdout))


class TestDeathSignal:
    @pytest.mark.slow
    def test_child_dies_with_its_killed_parent(self, start_python, write_script):
        """A child ends when its parent is killed by SIGKILL."""
        script = write_script(
            """
            import multiprocessing, time
            from tensorpack_lite.utils.concurrency import enable_death_signal

            def work(queue):
                queue.put(enable_death_signal())
                time.sleep(600)

            if __name__ == "__main__":
                context = multiprocessing.get_context("fork")
                queue = context.SimpleQueue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get(), process.pid, flush=True)
                time.sleep(600)
            """
        )
        parent = start_python(script)
        works, pid = parent.stdout.readline().split()
        parent.kill()

        assert "True" == works
        assert has_ended(int(pid))

    @pytest.mark.parametrize("platform", ["darwin", "linux"])
    @pytest.mark.parametrize(("warn", "num_warnings"), [(True, 1), (False, 0)])
    def test_elsewhere_it_warns(self, monkeypatch, platform, warn, num_warnings, log_lines):
        """On other systems than Linux, and if prctl fails, the result is False with a warning, unless it is disabled."""
        library = mock.Mock(prctl=mock.Mock(return_value=-1))
        log_once.cache_clear()
        monkeypatch.setattr(concurrency.sys, "platform", platform)
        monkeypatch.setattr(concurrency.ctypes, "CDLL", mock.Mock(return_value=library))
        assert concurrency.enable_death_signal(_warn=warn) is False
        assert num_warnings == len(log_lines)


class TestSubprocCall:
    def test_output(self):
        """The output has stdout and stderr as bytes."""
        assert (b"out\nerr\n", 0) == subproc_call("echo out; echo err >&2")

    def test_failure(self, capsys):
        """A nonzero return code is returned, and logged with the output."""
        assert (b"oops\n", 3) == subproc_call("echo oops; exit 3")
        assert "WRN Command 'echo oops; exit 3' failed, return code=3. Output: oops" in capsys.readouterr().out

    @pytest.mark.slow
    def test_timeout(self, capsys):
        """After the timeout, the command and its children are killed, and -1 is returned with the output so far."""
        started = time.monotonic()
        result = subproc_call("echo begun; (sleep 30; echo never) | cat", timeout=5)

        assert (b"begun\n", -1) == result
        assert time.monotonic() - started < 25
        assert "timed out after 5 seconds. Output: begun" in capsys.readouterr().out

    def test_cannot_run(self, monkeypatch, capsys):
        """A command that cannot be started returns -2."""
        monkeypatch.setattr(subprocess, "Popen", mock.Mock(side_effect=OSError("no memory")))

        assert (b"", -2) == subproc_call("anything")
        assert "WRN Command 'anything' failed to run: no memory" in capsys.readouterr().out

    def test_interrupt_ends_the_command(self, monkeypatch):
        """Ctrl-C during the command kills it and raises KeyboardInterrupt."""
        process = mock.Mock(pid=4242, communicate=mock.Mock(side_effect=[KeyboardInterrupt, (b"", None)]))
        kill = mock.Mock()
        monkeypatch.setattr(subprocess, "Popen", mock.Mock(return_value=process))
        monkeypatch.setattr(concurrency.os, "killpg", kill)

        with pytest.raises(KeyboardInterrupt):
            subproc_call("anything")
        kill.assert_called_once_with(4242, signal.SIGKILL)

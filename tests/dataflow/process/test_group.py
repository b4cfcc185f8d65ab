"""Tests for starting workers, receiving from them and stopping them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from fakes.patience import patiently
from fakes.processes import python_environment
from fakes.worker_tasks import (
    count_up,
    fail_at,
    is_stopped_in,
    leave_and_fail,
    pass_on,
    send_to_itself,
    terminate_a_program,
    with_grandchild,
)

from tensorpack_lite.dataflow.process.errors import WorkerDied
from tensorpack_lite.dataflow.process.group import WorkerGroup
from tensorpack_lite.dataflow.process.worker import Settings, Task

ONE_BY_ONE = Settings(num_slots=2, max_ahead=1, chunk_length=1)


def start(*makes, settings=ONE_BY_ONE, args=()):
    """Start a group of workers."""
    return WorkerGroup("Stage", [Task("in a test", make, args, settings) for make in makes])


def first(group, count, worker=0):
    """Return the first datapoints of a worker."""
    found = []
    while len(found) < count:
        for index, datapoints in group.receive():
            found += datapoints if index == worker else []
    return found[:count]


class TestReceive:
    def test_datapoints_of_one_worker_are_in_order(self):
        """All datapoints of a worker arrive, in order."""
        group = start(count_up, settings=Settings())
        assert [[k] for k in range(1000)] == first(group, 1000)
        group.stop()

    def test_an_error_comes_after_earlier_datapoints(self):
        """An error is raised after the datapoints that were sent before it, and stops all workers."""
        group = start(fail_at, args=(3, int))
        with pytest.raises(WorkerDied, match="worker 0 .*, in a test, ended with exit code 0"):
            first(group, 4)
        with pytest.raises(RuntimeError, match="Stage: its workers were stopped. Build a new one"):
            first(group, 1)
        assert [] == multiprocessing.active_children()

    @patiently
    def test_a_grandchild_does_not_hide_a_death(self):
        """The death of a worker is noticed although its child holds the channel open."""
        group = start(with_grandchild)
        begin = time.monotonic()
        with pytest.raises(WorkerDied, match="was killed by SIGKILL"):
            first(group, 2)
        assert time.monotonic() - begin < 15  # the child lives for 20 s

    def test_a_worker_that_follows_another_is_not_blamed(self):
        """If a worker ends because another one failed, the error names the one that failed, whichever ends first."""
        reading, writing = multiprocessing.Pipe()
        tasks = [
            Task("in the first", leave_and_fail, (writing,), ONE_BY_ONE, [writing]),
            Task("in the second", pass_on, (reading,), ONE_BY_ONE, [reading]),
        ]
        group = WorkerGroup("Stage", tasks)
        with pytest.raises(ValueError, match="Stage: worker 0 .*, in the first at worker_tasks.py:.*: planted"):
            first(group, 1)


class TestSignals:
    @pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
    def test_they_are_left_to_the_parent(self, method, monkeypatch):
        """A worker survives SIGINT and SIGTERM, so it serves a main process that saves after a signal to the group."""
        context = multiprocessing.get_context(method)
        monkeypatch.setattr(multiprocessing, "Process", context.Process)
        group = start(send_to_itself, args=(signal.SIGINT, signal.SIGTERM))
        assert [[0], [1]] == first(group, 2)
        group.stop()
        assert [] == multiprocessing.active_children()

    def test_a_program_that_a_worker_runs(self):
        """SIGTERM ends a program that a worker has started."""
        group = start(terminate_a_program)
        assert [[-signal.SIGTERM]] == first(group, 1)
        group.stop()

    def test_sigterm_is_not_lost_while_workers_start(self):
        """After workers were started, the main process has the same signal mask as before."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        start(count_up).stop()
        assert before == signal.pthread_sigmask(signal.SIG_BLOCK, [])


class TestEnds:
    @pytest.mark.slow
    def test_workers_end_when_the_group_is_dropped(self):
        """Workers end when their group is garbage-collected without `stop`."""
        group = start(count_up)
        first(group, 1)
        del group
        gc.collect()
        assert [] == multiprocessing.active_children()

    def test_a_worker_that_does_not_notice(self):
        """A worker that computes on when its channel is closed is killed."""
        group = start(is_stopped_in, args=(60,))
        first(group, 1)
        group.stop()
        assert [] == multiprocessing.active_children()

    def test_a_fork_does_not_stop_the_workers(self):
        """Stopping the copy of a group in a forked process does not stop the workers."""
        group = start(count_up)
        first(group, 1)
        if os.fork() == 0:
            group.stop()
            os._exit(0)
        os.wait()
        assert 50 == len(first(group, 50))
        group.stop()

    def test_workers_outlive_the_thread_that_started_them(self):
        """Workers keep running after the thread that started them has ended (see `enable_death_signal`)."""
        made = []
        thread = threading.Thread(target=lambda: made.append(start(count_up)))
        thread.start()
        thread.join()
        assert 30 == len(first(made[0], 30))
        made[0].stop()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["ctrl-c", "normal", "exception"])
def test_how_a_script_with_workers_ends(end, tmp_path):
    """A script leaves no worker running, has the right exit code, and prints one traceback after Ctrl-C."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, signal, sys\n"
        "from tensorpack_lite.dataflow import DataFromList, MultiProcessMapData, MultiProcessRunnerZMQ\n"
        "def same(dp): return dp\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore it\n"
        "flow = MultiProcessRunnerZMQ(DataFromList([[1]] * 4), 2)\n"
        "flow = MultiProcessMapData(flow, 2, same)\n"
        "flow.reset_state()\n"
        "for k, _ in enumerate(flow):\n"
        "    if k == 50:\n"
        "        print(*(p.pid for p in multiprocessing.active_children()), flush=True)\n"
        f"        if {end!r} == 'normal': break\n"
        f"        if {end!r} == 'exception': raise ValueError('mine')\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=python_environment(),
        start_new_session=True,
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert 4 == len(pids)
    if end == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)  # to all processes, as a terminal does
    _, errors = process.communicate(timeout=20)
    errors = errors.decode()
    assert {"ctrl-c": 1, "exception": 1, "normal": 0}[end] == errors.count("Traceback"), errors
    assert ("KeyboardInterrupt" in errors) == (end == "ctrl-c")
    assert (process.returncode == 0) == (end == "normal")
    assert [False] * 4 == [_runs(pid) for pid in pids]


def _runs(pid):
    """Tell whether a process is running and not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""Workers, as the process that started them sees them."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from fakes.patience import patiently

import tensorpack_lite
from tensorpack_lite.dataflow.process.channel import Reader
from tensorpack_lite.dataflow.process.errors import WorkerDied
from tensorpack_lite.dataflow.process.group import Settings, WorkerGroup
from tensorpack_lite.dataflow.process.worker import Task
from tensorpack_lite.utils.utils import fix_rng_seed, get_rng

ONE_BY_ONE = Settings(num_slots=2, max_ahead=1, chunk_length=1)


def count_up():
    """Yields numbers without end."""
    yield from ([[k]] for k in itertools.count())


def fail_at(number, how):
    """Counts up to a number, and then does something."""
    for k in range(number):
        yield [[k]]
    how()


def draw():
    """Yields random numbers."""
    rng = get_rng()
    while True:
        yield [[rng.randint(10**9)]]


def tell_signals():
    """Yields how this process takes two signals."""
    ctrl_c, end = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield [[ctrl_c == signal.SIG_IGN, end == signal.SIG_DFL]]
    yield from count_up()


def with_grandchild():
    """Has a child of its own, which holds copies of all that is open, and dies."""
    if os.fork() == 0:
        time.sleep(3)
        os._exit(0)
    yield [[0]]
    os.kill(os.getpid(), signal.SIGKILL)


def leave_and_fail(connection):
    """Fails some time after it closed its connection to another worker."""
    connection.close()
    time.sleep(0.5)
    yield from fail_at(0, fail)


def fail():
    """The fault."""
    raise ValueError("planted")


def pass_on(connection):
    """Yields what another worker sends."""
    reader = Reader(connection)
    while True:
        yield reader.receive()


def start(*makes, settings=ONE_BY_ONE, args=()):
    """A group of workers."""
    return WorkerGroup("Stage", [Task("in a test", make, args) for make in makes], settings)


def first(group, count, worker=0):
    """The first datapoints of a worker."""
    found = []
    while len(found) < count:
        for index, datapoints in group.receive():
            found += datapoints if index == worker else []
    return found[:count]


class TestReceive:
    def test_everything_comes_in_order(self):
        """From one worker."""
        group = start(count_up, settings=Settings())
        assert [[k] for k in range(1000)] == first(group, 1000)
        group.stop()

    def test_workers_differ_and_repeat_themselves(self):
        """With a fixed seed, and without anybody's doing."""
        runs = []
        for _ in range(2):
            fix_rng_seed(3)
            group = start(draw, draw)
            found = {0: [], 1: []}
            while min(len(found[0]), len(found[1])) < 3:
                for index, datapoints in group.receive():
                    found[index] += datapoints
            group.stop()
            runs.append((found[0][:3], found[1][:3]))
        assert runs[0] == runs[1]
        assert runs[0][0] != runs[0][1]

    def test_an_error_comes_after_what_was_made_before(self):
        """And stops all workers."""
        group = start(fail_at, args=(3, int))
        with pytest.raises(WorkerDied, match="worker 0 .*, in a test, ended with exit code 0"):
            first(group, 4)
        with pytest.raises(RuntimeError, match="Stage: its workers were stopped; build a new one"):
            first(group, 1)
        assert [] == multiprocessing.active_children()

    @patiently
    def test_a_grandchild_does_not_hide_a_death(self):
        """It holds the channel open; the process itself is looked at."""
        group = start(with_grandchild)
        begin = time.monotonic()
        with pytest.raises(WorkerDied, match="was killed by SIGKILL"):
            first(group, 2)
        assert time.monotonic() - begin < 2.5

    def test_a_worker_that_follows_another_is_not_blamed(self):
        """Although it may end sooner than the one that it followed."""
        reading, writing = multiprocessing.Pipe()
        tasks = [
            Task("in the first", leave_and_fail, (writing,), sources=[writing]),
            Task("in the second", pass_on, (reading,), sources=[reading]),
        ]
        group = WorkerGroup("Stage", tasks, ONE_BY_ONE)
        with pytest.raises(ValueError, match="Stage: worker 0 .*, in the first: planted"):
            first(group, 1)


class TestSignals:
    def test_ctrl_c_is_left_to_the_parent(self):
        """And a polite end is not refused."""
        group = start(tell_signals)
        assert [[True, True]] == first(group, 1)
        group.stop()


class TestEnds:
    def test_workers_end_when_the_group_is_dropped(self):
        """Without `stop`."""
        group = start(count_up)
        first(group, 1)
        del group
        gc.collect()
        assert [] == multiprocessing.active_children()

    def test_stop_twice(self):
        """The second does nothing."""
        group = start(count_up)
        group.stop()
        group.stop()

    def test_a_fork_does_not_end_what_is_not_its_own(self):
        """Its copy of the group is dropped; the workers go on."""
        group = start(count_up)
        first(group, 1)
        if os.fork() == 0:
            group.stop()
            os._exit(0)
        os.wait()
        assert 50 == len(first(group, 50))
        group.stop()

    def test_workers_outlive_the_thread_that_started_them(self):
        """Linux would kill them with it; see `enable_death_signal`."""
        made = []
        thread = threading.Thread(target=lambda: made.append(start(count_up)))
        thread.start()
        thread.join()
        assert 30 == len(first(made[0], 30))
        made[0].stop()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("method", "thread"), [("fork", False), ("fork", True), ("spawn", False), ("forkserver", False)]
    )
    def test_workers_die_with_a_killed_parent(self, method, thread, tmp_path):
        """Within two seconds, by either of two ways (a thread that starts them leaves only one)."""
        script = tmp_path / "script.py"
        script.write_text(
            "import multiprocessing, sys, threading, time\n"
            "from tensorpack_lite.dataflow import DataFromList, MultiProcessRunnerZMQ\n"
            "def main():\n"
            "    global flow\n"
            "    flow = MultiProcessRunnerZMQ(DataFromList([[1]] * 4), 2)\n"
            "    flow.reset_state()\n"
            "    for _ in range(5): list(flow)\n"
            "if __name__ == '__main__':\n"
            f"    multiprocessing.set_start_method({method!r})\n"
            f"    if {thread}:\n"
            "        t = threading.Thread(target=main); t.start(); t.join()\n"
            "    else:\n"
            "        main()\n"
            "    print(*(p.pid for p in multiprocessing.active_children()), flush=True)\n"
            "    time.sleep(60)\n"
        )
        environment = dict(os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]))
        parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert 2 == len(pids)
        parent.kill()
        parent.wait()
        parent.stdout.close()
        deadline = time.monotonic() + 10
        while any(map(_runs, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [False, False] == [_runs(pid) for pid in pids]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["ctrl-c", "normal", "exception"])
def test_how_a_script_with_workers_ends(end, tmp_path):
    """Ctrl-C: one traceback, of the main process. Whatever the end: the exit code is right, and nobody is left."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, signal, sys\n"
        "from tensorpack_lite.dataflow import DataFromList, MultiProcessMapData, MultiProcessRunnerZMQ\n"
        "def same(dp): return dp\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored\n"
        "flow = MultiProcessRunnerZMQ(DataFromList([[1]] * 4), 2)\n"
        "flow = MultiProcessMapData(flow, 2, same)\n"
        "flow.reset_state()\n"
        "for k, _ in enumerate(flow):\n"
        "    if k == 50:\n"
        "        print(*(p.pid for p in multiprocessing.active_children()), flush=True)\n"
        f"        if {end!r} == 'normal': break\n"
        f"        if {end!r} == 'exception': raise ValueError('mine')\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert 4 == len(pids)
    if end == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, errors = process.communicate(timeout=20)
    errors = errors.decode()
    assert {"ctrl-c": 1, "exception": 1, "normal": 0}[end] == errors.count("Traceback"), errors
    assert ("KeyboardInterrupt" in errors) == (end == "ctrl-c")
    assert (process.returncode == 0) == (end == "normal")
    assert [False] * 4 == [_runs(pid) for pid in pids]


def _runs(pid):
    """Whether a process is there, and not only its entry."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

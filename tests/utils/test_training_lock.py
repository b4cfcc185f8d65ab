"""The lock that allows one training at a time in a directory, with real processes."""

from __future__ import annotations

import json
import os
import textwrap
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from fakes.waiting import wait_until

from tensorpack_lite.utils import logger, training_lock
from tensorpack_lite.utils.training_lock import TrainingLock

HOLD = """
    import sys
    from tensorpack_lite.utils.training_lock import TrainingLock
    TrainingLock(sys.argv[1], print).acquire(0)
    print("held", flush=True)
    sys.stdin.read()
"""
RACE = """
    import os, sys
    from tensorpack_lite.utils.training_lock import TrainingLock
    print("ready", flush=True)
    sys.stdin.readline()
    for name in sorted(os.listdir(sys.argv[1])):
        try:
            TrainingLock(os.path.join(sys.argv[1], name), lambda text: None).acquire(0)
            print(name, flush=True)
        except OSError as error:
            assert "a training is running" in str(error), error
    print("done", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start(start_python):
    """Function that starts one of the scripts above in another process."""
    return lambda script, *args: start_python("-c", textwrap.dedent(script), *args)


@pytest.fixture
def told():
    """The messages of the test's locks."""
    return []


@pytest.fixture
def lock(tmp_path, told):
    """A lock of the test's directory, released at the end."""
    lock = TrainingLock(str(tmp_path), told.append)
    yield lock
    lock.release()


def write_lock(directory, seconds_ago=0.0, **changes):
    """Write the lock file of another process, which is alive unless `changes` say otherwise."""
    lock = TrainingLock(str(directory), print)
    lock.acquire(0)
    with open(lock.path, encoding="utf-8") as file:
        content = {**json.load(file), **changes}
    lock.release()
    with open(lock.path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.utime(lock.path, (time.time() - seconds_ago,) * 2)


@contextmanager
def held(start, directory):
    """Context in which another process holds the lock of a directory."""
    process = start(HOLD, directory)
    assert "held\n" == process.stdout.readline()
    yield process


def test_taken_and_released(tmp_path, lock):
    """The lock is a file that names the process. The release removes it and ends the heartbeat's thread."""
    lock.acquire(0)
    content = json.loads((tmp_path / "training.lock").read_text())
    assert os.getpid() == content["pid"]
    assert lock.is_held

    lock.release()
    assert [] == os.listdir(str(tmp_path))
    assert not lock.is_held
    assert not [thread for thread in threading.enumerate() if thread.name == "TrainingLock"]


def test_several_times_in_one_process(tmp_path, lock, told):
    """A process may take its lock again, after a release and while it holds it."""
    for _ in range(2):
        lock.acquire(0)
        lock.release()
    lock.acquire(0)
    other = TrainingLock(str(tmp_path), told.append)
    other.acquire(0)
    other.release()
    assert [] == told


def test_the_lock_of_another_process(tmp_path, lock, start):
    """The error names the directory and the process that trains there."""
    with held(start, tmp_path) as process:
        match = rf"a training is running in '{tmp_path}' \(process {process.pid} on .*, since \d{{4}}-.*stop it"
        with pytest.raises(OSError, match=match):
            lock.acquire(0)
        assert not lock.is_held


@pytest.mark.slow
def test_waiting_for_another_process(tmp_path, lock, told, start):
    """A waiting process names the holder once, and takes the lock when the holder ends."""
    with held(start, tmp_path) as process:
        lock._tell = lambda text: (told.append(text), process.stdin.close())
        lock.acquire(60)

    assert 1 == len(told)
    assert f"Waiting up to 60 s: a training is running in '{tmp_path}' (process {process.pid} on " in told[0]
    assert lock.is_held


@pytest.mark.parametrize("reaped", [True, False])
def test_the_lock_of_a_killed_process(tmp_path, lock, told, start, reaped):
    """The lock of a killed process is taken over at once, even while the process is a zombie."""
    with held(start, tmp_path) as process:
        process.kill()
        if reaped:
            process.wait()
        else:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        lock.acquire(0)

    assert 1 == len(told)
    assert f"process {process.pid} on " in told[0]


def test_a_reused_pid(tmp_path, lock):
    """A process with the holder's pid and another start time is not the holder."""
    write_lock(tmp_path, pid=os.getppid(), started="1")
    lock.acquire(0)


def test_another_boot_or_container(tmp_path, lock):
    """In another container or after a reboot, pids mean other processes, so only the heartbeat counts."""
    write_lock(tmp_path, machine="another boot", pid=2**22 + 1)
    with pytest.raises(OSError, match="a training is running"):
        lock.acquire(0)


@pytest.mark.parametrize(("seconds", "is_stale"), [(50, False), (61, True)])
def test_the_lock_of_another_machine(tmp_path, lock, seconds, is_stale):
    """The lock of another machine is taken over if it was not renewed for a minute."""
    write_lock(tmp_path, seconds, host="elsewhere", machine="elsewhere")
    if is_stale:
        lock.acquire(0)
    else:
        with pytest.raises(OSError, match="on elsewhere"):
            lock.acquire(0)


@pytest.fixture
def seconds(monkeypatch):
    """The seconds that a test has waited, by a clock that only `sleep` moves; the disk has the same clock."""
    passed = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: passed[0],
        sleep=lambda seconds: passed.__setitem__(0, passed[0] + seconds),
        strftime=time.strftime,
    )
    monkeypatch.setattr(training_lock, "time", clock)
    monkeypatch.setattr(training_lock, "_age", lambda file, directory: passed[0] - os.fstat(file.fileno()).st_mtime)
    return passed


@pytest.mark.parametrize("ahead", [-4.9, 0.0, 4.9])
def test_waiting_for_a_dead_machine(log_dir, seconds, ahead):
    """By default, a process waits long enough for a machine that has just died, also if its clock differs by 5 seconds."""
    write_lock(log_dir, host="elsewhere", machine="elsewhere")
    path = os.path.join(log_dir, "training.lock")
    os.utime(path, (ahead, ahead))
    logger.lock_dir()
    assert seconds[0] == pytest.approx(60 + ahead, abs=0.5)
    with open(path, encoding="utf-8") as file:
        assert os.getpid() == json.load(file)["pid"]
    logger.unlock_dir()


@pytest.mark.proof
def test_waiting_for_a_dead_machine_with_the_clock_of_the_disk(tmp_path, lock):
    """The same with real clocks: a heartbeat from 4 seconds in the future counts for at most 75 seconds."""
    write_lock(tmp_path, -4.0, host="elsewhere", machine="elsewhere")
    lock.acquire(75.0)
    assert lock.is_held


def test_an_incomplete_file(tmp_path, lock):
    """The incomplete file of a process that was killed while writing it is not a lock."""
    (tmp_path / "training.lock").write_text('{"host": "h", "pid":')
    lock.acquire(0)


@pytest.mark.slow
def test_several_processes_take_over_at_once(tmp_path, start):
    """If several processes take over a stale lock at the same time, exactly one gets it."""
    names = [f"{number:02d}" for number in range(40)]
    for name in names:
        (tmp_path / name).mkdir()
        write_lock(tmp_path / name, pid=os.getppid(), started="1")
    processes = [start(RACE, tmp_path) for _ in range(4)]
    for process in processes:
        assert "ready\n" == process.stdout.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [line.strip() for process in processes for line in iter(process.stdout.readline, "done\n")]
    assert names == sorted(won)


def test_the_heartbeat(tmp_path, lock):
    """A thread renews the file's modification time while the lock is held."""
    lock.acquire(0, renew_every=0.01)
    os.utime(lock.path, (0, 0))
    wait_until(lambda: os.path.getmtime(lock.path) > 0)


def test_a_lost_lock(tmp_path, lock, told):
    """A holder whose lock was taken over logs that once, and does not remove the other process's file."""
    lock.acquire(0, renew_every=0.01)
    write_over(lock.path, host="elsewhere", machine="elsewhere", pid=7)
    wait_until(lambda: told)
    lock.release()

    assert [
        f"The lock of '{tmp_path}' was taken over by process 7 on elsewhere. Another training may also write there."
    ] == told
    assert os.path.exists(lock.path)


def test_a_removed_directory(tmp_path, told):
    """Releasing the lock of a removed directory does nothing."""
    directory = tmp_path / "log"
    directory.mkdir()
    lock = TrainingLock(str(directory), told.append)
    lock.acquire(0)
    os.remove(lock.path)
    directory.rmdir()
    lock.release()


def test_a_forked_process(tmp_path, lock):
    """A process forked from the holder does not hold the lock, and does not release it."""
    lock.acquire(0)
    pid = os.fork()
    if pid == 0:
        code = int(lock.is_held)
        lock.release()
        os._exit(code)
    assert 0 == os.waitpid(pid, 0)[1]
    assert os.path.exists(lock.path)


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3), ("1 / 0", 1)])
def test_the_end_of_the_process(tmp_path, start, end, code):
    """A process that returns, exits or raises releases its lock and does not wait for the thread."""
    process = start(textwrap.dedent(HOLD).replace("sys.stdin.read()", end), tmp_path)
    process.communicate()
    assert code == process.returncode
    assert [] == os.listdir(str(tmp_path))


class TestLoggersDirectory:
    """`logger.lock_dir`, and `set_logger_dir` on a directory in which a training runs."""

    def test_without_a_directory(self):
        """Without a directory, `lock_dir` and `unlock_dir` do nothing."""
        logger.lock_dir(0)
        logger.unlock_dir()

    def test_the_lock_is_released_with_the_directory(self, log_dir, tmp_path):
        """`unlock_dir`, another directory, and a reset release the lock."""
        for release in (
            logger.unlock_dir,
            lambda: logger.set_logger_dir(str(tmp_path / "b"), "k"),
            logger.reset,
        ):
            logger.lock_dir(0)
            locked = os.path.join(logger.get_logger_dir(), "training.lock")
            assert os.path.exists(locked)
            release()
            assert not os.path.exists(locked)

    @pytest.mark.parametrize("action", ["d", "b"])
    def test_a_live_training(self, tmp_path, start, action):
        """A directory in which another process trains cannot be deleted or moved, but it can be kept."""
        (tmp_path / "precious").write_text("")
        with held(start, tmp_path) as process:
            with pytest.raises(OSError, match=rf"cannot be deleted or moved: a training is .*process {process.pid} "):
                logger.set_logger_dir(str(tmp_path), action)
            assert ["precious", "training.lock"] == sorted(os.listdir(str(tmp_path)))
            logger.set_logger_dir(str(tmp_path), "k")

    @pytest.mark.parametrize("action", ["d", "b"])
    def test_a_dead_training(self, tmp_path, action):
        """A directory with a stale lock can be deleted or moved."""
        directory = tmp_path / "log"
        directory.mkdir()
        write_lock(directory, pid=os.getppid(), started="1")
        logger.set_logger_dir(str(directory), action)
        assert ["log.log"] == os.listdir(str(directory))

    @pytest.mark.parametrize("action", ["d", "b"])
    def test_the_own_training(self, log_dir, action):
        """The process that holds the lock may delete or move its own directory."""
        logger.lock_dir(0)
        logger.set_logger_dir(log_dir, action)
        assert ["log.log"] == os.listdir(log_dir)


def write_over(path, **changes):
    """Change some entries of a lock file."""
    with open(path, encoding="utf-8") as file:
        content = {**json.load(file), **changes}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)

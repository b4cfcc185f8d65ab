"""
A lock file that allows one training at a time in a directory.

The file `training.lock` names the training process. Its modification time is a heartbeat, which a thread
renews every 10 seconds. A lock is stale if its holder is on the same machine and does not run anymore, or is
on another machine and did not renew the heartbeat for 60 seconds.

The content of the file changes only under `flock`, so if several processes take over a stale lock at once, one of them
gets it. The `flock` is held for milliseconds only: during training, forked data workers would inherit it and
could outlive the training.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import socket
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from typing import IO, Callable, Iterator, NamedTuple

import psutil

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_RENEW_SECONDS = 10.0
_STALE_SECONDS = 60.0
_POLL_SECONDS = 0.2
# errors of file systems without flock, such as some versions of NFS, CIFS and DrvFs
_NO_FLOCK = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, errno.EACCES)


class _Process(NamedTuple):
    """The content of a lock file: a process."""

    host: str
    machine: str  # differs between machines, containers and boots that share a host name
    pid: int
    started: str  # tells the process from a later one with the same pid
    since: str  # when it took the lock, for messages


_FIELDS = {"host": str, "machine": str, "pid": int, "started": str, "since": str}


class TrainingLock:
    """
    The lock of one directory. On Windows, it does nothing.

    Args:
        directory: an existing directory.
        tell: called with a message when the process waits for the lock, takes it over or loses it.

    Attributes:
        path: the lock file.
    """

    FILENAME = "training.lock"

    def __init__(self, directory: str, tell: Callable[[str], None]) -> None:
        self.directory = directory
        self.path = os.path.join(os.path.abspath(directory), self.FILENAME)
        self._tell = tell
        self._mine: _Process | None = None
        self._released = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_flock = True

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock. False in a fork of the process that took it."""
        return self._mine is not None and self._mine.pid == os.getpid()

    def acquire(self, wait: float, renew_every: float = _RENEW_SECONDS) -> None:
        """
        Take the lock and hold it until `release` or the end of the process.

        Args:
            wait: maximum number of seconds to wait for another process.
            renew_every: seconds between two heartbeats.

        Raises:
            OSError: another training still holds the lock after `wait` seconds, or the file cannot be written.
        """
        if fcntl is None:
            return
        deadline = time.monotonic() + wait
        holder = self._try_to_take()
        if holder is not None and wait > 0:
            self._tell(f"Waiting up to {wait:.0f} s: {_describe(holder, self.directory)}")
        while holder is not None:
            if time.monotonic() >= deadline:
                raise OSError(f"TrainingLock: {_describe(holder, self.directory)}")
            time.sleep(_POLL_SECONDS)
            holder = self._try_to_take()
        self._released.clear()
        self._thread = threading.Thread(target=self._renew, args=(renew_every,), name="TrainingLock", daemon=True)
        self._thread.start()
        atexit.register(self.release)

    def release(self) -> None:
        """Remove the lock file, if this process holds the lock."""
        if not self.is_held:
            return
        atexit.unregister(self.release)
        self._released.set()
        if self._thread is not None:
            self._thread.join()
        # the directory may have been removed
        with suppress(FileNotFoundError), _alone_with(self.path, "r+") as file:
            if _read(file) == self._mine:
                os.remove(self.path)
        self._mine = None

    @staticmethod
    def holder(directory: str) -> str | None:
        """Return a message that names the other process that trains in a directory, or None if there is none."""
        if fcntl is None:
            return None
        path = os.path.join(directory, TrainingLock.FILENAME)
        with suppress(FileNotFoundError), _alone_with(path, "r+") as file:
            holder = _live_holder(file, directory)
            return None if holder is None else _describe(holder, directory)
        return None

    @staticmethod
    def holding_process(directory: str) -> int | None:
        """Return the id of the process that trains in a directory; None if there is none on this machine."""
        path = os.path.join(directory, TrainingLock.FILENAME)
        with suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
            holder = _read(file)
            if holder is not None and holder.machine == _machine() and _start_of(holder.pid) == holder.started:
                return holder.pid
        return None

    def _try_to_take(self) -> _Process | None:
        """Take the lock if it is free or stale, otherwise return its holder."""
        with _alone_with(self.path, "a+", self._warn_without_flock) as file:
            holder = _live_holder(file, self.directory)
            if holder is not None:
                return holder
            former, mine = _read(file), _this_process()
            file.seek(0)
            file.truncate()
            file.write(json.dumps(mine._asdict()))
            file.flush()
            self._mine = mine
        if former is not None and not _is_same(former, mine):
            self._tell(f"Took over the lock of '{self.directory}': process {former.pid} on {former.host} has ended.")
        return None

    def _warn_without_flock(self, reason: str) -> None:
        if self._has_flock:
            self._tell(
                f"The file system of '{self.directory}' cannot lock files ({reason}). If two training runs start there at the same "
                "moment, both may run. Give each training a directory of its own."
            )
        self._has_flock = False

    def _renew(self, seconds: float) -> None:
        """Renew the file's modification time again and again, and tell of the first problem."""
        has_told = False
        while not self._released.wait(seconds):
            problem = ""
            try:
                with open(self.path, encoding="utf-8") as file:
                    holder = _read(file)
                os.utime(self.path)
                if holder is not None and holder != self._mine:
                    problem = f"was taken over by process {holder.pid} on {holder.host}"
            except OSError as error:
                problem = f"cannot be renewed: {error}"
            if problem and not has_told:
                self._tell(f"The lock of '{self.directory}' {problem}. Another training may also write there.")
                has_told = True


def _live_holder(file: IO[str], directory: str) -> _Process | None:
    """Return the process in a lock file if it may still be training and is not this one, otherwise None."""
    holder = _read(file)
    mine = _this_process()
    if holder is None or _is_same(holder, mine):
        return None
    if holder.machine == mine.machine:
        return holder if _start_of(holder.pid) == holder.started else None
    return holder if _age(file, directory) < _STALE_SECONDS else None


def _is_same(first: _Process, second: _Process) -> bool:
    return first._replace(since=second.since) == second


def _describe(holder: _Process, directory: str) -> str:
    return (
        f"a training is running in '{directory}' (process {holder.pid} on {holder.host}, since {holder.since}). Wait until "
        "it ends, stop it, or choose another directory."
    )


def _read(file: IO[str]) -> _Process | None:
    """Return the process in a lock file, or None if the file is empty or incomplete."""
    file.seek(0)
    try:
        content = json.load(file)
        return _Process(**{name: kind(content[name]) for name, kind in _FIELDS.items()})
    except (ValueError, KeyError, TypeError):
        return None


def _this_process() -> _Process:
    pid = os.getpid()
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return _Process(socket.gethostname(), _machine(), pid, str(_start_of(pid)), now)


def _machine() -> str:
    """Identify the machine: processes with the same result can look up each other's pids."""
    parts = [socket.gethostname()]
    with suppress(OSError):  # these two exist on Linux only
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            parts.append(file.read().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _start_of(pid: int) -> str | None:
    """Return the start time of a process in a form that clock changes do not affect, or None if it does not run."""
    if not sys.platform.startswith("linux"):
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
        except psutil.NoSuchProcess:
            return None
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # the process name before it may contain spaces
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def _age(file: IO[str], directory: str) -> float:
    """Return the seconds since the last heartbeat by the file system's clock, since clocks of machines differ."""
    with tempfile.TemporaryFile(dir=directory) as new:
        return os.fstat(new.fileno()).st_mtime - os.fstat(file.fileno()).st_mtime


@contextmanager
def _alone_with(path: str, mode: str, tell: Callable[[str], None] | None = None) -> Iterator[IO[str]]:
    """Open a file under an exclusive `flock`. If the file system has none, call `tell` with the reason, and continue."""
    while True:
        with open(path, mode, encoding="utf-8") as file:
            problem = _flock(file, fcntl.LOCK_EX)
            if problem and tell is not None:
                tell(problem)
            try:
                if _is_at(path, file):  # otherwise its holder has removed it in the meantime
                    yield file
                    return
            finally:
                _flock(file, fcntl.LOCK_UN)  # closing does not unlock if the process has forked in between


def _is_at(path: str, file: IO[str]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _flock(file: IO[str], operation: int) -> str:
    """Lock or unlock a file. Return the reason if the file system cannot, otherwise an empty text."""
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        return str(error.strerror)
    return ""

"""
Threads with a cooperative stop flag, and processes that end with their parent.

`DIE`, `OrderedContainer` and `OrderedResultGatherProc` are defined in `ordering` and can be imported from here.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing.util
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Callable, Iterator, Sequence, Union

from . import logger
from .argtools import log_once
from .checks import check_type
from .ordering import DIE as DIE
from .ordering import OrderedContainer as OrderedContainer
from .ordering import OrderedResultGatherProc as OrderedResultGatherProc

__all__ = [
    "LoopThread", "ShareSessionThread", "StoppableThread", "enable_death_signal", "ensure_proc_terminate",
    "start_proc_mask_signal",
]  # fmt: skip

Startable = Union[threading.Thread, BaseProcess]

_POLL_SECONDS = 0.2
_TERMINATE_SECONDS = 5
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class StoppableThread(threading.Thread):
    """
    A thread with a cooperative stop flag.

    Args:
        evt: the stop flag; several threads may share one. Default: a new event.

    Example:
        >>> class Reader(StoppableThread):
        ...     def run(self):
        ...         while not self.stopped():
        ...             self.queue_put_stoppable(self.queue, read())

    Note:
        A class may inherit from this class and from `ShareSessionThread`.
    """

    def __init__(self, evt: threading.Event | None = None) -> None:
        super().__init__()
        self._stop_evt = threading.Event() if evt is None else evt

    def stop(self) -> None:
        """Set the stop flag and return at once."""
        self._stop_evt.set()

    def stopped(self) -> bool:
        """Return whether the stop flag is set."""
        return self._stop_evt.is_set()

    def queue_put_stoppable(self, q: queue.Queue | multiprocessing.queues.Queue, obj: object) -> None:
        """
        Put an object into a queue, unless the stop flag is set while the queue is full.

        Args:
            q: a `queue.Queue`, or a queue of multiprocessing.
            obj: the object.
        """
        while not self.stopped():
            try:
                q.put(obj, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                pass

    def queue_get_stoppable(self, q: queue.Queue | multiprocessing.queues.Queue) -> Any:
        """
        Get an object from a queue, unless the stop flag is set while the queue is empty.

        Args:
            q: a `queue.Queue`, or a queue of multiprocessing.

        Returns:
            The object, or None if the stop flag was set.
        """
        while not self.stopped():
            try:
                return q.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                pass
        return None


class LoopThread(StoppableThread):
    """
    A daemon thread that calls a function repeatedly.

    Args:
        func: the function, without arguments.
        pausable: whether `pause` may be called.
    """

    def __init__(self, func: Callable[[], object], pausable: bool = True) -> None:
        super().__init__()
        self._func = func
        self._pausable = pausable
        self._may_run = threading.Event()
        self._may_run.set()
        self.daemon = True

    def run(self) -> None:
        """Call the function until the stop flag is set."""
        while not self.stopped():
            self._may_run.wait()
            if not self.stopped():
                self._func()

    def stop(self) -> None:
        """Set the stop flag, which also ends a paused thread."""
        super().stop()
        self._may_run.set()

    def pause(self) -> None:
        """
        Stop calling the function until `resume`. A running call is not interrupted.

        Raises:
            RuntimeError: the thread is not pausable.
        """
        if not self._pausable:
            raise RuntimeError(
                "LoopThread.pause: the thread is not pausable. Create it with LoopThread(func, pausable=True)."
            )
        self._may_run.clear()

    def resume(self) -> None:
        """Call the function again after `pause`."""
        self._may_run.set()


class ShareSessionThread(threading.Thread):
    """
    A thread that runs in the TensorFlow session that is the default when the thread is started.

    Args:
        th: a thread whose `run` is executed in that session. None: a subclass overrides `run` and uses
            `with self.default_sess():`.

    Raises:
        NotImplementedError: (in the thread) `th` is None and `run` is not overridden.
    """

    def __init__(self, th: threading.Thread | None = None) -> None:
        super().__init__()
        self._th = th
        self._sess: Any = None
        if th is not None:
            check_type("ShareSessionThread: th", th, threading.Thread)
            self.name = th.name
            self.daemon = th.daemon

    def start(self) -> None:
        """Start the thread in the caller's default session."""
        from ..compat import tfv1

        self._sess = tfv1.get_default_session()
        super().start()

    def run(self) -> None:
        """Run the `run` of the given thread in the session."""
        if self._th is None:
            raise NotImplementedError(
                "ShareSessionThread: the thread has nothing to run. Pass a thread, or override run() and use default_sess()."
            )
        with self.default_sess():
            self._th.run()

    @contextmanager
    def default_sess(self) -> Iterator[Any]:
        """
        Make the session and its graph the default.

        Yields:
            The session, or None with a warning if there was no default session at `start`.
        """
        if self._sess is None:
            logger.warning(f"ShareSessionThread {self.name}: there was no default session when it was started.")
            yield None
            return
        with self._sess.graph.as_default(), self._sess.as_default():
            yield self._sess


def is_main_thread() -> bool:
    """Return whether the caller runs in the main thread of the process."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def mask_sigint() -> Iterator[bool]:
    """
    Ignore Ctrl-C (SIGINT) inside the context. Processes started inside inherit this.

    Yields:
        True, or False outside of the main thread, where signal handlers cannot be changed.
    """
    if not is_main_thread():
        yield False
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield True
    finally:
        # None: the handler was not installed from Python, and cannot be put back from there
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextmanager
def delay_sigint() -> Iterator[None]:
    """
    Call Python's handler of Ctrl-C (SIGINT) only after the context, so that it interrupts nothing inside and no Ctrl-C is lost.

    Processes started inside begin with SIGINT and SIGTERM blocked, also outside of the main thread.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    handler = signal.getsignal(signal.SIGINT) if is_main_thread() else None
    received: list[Any] = []
    if callable(handler):
        signal.signal(signal.SIGINT, lambda _, frame: received.append(frame))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if callable(handler):
            signal.signal(signal.SIGINT, handler)
            if received:
                handler(signal.SIGINT, received[0])


def require_children(who: str) -> None:
    """
    Require that this process may start others; `who` is what starts them, for the message.

    Raises:
        RuntimeError: this is a daemonic process of multiprocessing, such as a worker of `multiprocessing.Pool`.
    """
    process = multiprocessing.process.current_process()
    if process.daemon:
        raise RuntimeError(
            f"{who}: cannot start processes in '{process.name}' (pid {os.getpid()}), which is a daemonic process of "
            "multiprocessing, such as a worker of multiprocessing.Pool. Start it with daemon=False (concurrent.futures does), or "
            "use threads, such as MultiThreadMapData."
        )


def start_proc_mask_signal(proc: Startable | Sequence[Startable]) -> None:
    """
    Start processes that ignore Ctrl-C. The main process handles it and ends them.

    Args:
        proc: a process or a thread, or a list of them.

    Raises:
        RuntimeError: this process is daemonic, and `proc` has processes; see `require_children`.

    Note:
        Outside of the main thread, the processes are started without ignoring Ctrl-C.
    """
    if any(isinstance(process, BaseProcess) for process in _as_list(proc)):
        require_children("start_proc_mask_signal")
    with mask_sigint():
        for process in _as_list(proc):
            process.start()


def ensure_proc_terminate(proc: BaseProcess | Sequence[BaseProcess]) -> None:
    """
    Terminate processes when this process returns, raises an exception or calls `sys.exit`.

    Args:
        proc: a process of `multiprocessing`, with any start method, or a list of them.

    Raises:
        TypeError: `proc` has another type.

    Note:
        `enable_death_signal` also works if this process is killed.
    """
    for process in _as_list(proc):
        check_type("ensure_proc_terminate: proc", process, BaseProcess, "a multiprocessing.Process or a list of them")
        atexit.register(_terminate, weakref.ref(process), os.getpid())


def enable_death_signal(_warn: bool = True) -> bool:
    """
    Let the operating system kill this process when its parent ends for any reason (Linux only).

    A child process calls it first.

    Returns:
        Whether the operating system supports it.

    Note:
        For Linux, the parent is the *thread* that started this process, and this process is killed when that
        thread ends. Start it from a thread that lives at least as long.
    """
    if not sys.platform.startswith("linux"):
        problem = "works on Linux only. If this process is killed, end its workers yourself."
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
            return True
        problem = f"prctl failed: {os.strerror(ctypes.get_errno())}"
    if _warn:
        log_once(f"enable_death_signal: {problem}", "warning")
    return False


def subproc_call(cmd: str, timeout: float | None = None) -> tuple[bytes, int]:
    """
    Run a shell command and wait for it.

    Args:
        cmd: the command.
        timeout: seconds until the command and its child processes are killed. None: no limit.

    Returns:
        Its output (stdout and stderr) and its return code: -1 after the timeout, -2 if it could not be run. Codes other
        than 0 are also logged as warnings.
    """
    try:
        process = subprocess.Popen(
            cmd, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        logger.warning(f"Command '{cmd}' failed to run: {error}")
        return b"", -2
    try:
        output, _ = process.communicate(timeout=timeout)
        code, problem = process.returncode, f"failed, return code={process.returncode}"
    except BaseException as error:  # also Ctrl-C, which does not reach the command's session
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        code, problem = -1, f"timed out after {timeout} seconds"
    if code != 0:
        logger.warning(f"Command '{cmd}' {problem}. Output: {output.decode('utf-8', errors='replace')}")
    return output, code


def _as_list(item: object) -> Sequence[Any]:
    return item if isinstance(item, (list, tuple)) else [item]


def _terminate(reference: Callable[[], BaseProcess | None], owner: int) -> None:
    """
    Terminate a process at exit, and kill it if it does not end in time.

    The exit handler of multiprocessing.util waits for all children. The handler registered last runs first, so that
    module is imported at the top, before any of these is registered.
    """
    process = reference()
    if process is None or os.getpid() != owner or process.pid is None or not process.is_alive():
        return  # collected, a child of the process that this one was forked from, never started, or ended
    process.terminate()
    process.join(_TERMINATE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()

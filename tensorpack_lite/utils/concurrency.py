"""
Threads that can be stopped, and processes that end with their parent.

`DIE`, `OrderedContainer` and `OrderedResultGatherProc` are defined in `ordering`, and importable from here.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing.util  # noqa: F401 (see _terminate)
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Callable, Iterator, Sequence

from . import logger
from .argtools import log_once
from .errors import type_error
from .ordering import DIE, OrderedContainer, OrderedResultGatherProc

__all__ = [
    "DIE",
    "LoopThread",
    "OrderedContainer",
    "OrderedResultGatherProc",
    "ShareSessionThread",
    "StoppableThread",
    "enable_death_signal",
    "ensure_proc_terminate",
    "is_main_thread",
    "mask_sigint",
    "start_proc_mask_signal",
    "subproc_call",
]

_POLL_SECONDS = 0.2
_TERMINATE_SECONDS = 5
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class StoppableThread(threading.Thread):
    """
    A thread that others ask to stop, and that asks itself whether it was asked.

    Args:
        evt: the event that means "stop"; several threads may share one. Default: a new one.

    Example:
        >>> class Reader(StoppableThread):
        ...     def run(self):
        ...         while not self.stopped():
        ...             self.queue_put_stoppable(self.queue, read())

    Note:
        May be inherited together with `ShareSessionThread`.

    tensorpack: same; there a stop takes up to five seconds to be seen while waiting for a queue.
    """

    def __init__(self, evt: threading.Event | None = None) -> None:
        super().__init__()
        self._stop_evt = threading.Event() if evt is None else evt

    def stop(self) -> None:
        """Ask the thread to stop. Returns at once."""
        self._stop_evt.set()

    def stopped(self) -> bool:
        """Tell whether somebody asked the thread to stop."""
        return self._stop_evt.is_set()

    def queue_put_stoppable(self, q: Any, obj: object) -> None:
        """
        Put an object to a queue; give up when the thread is asked to stop.

        Args:
            q: a `queue.Queue`, or a queue of multiprocessing.
            obj: what to put.
        """
        while not self.stopped():
            try:
                q.put(obj, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                pass

    def queue_get_stoppable(self, q: Any) -> Any:
        """
        Take an object from a queue; give up when the thread is asked to stop.

        Args:
            q: a `queue.Queue`, or a queue of multiprocessing.

        Returns:
            The object, or None when the thread was asked to stop.
        """
        while not self.stopped():
            try:
                return q.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                pass
        return None


class LoopThread(StoppableThread):
    """
    A daemon thread that calls a function again and again.

    Args:
        func: the function, without arguments.
        pausable: whether `pause` may be called.

    tensorpack: same; there a paused thread cannot be stopped.
    """

    def __init__(self, func: Callable[[], Any], pausable: bool = True) -> None:
        super().__init__()
        self._func = func
        self._pausable = pausable
        self._may_run = threading.Event()
        self._may_run.set()
        self.daemon = True

    def run(self) -> None:
        """Call the function until stopped."""
        while not self.stopped():
            self._may_run.wait()
            if not self.stopped():
                self._func()

    def stop(self) -> None:
        """Ask the thread to stop, also while it is paused."""
        super().stop()
        self._may_run.set()

    def pause(self) -> None:
        """
        Make no further call until `resume`. A call that is under way goes on.

        Raises:
            RuntimeError: the thread is not pausable.
        """
        if not self._pausable:
            raise RuntimeError("LoopThread: pause() needs LoopThread(func, pausable=True).")
        self._may_run.clear()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._may_run.set()


class ShareSessionThread(threading.Thread):
    """
    A thread that works in the TensorFlow session which is the default where it is started.

    Args:
        th: a thread whose `run` is to be executed in that session. Default None: a subclass has a `run` that uses
            `with self.default_sess():`.

    Raises:
        NotImplementedError: (in the thread) neither `th` nor a `run` is given.

    tensorpack: same; there only the session becomes the default, not its graph.
    """

    def __init__(self, th: threading.Thread | None = None) -> None:
        super().__init__()
        if th is not None and not isinstance(th, threading.Thread):
            raise type_error("ShareSessionThread", "a Thread", th)
        self._th = th
        self._sess: Any = None
        if th is not None:
            self.name = th.name
            self.daemon = th.daemon

    def start(self) -> None:
        """Start the thread, and keep the default session of the caller for it."""
        from ..compat import tfv1

        self._sess = tfv1.get_default_session()
        super().start()

    def run(self) -> None:
        """Run the given thread's `run` in the session."""
        if self._th is None:
            raise NotImplementedError(
                "ShareSessionThread: there is nothing to run. Pass a thread, or override run() and use default_sess()."
            )
        with self.default_sess():
            self._th.run()

    @contextmanager
    def default_sess(self) -> Iterator[Any]:
        """
        Make the session, and its graph, the default.

        Yields:
            The session; None, with a warning, when there was no default session at `start`.
        """
        if self._sess is None:
            logger.warning(f"ShareSessionThread {self.name} wasn't under a default session!")
            yield None
            return
        with self._sess.graph.as_default(), self._sess.as_default():
            yield self._sess


def is_main_thread() -> bool:
    """Tell whether the caller runs in the main thread of the process."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def mask_sigint() -> Iterator[bool]:
    """
    Ignore Ctrl-C (SIGINT) inside the context; processes started there go on ignoring it.

    Yields:
        True; False when not in the main thread, where nothing can be done.

    tensorpack: same; there SIGINT stays ignored when the body raises.
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


def start_proc_mask_signal(proc: Any) -> None:
    """
    Start processes that ignore Ctrl-C: the main process handles it and ends them.

    Args:
        proc: a process or a list of them; anything with a `start` method, threads as well.

    Note:
        From another thread than the main one they are started without that.

    tensorpack: same.
    """
    with mask_sigint():
        for each in _as_list(proc):
            each.start()


def ensure_proc_terminate(proc: Any) -> None:
    """
    Terminate processes when this process exits normally, by an exception or by `sys.exit`.

    Args:
        proc: a process of `multiprocessing`, of any start method, or a list of them.

    Raises:
        TypeError: something else.

    Note:
        For a process that is killed see `enable_death_signal`.

    tensorpack: same; there the processes of a context (`get_context("spawn").Process`) are refused.
    """
    for each in _as_list(proc):
        if not isinstance(each, BaseProcess):
            raise type_error("ensure_proc_terminate", "a multiprocessing.Process or a list of them", each)
        atexit.register(_terminate, weakref.ref(each), os.getpid())


def enable_death_signal(_warn: bool = True) -> bool:
    """
    Let the operating system kill this process when its parent dies, however the parent dies (Linux only).

    A child calls it first of all.

    Returns:
        Whether it works here.

    Note:
        To Linux the parent is the *thread* that started this process: when that thread ends, this process is killed.
        Start it from a thread that lives as long as it shall live.

    tensorpack: same; there it needs the package python-prctl.
    """
    if not sys.platform.startswith("linux"):
        if _warn:
            log_once(
                "enable_death_signal: only on Linux; kill the workers yourself should this process die",
                "warning",
            )
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        if _warn:
            log_once(f"enable_death_signal: prctl failed: {os.strerror(ctypes.get_errno())}", "warning")
        return False
    return True


def subproc_call(cmd: str, timeout: float | None = None) -> tuple[bytes, int]:
    """
    Run a shell command and wait for it.

    Args:
        cmd: for the shell.
        timeout: seconds until it is killed, with all that it started. None: no limit.

    Returns:
        Its output (stdout and stderr) and its return code; -1 after the timeout, -2 when it could not be run. All
        but 0 are also logged as warnings.

    tensorpack: same.
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
    except subprocess.TimeoutExpired:
        _kill_session(process)
        output, _ = process.communicate()
        logger.warning(f"Command '{cmd}' timeout after {timeout} seconds! Output: {_readable(output)}")
        return output, -1
    except BaseException:  # Ctrl-C does not reach the command's session
        _kill_session(process)
        process.communicate()
        raise
    if process.returncode != 0:
        logger.warning(
            f"Command '{cmd}' failed, return code={process.returncode}. Output: {_readable(output)}"
        )
    return output, process.returncode


def _as_list(item: Any) -> Sequence[Any]:
    return item if isinstance(item, (list, tuple)) else [item]


def _terminate(reference: Callable[[], BaseProcess | None], owner: int) -> None:
    """
    End a process at exit: ask, wait, kill.

    multiprocessing.util also has an exit handler, which waits for all children. The handler registered last runs
    first, so that module is imported at the top, before any of these is registered.
    """
    process = reference()
    if process is None or os.getpid() != owner or process.pid is None or not process.is_alive():
        return  # gone, not ours (this process is a fork of the owner), never started, or ended
    process.terminate()
    process.join(_TERMINATE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _readable(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")

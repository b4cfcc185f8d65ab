"""Callback that runs processes and threads during training."""

from __future__ import annotations

import multiprocessing as mp
import threading
from typing import Any, Sequence

from ..loop.callback import Callback
from ..utils import logger
from ..utils.checks import check_type
from ..utils.concurrency import Startable, StoppableThread, start_proc_mask_signal

_JOIN_SECS = 5


class StartProcOrThread(Callback):
    """
    Callback that starts processes and threads before training, and stops them afterwards.

    Args:
        startable: a process or thread that has not been started, or a list of them.
        stop_at_last: after training, terminate processes and stop each `StoppableThread`, waiting at most 5
            seconds for each. Other threads are left running.

    Raises:
        TypeError: an element is neither a process nor a thread.

    Runs at: before_train, after_train. In every process of a distributed training.

    Note: Ctrl-C interrupts only the main process, not the processes started here.
    """

    _chief_only = False

    def __init__(self, startable: Startable | Sequence[Startable], stop_at_last: bool = True) -> None:
        self._startables: list[Any] = list(startable) if isinstance(startable, (list, tuple)) else [startable]
        for task in self._startables:
            types = mp.process.BaseProcess, threading.Thread
            check_type("StartProcOrThread: startable", task, types, "a Process or a Thread")
        self._stop_at_last = stop_at_last

    def _before_train(self) -> None:
        logger.info("Starting %s ...", ", ".join(task.name for task in self._startables))
        start_proc_mask_signal(self._startables)

    def _after_train(self) -> None:
        if not self._stop_at_last:
            return
        for task in self._startables:
            if not task.is_alive():
                continue
            if isinstance(task, StoppableThread):
                task.stop()
                logger.info("Stopping %s ...", task.name)
            elif isinstance(task, mp.process.BaseProcess):
                task.terminate()
            else:
                continue
            task.join(_JOIN_SECS)
            if task.is_alive():
                logger.error("%s did not stop within %d seconds.", task.name, _JOIN_SECS)

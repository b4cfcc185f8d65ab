"""Processes and threads that live as long as training."""

from __future__ import annotations

import multiprocessing as mp
import threading
from typing import Any, Sequence

from ..loop.callback import Callback
from ..utils import logger
from ..utils.concurrency import StoppableThread, start_proc_mask_signal
from ..utils.errors import type_error

__all__ = ["StartProcOrThread"]

_JOIN_SECS = 5


class StartProcOrThread(Callback):
    """
    Start processes and threads before training, and end them after it.

    Args:
        startable: a process or a thread that was not started, or a list of them.
        stop_at_last: end them after training: a process is terminated, a `StoppableThread` is asked to stop, and
            both are waited for, at most 5 seconds each. Other threads are left alone.

    Raises:
        TypeError: one of them is neither.

    Runs at: before_train, after_train. In every process of a distributed training.

    Note: Ctrl-C reaches the main process only, not the processes started here.

    tensorpack: same.
    """

    _chief_only = False

    def __init__(self, startable: Any | Sequence[Any], stop_at_last: bool = True) -> None:
        self._startables: list[Any] = list(startable) if isinstance(startable, (list, tuple)) else [startable]
        for one in self._startables:
            if not isinstance(one, (mp.process.BaseProcess, threading.Thread)):
                raise type_error("StartProcOrThread", "a Process, a Thread, or a list of them", one)
        self._stop_at_last = stop_at_last

    def _before_train(self) -> None:
        logger.info("Starting %s ...", ", ".join(one.name for one in self._startables))
        start_proc_mask_signal(self._startables)

    def _after_train(self) -> None:
        if not self._stop_at_last:
            return
        for one in filter(_is_alive, self._startables):
            if isinstance(one, StoppableThread):
                one.stop()
                logger.info("Stopping %s ...", one.name)
            elif isinstance(one, mp.process.BaseProcess):
                one.terminate()
            else:
                continue
            one.join(_JOIN_SECS)
            if _is_alive(one):
                logger.error("%s did not end within %d seconds.", one.name, _JOIN_SECS)


def _is_alive(one: Any) -> bool:
    return one.is_alive()

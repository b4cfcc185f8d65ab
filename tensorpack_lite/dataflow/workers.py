"""
Base class for DataFlows whose datapoints come from worker processes.

In:  the tasks of the workers, from a subclass.
Out: the datapoints of all workers, in the order in which they arrive.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from typing import Any, Iterator

from ..utils.checks import check_at_least
from .base import DataFlow, Datapoint, ProxyDataFlow, reset_twice_error
from .observing import separate_pipelines
from .process.group import WorkerGroup
from .process.worker import Task


class DataFromWorkers(ProxyDataFlow):
    """
    Base class for DataFlows whose datapoints come from worker processes. A subclass defines `_tasks`.

    Args:
        ds: the DataFlow that the workers run.
        num_proc: number of processes, an attribute.
    """

    def __init__(self, ds: DataFlow, num_proc: int) -> None:
        super().__init__(ds)
        self.num_proc = check_at_least(f"{type(self).__name__}: num_proc", num_proc, 1)
        self._group: Any = None  # a WorkerGroup, after reset_state
        self._owner: int | None = None  # pid of the process that started the group
        self._received: deque[Datapoint] = deque()

    @abstractmethod
    def _tasks(self) -> list[Task]:
        """Return the work of each process."""

    def reset_state(self) -> None:
        """
        Start the worker processes, which reset their copies of `ds`.

        Raises:
            RuntimeError: `reset_state` was already called.
            pickle.PicklingError: the start method is not fork, and the task of a worker cannot be pickled.
        """
        if self._group is not None:
            raise reset_twice_error(type(self).__name__)
        with separate_pipelines():  # workers may be forks of this process
            self._group = WorkerGroup(type(self).__name__, self._tasks())
        self._owner = os.getpid()

    def _stop_workers(self) -> None:
        if self._group is not None:
            self._group.stop()
        self._group, self._owner = None, self._owner and 0  # see require_workers
        self._received.clear()

    def _stages_read(self) -> list[object]:
        return []  # they are in the workers

    def _stream(self) -> Iterator[Datapoint]:
        """Yield the datapoints that the workers send, without end. Several iterators share one stream."""
        received, popleft = self._received, self._received.popleft
        while True:
            while received:
                yield popleft()
            for _, datapoints in self._group.receive():
                received.extend(datapoints)

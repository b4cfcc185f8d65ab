"""Reordering of results from several producers, and the marker for the end of a producer."""

from __future__ import annotations

import multiprocessing
from typing import Any

from . import logger


class DIE:
    """Marker for the end of a queue. The class itself is sent, not an instance."""


class OrderedContainer:
    """
    Container that accepts (rank, value) in any order and returns them by rank: `start`, `start + 1`, ...

    Args:
        start: the first rank.
    """

    def __init__(self, start: int = 0) -> None:
        self._next_rank = start
        self._values: dict[int, Any] = {}

    def __len__(self) -> int:
        """Return the number of waiting values."""
        return len(self._values)

    def put(self, rank: int, val: object) -> None:
        """Add a value."""
        self._values[rank] = val

    def has_next(self) -> bool:
        """Return whether the value of the next rank was put."""
        return self._next_rank in self._values

    def get(self) -> tuple[int, Any]:
        """
        Return the next rank and its value.

        Raises:
            RuntimeError: the value of the next rank was not put yet.
        """
        if not self.has_next():
            raise RuntimeError(f"OrderedContainer.get: rank {self._next_rank} was not put yet. Call has_next() first.")
        rank = self._next_rank
        self._next_rank += 1
        return rank, self._values.pop(rank)


class OrderedResultGatherProc(multiprocessing.Process):
    """
    A process that orders the results of several producers.

    Args:
        data_queue: a multiprocessing queue of (rank, result). Each producer ends with (DIE, anything).
        nr_producer: the number of producers.
        start: the first rank.
    """

    def __init__(self, data_queue: multiprocessing.queues.Queue, nr_producer: int, start: int = 0) -> None:
        super().__init__()
        self._data_queue = data_queue
        self._num_producers = nr_producer
        self._container = OrderedContainer(start)
        self._result_queue: Any = multiprocessing.Queue()

    def run(self) -> None:
        """Order results until all producers have ended."""
        try:
            num_running = self._num_producers
            while num_running > 0:
                rank, result = self._data_queue.get()
                if rank == DIE:
                    num_running -= 1
                    continue
                self._container.put(rank, result)
                while self._container.has_next():
                    self._result_queue.put(self._container.get())
            if len(self._container):
                logger.error(
                    f"OrderedResultGatherProc: {len(self._container)} results are lost, because an earlier rank is missing. "
                    "Each producer must put one result for every rank that it takes."
                )
        finally:
            self._result_queue.put((DIE, None))

    def get(self) -> tuple[Any, Any]:
        """Return the next (rank, result), and (DIE, None) after the last one."""
        return self._result_queue.get()

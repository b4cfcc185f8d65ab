"""Results of several producers, put back in order; and the sign that a producer has ended."""

from __future__ import annotations

import bisect
import multiprocessing
from typing import Any, Iterator

from . import logger

__all__ = ["DIE", "OrderedContainer", "OrderedResultGatherProc"]


class DIE:
    """The last item of a queue, by convention: no more will come. The class itself is sent, not an instance."""


class OrderedContainer:
    """
    Takes (rank, value) in any order, and gives them back by rank: `start`, `start + 1`, ...

    Args:
        start: the first rank.

    tensorpack: same.
    """

    def __init__(self, start: int = 0) -> None:
        self._next_rank = start
        self._ranks: list[int] = []
        self._values: list[Any] = []

    def __len__(self) -> int:
        """Number of values that wait."""
        return len(self._ranks)

    def put(self, rank: int, val: Any) -> None:
        """Take one value."""
        position = bisect.bisect(self._ranks, rank)
        self._ranks.insert(position, rank)
        self._values.insert(position, val)

    def has_next(self) -> bool:
        """Tell whether the value of the next rank is here."""
        return bool(self._ranks) and self._ranks[0] == self._next_rank

    def get(self) -> tuple[int, Any]:
        """
        Give the next rank and its value.

        Raises:
            RuntimeError: it is not here yet.
        """
        if not self.has_next():
            raise RuntimeError(
                f"OrderedContainer: rank {self._next_rank} was not put yet. Ask has_next() first."
            )
        self._next_rank += 1
        return self._ranks.pop(0), self._values.pop(0)


class OrderedResultGatherProc(multiprocessing.Process):
    """
    A process that puts the results of several producers in order.

    Args:
        data_queue: a multiprocessing queue of (rank, result). Each producer ends with (DIE, anything).
        nr_producer: the number of producers.
        start: the first rank.

    tensorpack: same.
    """

    def __init__(self, data_queue: Any, nr_producer: int, start: int = 0) -> None:
        super().__init__()
        self._data_queue = data_queue
        self._num_producers = nr_producer
        self._container = OrderedContainer(start)
        self._result_queue: Any = multiprocessing.Queue()

    def run(self) -> None:
        """Order what comes, until all producers have ended."""
        try:
            for rank, result in self._incoming():
                self._container.put(rank, result)
                while self._container.has_next():
                    self._result_queue.put(self._container.get())
            if len(self._container):
                logger.error(
                    f"OrderedResultGatherProc: {len(self._container)} results are lost, because a rank before them "
                    "never came. Each producer must put every rank it has taken."
                )
        finally:
            self._result_queue.put((DIE, None))

    def get(self) -> tuple[Any, Any]:
        """Give the next (rank, result); (DIE, None) after the last."""
        return self._result_queue.get()  # type: ignore[no-any-return]

    def _incoming(self) -> Iterator[tuple[int, Any]]:
        running = self._num_producers
        while running > 0:
            rank, result = self._data_queue.get()
            if rank == DIE:
                running -= 1
            else:
                yield rank, result

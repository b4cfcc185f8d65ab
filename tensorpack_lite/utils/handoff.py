"""
A bounded queue that hands items from one set of threads to another.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import Callable, Deque, Generic, Sequence, TypeVar

__all__ = ["HandoffQueue"]

T = TypeVar("T")


class HandoffQueue(Generic[T]):
    """
    Bounded queue between producer threads and consumer threads.

    Producers wait while the queue is full, consumers while it is empty; neither polls. `end` and `stop` wake both.
    The garbage collector may run a finalizer that stops the queue while the same thread is inside one of its methods.

    Args:
        capacity: `put` waits while the waiting items have this total size or more, so one item always fits. 0: no limit.
        size_of: returns the size of an item. Default: 1.
        remove: removes at least one item from the left of a deque that is not empty, and returns a list of what it
            removed; `take` returns that list. It is called with the lock held. Default: one item.

    Attributes:
        error: the first error passed to `end` or `stop`, or None.
    """

    def __init__(
        self,
        capacity: int,
        size_of: Callable[[T], int] | None = None,
        remove: Callable[[Deque[T]], list[T]] | None = None,
    ) -> None:
        self._capacity = capacity or math.inf
        self._size_of = size_of
        self._remove = remove or _remove_one
        self._items: deque[T] = deque()
        self._size = 0
        self._is_ended = False
        self._lock = threading.RLock()  # reentrant for finalizers
        self._not_full = _Waiters(self._lock)
        self._not_empty = _Waiters(self._lock)
        self.error: BaseException | None = None

    def put(self, items: Sequence[T], patience: float | None = None) -> bool:
        """
        Wait while the queue is full, then append all items.

        Args:
            items: one or more; they are appended together.
            patience: how many seconds to wait in total before the items are appended to a full queue. None: no limit.

        Returns:
            False if the queue has ended, in which case the items are dropped.
        """
        size = len(items) if self._size_of is None else sum(map(self._size_of, items))
        with self._lock:
            if self._is_ended or self._size >= self._capacity:
                self._not_full.wait_until(self._may_put, patience)
                if self._is_ended:
                    return False
            self._items.extend(items)
            self._size += size
            if self._not_empty.num_waiting:
                self._not_empty.notify()
            if self._not_full.num_waiting and self._may_put():
                self._not_full.notify()
            return True

    def take(self) -> list[T]:
        """Wait for an item, then return what `remove` takes; an empty list once the queue has ended and is empty."""
        with self._lock:
            if not self._items:
                self._not_empty.wait_until(self._may_take)
                if not self._items:
                    return []
            taken = self._remove(self._items)
            self._size -= len(taken) if self._size_of is None else sum(map(self._size_of, taken))
            if self._not_empty.num_waiting and self._items:
                self._not_empty.notify()
            if self._not_full.num_waiting and self._may_put():
                self._not_full.notify(len(taken))
            return taken

    def end(self, error: BaseException | None = None) -> None:
        """Accept no further item. Waiting items can still be taken."""
        with self._lock:
            self._is_ended = True
            if self.error is None:
                self.error = error
            self._not_full.notify_all()
            self._not_empty.notify_all()

    def stop(self, error: BaseException | None = None) -> list[T]:
        """
        End, and drop the waiting items.

        Returns:
            The dropped items.
        """
        with self._lock:
            dropped, self._items, self._size = self._items, deque(), 0
            self.end(error)
        return list(dropped)

    def _may_put(self) -> bool:
        return self._is_ended or self._size < self._capacity

    def _may_take(self) -> bool:
        return self._is_ended or bool(self._items)


class _Waiters(threading.Condition):
    """A condition that counts the threads that wait for it: reading the count is cheaper than notifying nobody."""

    num_waiting = 0

    def wait_until(self, predicate: Callable[[], bool], timeout: float | None = None) -> None:
        self.num_waiting += 1
        try:
            self.wait_for(predicate, timeout)
        except BaseException:  # such as Ctrl-C: this thread may have used up the notification for another one
            self.notify()
            raise
        finally:
            self.num_waiting -= 1


def _remove_one(items: Deque[T]) -> list[T]:
    return [items.popleft()]

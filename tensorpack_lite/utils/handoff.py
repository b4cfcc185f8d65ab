"""Bounded queue between producer threads and consumer threads."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Generic, Sequence, TypeVar

T = TypeVar("T")


class HandoffQueue(Generic[T]):
    """
    Bounded queue between producer threads and consumer threads.

    Producers wait while the queue is full, consumers while it is empty; neither polls. `end` and `stop` wake both.
    The garbage collector may run a finalizer that stops the queue while the same thread is inside one of its methods.

    Taking a lock can cost more than everything else in `put`. So items without sizes are appended to the deque without the
    lock while there is room; several producers that do so at once may exceed the capacity by one `put` each.

    Args:
        capacity: `put` waits while the waiting items have this total size or more, so one item always fits.
            0: no limit.
        size_of: returns the size of an item. Default: 1.
        remove: removes one or more items from the left of a deque that is not empty and returns them as a list, which
            `take` returns. It is called with the lock held. Without `size_of`, items may be appended in the meantime, so it
            must not iterate over the deque. Default: one item.
        refill_at: a producer that waits is woken when the waiting items have at most this total size. Default: when there
            is room. A lower number wakes it less often, which is cheaper if it then appends many items.

    Attributes:
        error: the first error passed to `end` or `stop`, or None.
    """

    def __init__(
        self,
        capacity: int,
        size_of: Callable[[T], int] | None = None,
        remove: Callable[[Deque[T]], list[T]] | None = None,
        refill_at: int | None = None,
    ) -> None:
        self._capacity = capacity or math.inf
        self._refill_at = self._capacity if refill_at is None else refill_at
        self._size_of = size_of
        self._remove = remove or (lambda items: [items.popleft()])
        self._items: deque[T] = deque()
        self._size = 0  # total size of the items, if there is `size_of`
        self._is_ended = False
        self._is_over = False  # ended, and nothing can be taken any more
        self._lock = threading.RLock()  # reentrant for finalizers
        self._producers: deque[threading.Lock] = deque()  # one lock for each waiting thread
        self._consumers: deque[threading.Lock] = deque()
        self.error: BaseException | None = None

    def put(
        self, items: Sequence[T], patience: float | None = None, meter: Any = None, size: int | None = None
    ) -> bool:
        """
        Wait while the queue is full, then append all items.

        Args:
            items: list or tuple of one or more items; they are appended together.
            patience: how many seconds to wait in total before the items are appended to a full queue. None: no limit.
            meter: a `dataflow.meter.Meter` that is told while this thread waits.
            size: total size of the items, if the caller knows it.

        Returns:
            False if the queue has ended. Then the items are dropped, unless they were taken just before it ended.
        """
        if self._size_of is None:
            if len(self._items) < self._capacity and not self._producers and not self._is_ended:
                self._items.extend(items)
                # asked after the items were appended: a consumer or `end` that came in between has not seen them
                return self._announce() if self._consumers or self._is_ended else True
            size = 0
        elif size is None:
            size = sum(map(self._size_of, items))
        deadline = math.inf if patience is None else time.monotonic() + patience
        while True:
            with self._lock:
                if self._is_ended:
                    return False
                if not self._is_full() or time.monotonic() >= deadline:
                    self._items.extend(items)
                    self._size += size
                    if self._consumers:  # asked here, because consumers seldom wait
                        _wake_one(self._consumers)
                    if self._producers:
                        self._wake_producer_if_room()
                    return True
                _wake_one(self._consumers)  # in case an interrupt has left one asleep beside a full queue
            self._wait(self._producers, deadline, meter)

    def take(self, meter: Any = None) -> list[T]:
        """
        Wait for an item and return the list of `remove`, or an empty list once the queue has ended and is empty.

        Args:
            meter: as for `put`.
        """
        while True:
            with self._lock:
                items = self._items  # read once, because a signal handler or a finalizer may stop the queue
                if items and not self._is_over:
                    taken = self._remove(items)
                    if self._size_of is not None:
                        self._size -= sum(map(self._size_of, taken))
                    if self._items:
                        _wake_one(self._consumers)
                    if self._waiting_size() <= self._refill_at:
                        self._wake_producer_if_room()
                    return taken
                if self._is_ended:
                    self._is_over = True
                    return []
                # repair what an interrupt in the middle of an earlier call may have left
                self._size = 0
                self._wake_producer_if_room()
            self._wait(self._consumers, meter=meter)

    def end(self, error: BaseException | None = None) -> None:
        """Accept no more items. Waiting items can still be taken."""
        with self._lock:
            self._is_ended = True
            if self.error is None:
                self.error = error
            for waiters in (self._producers, self._consumers):
                while waiters:
                    _wake_one(waiters)

    def stop(self, error: BaseException | None = None) -> list[T]:
        """
        End the queue and drop the waiting items.

        Returns:
            The dropped items.
        """
        with self._lock:
            self.end(error)  # first, so that a `put` that still appends to the old deque sees the end
            self._is_over = True
            dropped, self._items, self._size = self._items, deque(), 0
        return list(dropped)

    def _announce(self) -> bool:
        """Wake a consumer for items that were appended without the lock. Return False if they came after the end."""
        with self._lock:
            if self._is_over:
                self._items.clear()
                return False
            _wake_one(self._consumers)
            return True

    def _waiting_size(self) -> int:
        return len(self._items) if self._size_of is None else self._size

    def _is_full(self) -> bool:
        return self._waiting_size() >= self._capacity

    def _may_go_on(self, waiters: Deque[threading.Lock]) -> bool:
        """Return whether the threads in `waiters` have nothing to wait for."""
        is_ready = bool(self._items) if waiters is self._consumers else not self._is_full()
        return self._is_ended or is_ready

    def _wake_producer_if_room(self) -> None:
        """Wake one producer; if there is more room, that one wakes the next."""
        if self._producers and not self._is_full():
            _wake_one(self._producers)

    def _wait(self, waiters: Deque[threading.Lock], deadline: float = math.inf, meter: Any = None) -> None:
        """Wait until woken or until the deadline, unless `_may_go_on`. The lock is not held while waiting."""
        waiter = threading.Lock()
        waiter.acquire()
        if meter is not None:
            meter.begin_wait(is_for_room=waiters is self._producers)
        try:
            with self._lock:
                waiters.append(waiter)
                # asked afterwards, because `put` may append items without the lock
                if self._may_go_on(waiters):
                    self._leave(waiters, waiter)  # here, too, because an interrupt may prevent it below
                    return
            waiter.acquire(timeout=-1 if deadline == math.inf else max(0.0, deadline - time.monotonic()))
        finally:
            self._leave(waiters, waiter)
            if meter is not None:
                meter.end_wait()

    def _leave(self, waiters: Deque[threading.Lock], waiter: threading.Lock) -> None:
        """Stop waiting. A thread that was woken and then interrupted wakes another one."""
        with self._lock:
            if waiter in waiters:
                waiters.remove(waiter)
            elif self._may_go_on(waiters):
                _wake_one(waiters)


def _wake_one(waiters: Deque[threading.Lock]) -> None:
    if waiters:
        if waiters[0].locked():
            # before it is removed, so that an interrupt in between cannot leave the thread asleep
            waiters[0].release()
        waiters.popleft()

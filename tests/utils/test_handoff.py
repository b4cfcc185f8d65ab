"""The bounded queue between producer threads and consumer threads."""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
import signal
import sys
import threading
import time
from collections import deque

import pytest
from fakes.waiting import wait_until

from tensorpack_lite.utils.handoff import HandoffQueue

SECONDS = 60  # a thread that takes longer than this to end is deadlocked


@pytest.fixture
def frequent_switches():
    """Let threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def start(function, *args):
    """Run a function in a daemon thread."""
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def join(threads):
    """Wait for threads. A deadlock fails the test instead of hanging it."""
    deadline = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "deadlock"


def raise_interrupt(*_):
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def some(items):
    """Remove up to three items."""
    return [items.popleft() for _ in range(min(3, len(items)))]


def hand_over(queue, num_producers, num_consumers, num_items, patience=None):
    """Send numbers through a queue and return the numbers that each consumer took."""
    taken = [[] for _ in range(num_consumers)]

    def produce(index):
        for k in range(num_items):
            assert queue.put([(index, k)], patience)

    def consume(mine):
        for items in iter(queue.take, []):
            mine.extend(items)

    producers = [start(produce, index) for index in range(num_producers)]
    consumers = [start(consume, mine) for mine in taken]
    join(producers)
    queue.end()
    join(consumers)
    return taken


def shake(seed, max_items):
    """Send items with random settings. Each arrives once, and in order if there is one consumer."""
    draw = random.Random(seed)
    capacity, producers, consumers = (
        draw.choice([1, 1, 2, 3, 9]),
        draw.choice([1, 1, 3]),
        draw.choice([1, 1, 3]),
    )
    queue = HandoffQueue(capacity, remove=draw.choice([None, some]), refill_at=draw.choice([None, 0, capacity // 2]))
    num_items = draw.randrange(1, max_items)
    taken = hand_over(queue, producers, consumers, num_items, draw.choice([None, None, 0.0, 1e-5]))
    everything = [item for mine in taken for item in mine]
    assert sorted(everything) == [(p, k) for p in range(producers) for k in range(num_items)]
    if (producers, consumers) == (1, 1):
        assert everything == sorted(everything)


class TestStress:
    def test_one_producer_and_one_consumer(self, frequent_switches):
        """Producer and consumer do not deadlock. (An earlier version did after 1,000 to 100,000 items.)"""
        assert 4000 == len(hand_over(HandoffQueue(2), 1, 1, 4000)[0])

    @pytest.mark.slow
    def test_one_producer_and_one_consumer_for_longer(self, frequent_switches):
        """The same holds for enough items to make a deadlock of the earlier version almost certain."""
        for _ in range(30):
            assert 2000 == len(hand_over(HandoffQueue(2), 1, 1, 2000)[0])

    @pytest.mark.parametrize("seed", range(10))
    def test_random_settings(self, frequent_switches, seed):
        """With random settings, there is no deadlock and each item arrives exactly once."""
        shake(seed, 300)

    @pytest.mark.proof
    def test_random_settings_for_two_minutes(self, frequent_switches):
        """The same holds for two minutes of new random settings."""
        deadline, seed = time.monotonic() + 120, 1000
        while time.monotonic() < deadline:
            shake(seed, 3000)
            seed += 1

    @pytest.mark.parametrize("num_threads", [1, 3])
    def test_stopping_at_any_moment(self, frequent_switches, num_threads):
        """All threads return when the queue is stopped at any moment."""
        for k in range(60):
            queue = HandoffQueue(1 + k % 3)
            threads = [start(lambda q: all(q.put([0]) for _ in iter(int, 1)), queue) for _ in range(num_threads)]
            threads += [start(lambda q: all(iter(q.take, [])), queue) for _ in range(num_threads)]
            time.sleep(k * 1e-5)
            queue.stop()
            join(threads)


class TestPut:
    def test_it_waits_while_the_queue_is_full(self):
        """Taking an item makes room for the next one."""
        queue = HandoffQueue(2)
        queue.put([1])
        queue.put([2])
        thread = start(queue.put, [3])
        wait_until(lambda: len(queue._producers) == 1)
        assert [1] == queue.take()
        join([thread])
        assert [[2], [3]] == [queue.take(), queue.take()]

    def test_it_waits_until_few_items_are_left(self):
        """With `refill_at`, a producer that waits is woken when so many items are left."""
        queue = HandoffQueue(4, refill_at=1)
        queue.put([1, 2, 3, 4])
        thread = start(queue.put, [5])
        wait_until(lambda: len(queue._producers) == 1)
        assert [[1], [2]] == [queue.take(), queue.take()]
        assert 1 == len(queue._producers)
        assert [3] == queue.take()
        join([thread])
        assert [[4], [5]] == [queue.take(), queue.take()]

    def test_several_items_stay_together(self):
        """Items that are put together are appended together, even if they exceed the capacity."""
        queue = HandoffQueue(2, remove=some)
        assert queue.put([1, 2, 3, 4])
        assert [[1, 2, 3], [4]] == [queue.take(), queue.take()]

    def test_a_known_size(self):
        """The size that `put` gets counts until `take` subtracts that of the items."""
        queue = HandoffQueue(10, size_of=len)
        queue.put(["x" * 4, "x" * 6], size=10)
        thread = start(queue.put, ["y"])
        wait_until(lambda: len(queue._producers) == 1)
        assert ["x" * 4] == queue.take()
        join([thread])
        assert [["x" * 6], ["y"]] == [queue.take(), queue.take()]

    def test_sizes(self):
        """The capacity limits the total size. An item larger than the capacity fits into an empty queue."""
        queue = HandoffQueue(10, size_of=len)
        assert all(queue.put([item], patience=None) for item in ["x" * 50])
        assert ["x" * 50] == queue.take()
        queue.put(["x" * 5])
        queue.put(["x" * 5])
        thread = start(queue.put, ["y"])
        wait_until(lambda: len(queue._producers) == 1)
        queue.take()
        join([thread])

    def test_without_a_capacity_it_never_waits(self):
        """A capacity of 0 means no limit."""
        queue = HandoffQueue(0)
        assert all(queue.put([k]) for k in range(1000))

    def test_patience(self):
        """When the patience is over, the items are appended to a full queue."""
        queue = HandoffQueue(1)
        assert [True, True] == [queue.put([k], patience=0.001) for k in range(2)]
        assert [[0], [1]] == [queue.take(), queue.take()]

    def test_patience_is_one_deadline(self):
        """The patience limits the total time, however often the producer is woken."""
        queue = HandoffQueue(1)
        queue.put([0])
        thread = start(queue.put, [1], 0.2)
        began = time.monotonic()
        while thread.is_alive() and time.monotonic() - began < SECONDS:
            with queue._lock:
                while queue._producers:
                    queue._producers.popleft().release()
            thread.join(0.01)
        assert not thread.is_alive()


class TestPutWithoutTheLock:
    """`put` appends items without the lock, so anything may happen just before they are there."""

    @staticmethod
    def put_after(queue, event):
        """Put an item. After `put` has decided to append it, but before it does, something else happens."""

        class Late(deque):
            def extend(self, items):
                queue._items = deque()  # where it is appended if `event` does not replace it
                event()
                queue._items.extend(items)

        queue._items = Late()
        return queue.put(["late"])

    def test_a_consumer_that_begins_to_wait_is_woken(self):
        """A consumer that has seen no item and waits gets it."""
        queue, taken = HandoffQueue(2), []

        def wait_for_it():
            thread = start(lambda: taken.append(queue.take()))
            wait_until(lambda: len(queue._consumers) == 1)
            threads.append(thread)

        threads = []
        assert self.put_after(queue, wait_for_it)
        join(threads)
        assert [["late"]] == taken

    def test_an_end_that_no_consumer_has_seen(self):
        """If the queue has ended but may still be taken from, the item can be taken."""
        queue = HandoffQueue(2)
        assert self.put_after(queue, queue.end)
        assert [["late"], []] == [queue.take(), queue.take()]

    def test_an_end_that_a_consumer_has_seen(self):
        """After `take` has told a consumer that there are no more items, `put` returns False, and none appears."""
        queue = HandoffQueue(2)
        assert not self.put_after(queue, lambda: [queue.end(), queue.take()])
        assert [] == queue.take()

    def test_a_stop(self):
        """After `stop`, `put` returns False, and the item cannot be taken."""
        queue = HandoffQueue(2)
        assert not self.put_after(queue, queue.stop)
        assert [] == queue.take()

    def test_in_the_middle_of_a_stop(self):
        """If `put` returns True while another thread stops the queue, `stop` returns the item."""
        answers = []

        class Queue(HandoffQueue):
            def end(self, error=None):
                join([start(lambda: answers.append(self.put(["late"])))])
                super().end(error)

        queue = Queue(2)
        assert ["late"] == queue.stop()
        assert [True] == answers

    def test_an_interrupt_before_the_consumer_is_woken(self):
        """If Ctrl-C interrupts `put` after it has appended an item, a later `put` to the full queue wakes the consumer."""
        queue, taken = HandoffQueue(1), []
        consumer = start(lambda: taken.extend(itertools.chain.from_iterable(iter(queue.take, []))))
        wait_until(lambda: len(queue._consumers) == 1)
        announce, queue._announce = queue._announce, raise_interrupt
        with pytest.raises(KeyboardInterrupt):
            queue.put([1])
        queue._announce = announce
        join([start(queue.put, [2])])
        queue.end()
        join([consumer])
        assert [1, 2] == taken


class TestEnd:
    def test_waiting_items_can_still_be_taken(self):
        """After the end, waiting items can be taken, and then `take` returns an empty list."""
        queue = HandoffQueue(0)
        queue.put([1])
        error = ValueError("bad")
        queue.end(error)
        assert not queue.put([2])
        assert [[1], [], []] == [queue.take() for _ in range(3)]
        assert error is queue.error

    def test_stop_drops_the_waiting_items(self):
        """`stop` returns the waiting items, and nothing can be put or taken afterwards."""
        queue = HandoffQueue(5)
        queue.put([1, 2])
        assert [1, 2] == queue.stop()
        assert [] == queue.take()
        assert not queue.put([3])
        assert [] == queue.stop()

    def test_the_first_error_stays(self):
        """The first error is kept, since later ones are usually consequences of it."""
        queue = HandoffQueue(1)
        queue.end()
        errors = [ValueError("first"), ValueError("second")]
        for error in errors:
            queue.stop(error)
        assert errors[0] is queue.error

    @pytest.mark.parametrize("end", [HandoffQueue.end, HandoffQueue.stop])
    def test_a_waiting_producer_returns(self, end):
        """A waiting `put` returns False when the queue ends."""
        queue, answers = HandoffQueue(1), []
        queue.put([0])
        thread = start(lambda: answers.append(queue.put([1])))
        wait_until(lambda: len(queue._producers) == 1)
        end(queue)
        join([thread])
        assert [False] == answers

    @pytest.mark.parametrize("end", [HandoffQueue.end, HandoffQueue.stop])
    def test_waiting_consumers_return(self, end):
        """All waiting consumers return an empty list when the queue ends."""
        queue, answers = HandoffQueue(1), []
        threads = [start(lambda: answers.append(queue.take())) for _ in range(3)]
        wait_until(lambda: len(queue._consumers) == 3)
        end(queue)
        join(threads)
        assert [[], [], []] == answers


class TestReentrance:
    @pytest.fixture
    def only_explicit_collections(self):
        """Let the garbage collector run only when a test calls it."""
        gc.disable()
        yield
        gc.enable()

    @pytest.mark.slow
    def test_a_finalizer_stops_the_queue_in_the_middle_of_a_call(self, only_explicit_collections):
        """A finalizer may stop the queue inside a method of the same thread, without a deadlock."""

        class StopsTheQueue:
            def __init__(self, queue):
                self.queue, self.me = queue, self

            def __del__(self):
                self.queue.stop()

        def collect(items):
            gc.collect()
            return [items.popleft()]

        queue = HandoffQueue(0, remove=collect)
        queue.put([1, 2])
        StopsTheQueue(queue)
        taken = []
        join([start(lambda: taken.extend(iter(queue.take, [])))])
        assert [[1]] == taken

    def test_a_stop_in_the_middle_of_take(self):
        """A signal handler may stop the queue after `take` has seen an item and before it removes it."""

        class Queue(HandoffQueue):
            @property
            def _is_over(self):
                was_over = self.was_over
                if not was_over:
                    self.stop()
                return was_over

            @_is_over.setter
            def _is_over(self, value):
                self.was_over = value

        queue = Queue(2)
        queue.put([1])
        assert [1] == queue.take()
        assert [] == queue.take()

    def test_an_interrupted_stop(self):
        """If Ctrl-C interrupts `stop`, the queue is as before or has ended: no consumer looks for items forever."""
        queue, taken = HandoffQueue(2), []
        end, queue.end = queue.end, raise_interrupt
        with pytest.raises(KeyboardInterrupt):
            queue.stop()
        queue.end = end
        assert queue.put([1])
        consumer = start(lambda: taken.extend(itertools.chain.from_iterable(iter(queue.take, []))))
        wait_until(lambda: taken or not consumer.is_alive())
        queue.end()
        join([consumer])
        assert [1] == taken

    @pytest.mark.parametrize("k", range(4))
    def test_an_interrupted_wait(self, k):
        """If Ctrl-C interrupts a wait that has just found an item, no thread is registered as waiting."""

        class InterruptedLock:
            """Lock that is interrupted when it is acquired for the k-th time."""

            def __init__(self, lock):
                self.lock, self.left = lock, k

            def __enter__(self):
                self.left -= 1
                if self.left == -1:
                    raise KeyboardInterrupt
                return self.lock.__enter__()

            def __exit__(self, *args):
                return self.lock.__exit__(*args)

        queue = HandoffQueue(2)
        queue.put([1])
        queue._lock = InterruptedLock(queue._lock)
        with contextlib.suppress(KeyboardInterrupt):
            queue._wait(queue._consumers)
        assert not queue._consumers

    @pytest.mark.parametrize("was_woken", [False, True])
    def test_an_interrupted_consumer_leaves_its_item_to_another(self, was_woken):
        """If Ctrl-C interrupts a waiting consumer, its item goes to another waiting consumer."""
        queue, answers = HandoffQueue(1), []

        interrupted = threading.Lock()
        interrupted.acquire()
        queue._consumers.append(interrupted)
        second = start(lambda: answers.append(queue.take()))
        wait_until(lambda: len(queue._consumers) == 2)
        if was_woken:
            queue.put([1])
            queue._leave(queue._consumers, interrupted)
        else:
            queue._leave(queue._consumers, interrupted)
            queue.put([1])
        join([second])
        assert [[1]] == answers

    @pytest.mark.skipif(
        sys.version_info < (3, 8),
        reason="in Python 3.7 an interrupt can leave a `with lock:` without its release",
    )
    def test_interrupts_at_any_moment(self):
        """An exception of a signal handler is raised unchanged and leaves the queue usable."""

        class Interrupt(Exception):
            pass

        def interrupt(*_):
            raise Interrupt

        queue, taken, num_interrupts = HandoffQueue(3), [], 0
        producer = start(lambda: all(queue.put([k]) for k in itertools.count()))
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for k in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0003 + k % 7 * 0.0002)
                    while True:
                        queue.take()
                except Interrupt:
                    num_interrupts += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        for _ in range(100):
            taken += queue.take()
        queue.stop()
        join([producer])
        assert 300 == num_interrupts
        assert taken == sorted(taken)

"""Random streams differ between objects and processes, and repeat with a fixed seed."""

from __future__ import annotations

import multiprocessing
import pickle
import threading

import numpy as np
import pytest

from tensorpack_lite.utils.random_streams import (
    enter_worker_stream,
    fix_rng_seed,
    get_rng,
    make_worker_streams,
    reset_rng_seed,
)


def draw(rng) -> tuple:
    """Return some numbers of a stream. Equal streams return equal numbers."""
    return tuple(rng.randint(0, 2**31 - 1, size=4))


def in_fork(function):
    """Return the result of a function in a forked process."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(function()))
    process.start()
    result = queue.get()
    process.join()
    return result


class TestGetRng:
    @pytest.mark.parametrize("seed", [None, 3])
    def test_streams_differ_from_each_other(self, seed):
        """Two objects never share a stream, with and without a fixed seed."""
        if seed is not None:
            fix_rng_seed(seed)
        assert 20 == len({draw(get_rng(self)) for _ in range(20)})

    def test_with_a_seed_the_sequence_repeats(self):
        """The n-th stream after `fix_rng_seed` is the same every time."""
        fix_rng_seed(3)
        first = [draw(get_rng(self)) for _ in range(5)]
        fix_rng_seed(3)

        assert first == [draw(get_rng(object())) for _ in range(5)]

    def test_seeds_differ(self):
        """Another seed gives other streams."""
        found = set()
        for seed in (0, 1, -1, 2**40):
            fix_rng_seed(seed)
            found.add(draw(get_rng()))

        assert 4 == len(found)

    def test_numbers_do_not_depend_on_numpy(self):
        """A seed gives the same numbers with every version of NumPy."""
        fix_rng_seed(1)

        assert [479, 137] == [get_rng().randint(1000), get_rng().randint(1000)]

    def test_reset_forgets_the_seed(self):
        """After `reset_rng_seed`, streams start from fresh entropy."""
        fix_rng_seed(3)
        first = draw(get_rng())
        fix_rng_seed(3)
        reset_rng_seed()

        assert first != draw(get_rng())

    def test_threads_never_share_a_stream(self):
        """Eight threads that call `get_rng` at once get different streams."""
        fix_rng_seed(3)
        found = []
        threads = [threading.Thread(target=lambda: found.extend(draw(get_rng()) for _ in range(50))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert 400 == len(set(found))

    def test_numpy_integers_are_seeds(self):
        """A NumPy integer and the equal Python integer are the same seed."""
        fix_rng_seed(np.int64(3))
        first = draw(get_rng())
        fix_rng_seed(3)

        assert first == draw(get_rng())


class TestWorkerStreams:
    def streams(self, key):
        """Return numbers of the first streams after entering a worker stream."""
        enter_worker_stream(key)
        return [draw(get_rng()) for _ in range(3)]

    def test_workers_differ(self):
        """No two workers of one or of two groups share a stream, nor does the main process."""
        fix_rng_seed(3)
        groups = make_worker_streams(2) + make_worker_streams(2)
        main = [draw(get_rng()) for _ in range(3)]
        found = main + [rng for key in groups for rng in self.streams(key)]

        assert 15 == len(set(found))

    def test_workers_repeat(self):
        """The same seed gives every worker the same streams."""
        runs = []
        for _ in range(2):
            fix_rng_seed(3)
            runs.append([self.streams(key) for key in make_worker_streams(2)])

        assert runs[0] == runs[1]

    def test_workers_of_workers_differ(self):
        """Workers that are started by workers do not share a stream."""
        fix_rng_seed(3)
        outer = make_worker_streams(2)
        found = []
        for stream in outer:
            enter_worker_stream(stream)
            found += [rng for inner in make_worker_streams(2) for rng in self.streams(inner)]

        assert 12 == len(set(found))

    def test_streams_can_be_sent_to_spawned_workers(self):
        """A pickled stream carries the seed to a spawned worker."""
        fix_rng_seed(3)
        (stream,) = make_worker_streams(1)
        expected = self.streams(stream)
        sent = pickle.dumps(stream)
        reset_rng_seed()  # as in a spawned process

        assert expected == self.streams(pickle.loads(sent))

    def test_without_a_seed_workers_are_random(self):
        """Without a fixed seed, worker streams start from fresh entropy."""
        reset_rng_seed()
        first, second = make_worker_streams(2)

        assert self.streams(first) != self.streams(first)
        assert self.streams(first) != self.streams(second)

    @pytest.mark.slow
    def test_forks_differ(self):
        """Forked processes that enter no worker stream differ from the parent and from each other."""
        fix_rng_seed(3)
        children = [in_fork(lambda: draw(get_rng())) for _ in range(2)]

        assert 3 == len(set(children + [draw(get_rng())]))

    @pytest.mark.slow
    def test_a_fork_without_a_seed_differs(self):
        """Without a fixed seed, forked processes start from fresh entropy."""
        assert 3 == len({draw(get_rng())} | {in_fork(lambda: draw(get_rng())) for _ in range(2)})

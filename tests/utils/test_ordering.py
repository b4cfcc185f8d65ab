"""Results of several producers in order."""

from __future__ import annotations

import multiprocessing
import pickle
import queue

import pytest

from tensorpack_lite.utils import concurrency
from tensorpack_lite.utils.ordering import DIE, OrderedContainer, OrderedResultGatherProc


class TestDIE:
    def test_survives_pickle(self):
        """A pickled DIE is the same object."""
        assert pickle.loads(pickle.dumps(DIE)) is DIE

    def test_is_importable_from_concurrency(self):
        """DIE can be imported from tensorpack's address."""
        assert concurrency.DIE is DIE


class TestOrderedContainer:
    def test_orders(self):
        """Values, which need no order, are returned by rank."""
        container = OrderedContainer()
        for rank in (2, 0, 1):
            container.put(rank, {"rank": rank})

        assert [(k, {"rank": k}) for k in range(3)] == [container.get() for _ in range(3)]

    def test_waits_for_the_next_rank(self):
        """`has_next` is False until the next rank was put."""
        container = OrderedContainer(start=5)
        before = container.has_next()
        container.put(6, "b")
        with_a_gap = container.has_next()
        container.put(5, "a")

        assert [False, False, True] == [before, with_a_gap, container.has_next()]

    def test_too_early(self):
        """`get` without the next value raises a RuntimeError that names the missing rank."""
        container = OrderedContainer()
        container.put(1, "b")

        with pytest.raises(RuntimeError, match="rank 0 was not put yet. Call has_next"):
            container.get()


class TestOrderedResultGatherProc:
    def gather(self, items, num_producers, start=0):
        """Return the results of the process's `run`, executed here."""
        incoming = queue.Queue()
        for item in items:
            incoming.put(item)
        gatherer = OrderedResultGatherProc(incoming, num_producers, start)
        gatherer._result_queue = queue.Queue()
        gatherer.run()
        results = [gatherer.get()]
        while results[-1][0] is not DIE:
            results.append(gatherer.get())
        assert gatherer._result_queue.empty()
        return results

    def test_orders_and_ends(self):
        """All results are ordered, and one DIE follows after all producers ended."""
        items = [(3, "d"), (DIE, None), (2, "c"), (1, "b"), (DIE, None)]

        assert [(1, "b"), (2, "c"), (3, "d"), (DIE, None)] == self.gather(items, num_producers=2, start=1)

    def test_a_missing_rank_is_logged(self, capsys):
        """If a rank is missing, the later results are lost, an error is logged, and the process ends."""
        assert [(0, "a"), (DIE, None)] == self.gather([(0, "a"), (2, "c"), (DIE, None)], num_producers=1)
        assert "ERR OrderedResultGatherProc: 1 results are lost" in capsys.readouterr().out

    @pytest.mark.slow
    def test_as_a_process(self):
        """The process orders results of other processes."""
        incoming = multiprocessing.Queue()
        gatherer = OrderedResultGatherProc(incoming, nr_producer=1)
        gatherer.start()
        for item in [(1, "b"), (0, "a"), (DIE, None)]:
            incoming.put(item)
        results = [gatherer.get() for _ in range(3)]
        gatherer.join(5)

        assert [(0, "a"), (1, "b"), (DIE, None)] == results
        assert 0 == gatherer.exitcode

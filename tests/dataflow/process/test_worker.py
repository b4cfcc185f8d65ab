"""What runs in a worker: the outbox between its two threads, and the cutting into messages."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import pytest

from tensorpack_lite.dataflow.process.worker import CHUNK_BYTES, Outbox, take_chunk


class TestTakeChunk:
    def test_small_ones_go_together(self):
        """As many as are asked for."""
        items = deque([k] for k in range(5))
        assert [[0], [1], [2]] == take_chunk(items, 3)
        assert [[3], [4]] == take_chunk(items, 3)
        assert [] == take_chunk(items, 3)

    @pytest.mark.parametrize(
        "large",
        [
            [np.zeros(CHUNK_BYTES, np.uint8)],
            {"x": np.zeros(CHUNK_BYTES, np.uint8)},
            (b"x" * CHUNK_BYTES,),
            ["x" * CHUNK_BYTES],
            [[np.zeros(CHUNK_BYTES, np.uint8)]],
            object(),
        ],
        ids=lambda x: type(x).__name__,
    )
    def test_a_large_one_goes_alone(self, large):
        """Also one of which the size is not known."""
        items = deque([[1], large, [2], [3]])
        assert [[[1]], [large], [[2], [3]]] == [take_chunk(items, 9) for _ in range(3)]

    def test_medium_ones_fill_a_message(self):
        """Up to one megabyte."""
        items = deque([np.zeros(400 << 10, np.uint8)] for _ in range(5))
        assert [2, 2, 1] == [len(take_chunk(items, 9)) for _ in range(3)]


class TestOutbox:
    def test_putting_waits_when_it_is_full(self):
        """Until something is taken."""
        outbox = Outbox(max_length=2, chunk_length=9)
        thread = threading.Thread(target=lambda: [outbox.put([k]) for k in range(5)])
        thread.start()
        taken = []
        while len(taken) < 5:
            chunk = outbox.take()
            assert len(chunk) <= 2
            taken += chunk
        thread.join()
        assert list(range(5)) == taken

    def test_what_waits_is_still_taken_after_the_end(self):
        """Then comes the end, and the error with it."""
        outbox = Outbox(0, 9)
        outbox.put([[1]])
        error = ValueError("bad")
        outbox.end(error)
        assert [[1]] == outbox.take()
        assert [] == outbox.take()
        assert error is outbox.error

    def test_patience_ends(self):
        """Who is fed from outside does not wait for ever."""
        outbox = Outbox(1, 9, patience=0.001)
        assert [True, True] == [outbox.put([[k]]) for k in range(2)]
        assert [[0], [1]] == outbox.take()

    def test_nobody_takes_any_more(self):
        """A waiting `put` returns, and says so."""
        outbox = Outbox(1, 9)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(outbox.put([[1]])))
        thread.start()
        outbox.end(None)
        thread.join()
        assert [False] == answers

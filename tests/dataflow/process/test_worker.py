"""The datapoints that a worker sends in one message."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from tensorpack_lite.dataflow.process.worker import CHUNK_BYTES, take_chunk


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

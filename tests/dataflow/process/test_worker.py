"""Tests for which datapoints a worker sends in one message."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from tensorpack_lite.dataflow.process.worker import CHUNK_BYTES, take_chunk


class TestTakeChunk:
    def test_small_datapoints_share_a_message(self):
        """Small datapoints share a message, up to the given number."""
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
    def test_a_large_datapoint_is_sent_alone(self, large):
        """A datapoint that is large, or whose size is unknown, gets a message by itself."""
        items = deque([[1], large, [2], [3]])
        assert [[[1]], [large], [[2], [3]]] == [take_chunk(items, 9) for _ in range(3)]

    def test_a_message_has_a_maximum_size(self):
        """Medium datapoints share a message up to one megabyte, or up to the given size."""
        items = deque([np.zeros(400 << 10, np.uint8)] for _ in range(9))
        assert [2, 2] == [len(take_chunk(items, 9)) for _ in range(2)]
        assert 5 == len(take_chunk(items, 9, 2 * CHUNK_BYTES))

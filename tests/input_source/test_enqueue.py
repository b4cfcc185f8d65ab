"""The two threads of a QueueInput: how far they read ahead, and how many datapoints one call enqueues."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.input_source.enqueue import EnqueueOps, EnqueueThread, take_chunk

SMALL = np.zeros(8, "uint8")
LARGE = np.zeros(1 << 17, "uint8")


def waiting(*arrays):
    """Return datapoints with their sizes, as take_chunk expects them."""
    return deque((array.nbytes, [array]) for array in arrays)


class TestTakeChunk:
    @pytest.mark.parametrize(("num_waiting", "taken"), [(1, 1), (3, 1), (4, 4), (15, 4), (16, 16), (40, 16)])
    def test_length(self, num_waiting, taken):
        """A chunk has 16, 4 or 1 datapoints, and does not wait for more."""
        assert taken == len(take_chunk(waiting(*[SMALL] * num_waiting)))

    def test_large_datapoints(self):
        """A large datapoint is a chunk by itself, and ends the chunk before it."""
        line = waiting(LARGE, SMALL, SMALL, SMALL, SMALL, LARGE, SMALL)
        assert [1, 4, 1, 1] == [len(take_chunk(line)) for _ in range(4)]

    def test_order(self):
        """Datapoints keep their order."""
        line = waiting(*[np.array([n]) for n in range(20)])
        assert list(range(20)) == [dp[0][0] for _ in range(2) for _, dp in take_chunk(line)]

    def test_maximum_length(self):
        """A chunk has at most max_length datapoints."""
        assert 1 == len(take_chunk(waiting(*[SMALL] * 16), max_length=1))


class TestReadingAhead:
    @pytest.mark.parametrize(("array", "room"), [(SMALL, 64), (np.zeros(1 << 20, "uint8"), 4)])
    def test_how_far(self, sess, array, room):
        """64 datapoints or 4 MB wait for the queue, a quarter of that before it is refilled; the reader holds one more."""
        queue = tf.FIFOQueue(1, [tf.uint8])
        spec = TensorSpec(array.shape, tf.uint8, "x")
        pulled = threading.Semaphore(0)

        def endless():
            while True:
                pulled.release()
                yield [array]

        ops = EnqueueOps(queue, [tf.placeholder(spec.dtype, spec.shape, name="x")])
        thread = EnqueueThread("QueueInput", DataFromGenerator(endless), [spec], ops)
        with sess.as_default():
            thread.start()
        for _ in range(1 + 1 + room // 4 + 1):  # in the queue, being enqueued, waiting, held by the reader
            assert pulled.acquire(timeout=60)
        num_more = 0
        while pulled.acquire(timeout=0.1):
            num_more += 1
        assert num_more <= room - room // 4 + ops.max_chunk - 1  # being enqueued: up to a chunk
        thread.stop()
        assert not thread.is_alive()


class TestEnqueueOps:
    def test_order_within_a_call(self, sess):
        """Datapoints of one call enter the queue in order."""
        queue = tf.FIFOQueue(50, [tf.int32])
        ops = EnqueueOps(queue, [tf.placeholder(tf.int32, [], name="x")])
        call = ops.make_call(sess, 16)
        for start in (0, 16, 32):
            call(*[np.array(start + n, "int32") for n in range(16)])
        tensor = queue.dequeue()

        assert list(range(48)) == [sess.run(tensor) for _ in range(48)]

    @pytest.mark.parametrize(("shape", "size"), [([None, 65536], 16), ([None, 65537], 1), (None, 16)])
    def test_size_of_a_call(self, shape, size):
        """Datapoints above 64 KB are enqueued one by one; unknown dimensions may be small."""
        spec = TensorSpec(shape, tf.uint8, "x")
        queue = tf.FIFOQueue(50, [tf.uint8])
        assert size == EnqueueOps(queue, [tf.placeholder(spec.dtype, spec.shape)]).max_chunk

"""The line of datapoints between two threads, and how many of them go with one call."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.enqueue import DatapointBuffer, EnqueueOps

SMALL = np.zeros(8, "uint8")
LARGE = np.zeros(1 << 17, "uint8")


def filled(*arrays):
    buffer = DatapointBuffer()
    for array in arrays:
        assert buffer.put([array])
    return buffer


class TestDatapointBuffer:
    @pytest.mark.parametrize(("waiting", "taken"), [(1, 1), (3, 1), (4, 4), (15, 4), (16, 16), (40, 16)])
    def test_takes_what_waits_in_chunks(self, waiting, taken):
        """16, 4 or 1: the largest that does not wait for more."""
        assert taken == len(filled(*[SMALL] * waiting).take())

    def test_large_ones_go_alone(self):
        """And small ones only up to the next large one."""
        buffer = filled(LARGE, SMALL, SMALL, SMALL, SMALL, LARGE, SMALL)
        assert [1, 4, 1, 1] == [len(buffer.take()) for _ in range(4)]

    def test_order(self):
        """First in, first out."""
        buffer = filled(*[np.array([n]) for n in range(20)])
        assert list(range(20)) == [dp[0][0] for _ in range(2) for dp in buffer.take()]

    def test_the_end_comes_after_the_last(self):
        """Then there is nothing, as often as one asks."""
        buffer = filled(SMALL)
        buffer.end()
        assert [1, 0, 0] == [len(buffer.take()) for _ in range(3)]

    def test_stop_drops_everything(self):
        """Nothing can be taken, and the reader is told to give up."""
        buffer = filled(SMALL)
        buffer.stop()
        assert [] == buffer.take()
        assert not buffer.put([SMALL])

    @pytest.mark.parametrize(("array", "room"), [(SMALL, 64), (np.zeros(1 << 20, "uint8"), 4)])
    def test_a_full_line_waits(self, array, room):
        """For at most 64 datapoints or 4 MB; taking wakes the one who waits, stopping as well."""
        buffer = filled(*[array] * room)
        put = threading.Event()

        def put_one_more():
            buffer.put([array])
            put.set()

        thread = threading.Thread(target=put_one_more)
        thread.start()
        assert not put.wait(0.05)
        for _ in range(room):
            if put.is_set():
                break
            buffer.take()
        assert put.wait(5)
        thread.join()

    def test_stop_wakes_a_reader_that_waits(self):
        """Its put says no."""
        buffer = filled(*[SMALL] * 64)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(buffer.put([SMALL])))
        thread.start()
        buffer.stop()
        thread.join(5)
        assert [False] == answers


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

    def test_names(self, fresh_graph):
        """The first enqueue is named after the queue, the others stand aside."""
        with tf.name_scope("QueueInput"):
            queue = tf.FIFOQueue(50, [tf.int32], name="input_queue")
            EnqueueOps(queue, [tf.placeholder(tf.int32, [], name="x")])
        enqueues = [op.name for op in fresh_graph.get_operations() if op.type.startswith("QueueEnqueue")]

        assert "QueueInput/input_queue_enqueue" == enqueues[0]
        assert all(name.startswith("QueueInput/chunk/") for name in enqueues[1:])

    @pytest.mark.parametrize(("shape", "size"), [([None, 65536], 16), ([None, 65537], 1), (None, 16)])
    def test_size_of_a_call(self, shape, size):
        """Datapoints above 64 KB are enqueued one by one; unknown dimensions may be small."""
        spec = TensorSpec(shape, tf.uint8, "x")
        queue = tf.FIFOQueue(50, [tf.uint8])
        assert size == EnqueueOps(queue, [tf.placeholder(spec.dtype, spec.shape)]).max_chunk

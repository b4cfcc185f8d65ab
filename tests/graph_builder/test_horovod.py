"""Tests of graph_builder/horovod.py: the calls of Horovod, and their names."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.fake_horovod import FakeHorovod

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.horovod import allreduce_horovod_grads, broadcast_horovod_variables


def grads():
    """Return a dense gradient and an IndexedSlices."""
    slices = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([0, 4]), tf.constant([5, 3]))
    return [(tf.constant([1.0, 2.0]), "v"), (slices, "table")]


class TestGradients:
    def test_of_one_process(self):
        """Gradients of a single process are unchanged, without new operations."""
        pairs = grads()
        before = len(tf.get_default_graph().get_operations())
        assert pairs == allreduce_horovod_grads(pairs, FakeHorovod(1))
        assert before == len(tf.get_default_graph().get_operations())

    @pytest.mark.parametrize(("average", "op", "expected"), [(True, "Average", [1, 2]), (False, "Sum", [3, 6])])
    def test_of_several(self, sess, average, op, expected):
        """Each gradient is reduced separately, IndexedSlices as such. Horovod fuses them later."""
        hvd = FakeHorovod(3)
        (dense, v), (slices, table) = allreduce_horovod_grads(grads(), hvd, average)
        assert expected == sess.run(dense).tolist()
        assert isinstance(slices, tf.IndexedSlices)
        assert ("v", "table") == (v, table)
        assert [("allreduce", False, {"op": op}), ("allreduce", True, {"op": op})] == hvd.calls

    def test_compression(self):
        """Compression is passed to Horovod."""
        hvd = FakeHorovod(2)
        allreduce_horovod_grads(grads(), hvd, compression=hvd.Compression.fp16)
        assert {"op": "Average", "compression": "fp16 of Horovod"} == hvd.calls[0][2]


class TestVariables:
    def test_names(self):
        """Operations are named after the variables, whatever their scope and graph."""
        with tf.variable_scope("a"):
            first = tf.get_variable("w", initializer=1.0, use_resource=True)
        second = tf.get_variable("n", initializer=2, use_resource=False)
        hvd = FakeHorovod(2)
        with tf.name_scope("elsewhere"):
            broadcast_horovod_variables([first, second], hvd)
        assert [("broadcast", "variable.a.w", "float32"), ("broadcast", "variable.n", "int32")] == hvd.calls

    def test_values(self, sess):
        """Variables are set to the values of rank 0."""
        var = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
        hvd = FakeHorovod(2, 1, of_rank_0={"variable.w": np.float32([5, 6])})
        sync = broadcast_horovod_variables([var], hvd)
        sess.run(tf.global_variables_initializer())
        sess.run(sync)
        assert [5.0, 6.0] == sess.run(var).tolist()

    @pytest.mark.parametrize("dtype", [tf.complex64, tf.uint32, tf.bfloat16])
    def test_unsupported_dtypes(self, sess, dtype):
        """Dtypes that Horovod does not support are sent as bytes, and arrive bit for bit."""
        var = tf.get_variable("w", initializer=tf.cast(tf.constant([3, 5]), dtype), use_resource=True)
        hvd = FakeHorovod(2)
        sync = broadcast_horovod_variables([var], hvd)
        sess.run(tf.global_variables_initializer())
        sess.run(sync)
        assert [("broadcast", "variable.w", "uint8")] == hvd.calls
        assert [3, 5] == sess.run(tf.cast(var, tf.int64)).tolist()

    def test_strings(self, log_lines):
        """Variables that do not hold numbers are not changed, with a warning."""
        var = tf.get_variable("names", initializer=tf.constant(["a"]), use_resource=True)
        hvd = FakeHorovod(2)
        broadcast_horovod_variables([var], hvd)
        assert any("do not hold numbers and are not broadcast: names" in line for line in log_lines)
        assert [] == hvd.calls

"""Tests of graph_builder/allreduce.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.allreduce import (
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)

SHAPES = [[2], [3, 1], []]


def values(num_towers):
    rng = np.random.RandomState(0)
    return [[rng.randint(-9, 9, shape).astype("float32") for shape in SHAPES] for _ in range(num_towers)]


def tensors(rows):
    return [[tf.constant(value) for value in row] for row in rows]


def reduced(rows, average):
    total = [np.sum(column, axis=0) for column in zip(*rows)]
    return [value / len(rows) for value in total] if average else total


def sparse(values, indices):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([4, 2]))


def assert_equal(expected, actual):
    for a, b in zip(expected, actual):
        np.testing.assert_allclose(a, b, rtol=1e-6)


class TestNaive:
    @pytest.mark.parametrize("average", [True, False])
    def test_value(self, sess, average):
        """The result is the sum or the mean of the gradients of all towers."""
        rows = values(3)
        result = allreduce_grads_naive(tensors(rows), average=average)
        assert_equal(reduced(rows, average), sess.run(result))

    def test_devices_take_turns(self):
        """Devices take turns, from the last variable to the first."""
        result = allreduce_grads_naive(tensors(values(2)), devices=["/cpu:1", "/cpu:2"])
        assert [f"/device:CPU:{k}" for k in (1, 2, 1)] == [grad.op.device for grad in result]
        assert all(grad.op.name.startswith("AllReduceNaive/") for grad in result)

    def test_number_of_operations(self):
        """The number of operations per variable does not depend on the number of towers."""
        counts = []
        for num_towers in (2, 8):
            with tf.Graph().as_default() as graph:
                rows = tensors(values(num_towers))
                before = len(graph.get_operations())
                allreduce_grads_naive(rows, devices=["/cpu:0"])
                counts.append(len(graph.get_operations()) - before)
        assert [2 * len(SHAPES) + 1] * 2 == counts

    def test_one_tower(self):
        """Gradients of a single tower are unchanged."""
        rows = tensors(values(1))
        assert rows[0] == allreduce_grads_naive(rows)

    @pytest.mark.parametrize("average", [True, False])
    def test_slices(self, sess, average):
        """IndexedSlices stay IndexedSlices, with the slices of all towers."""
        rows = [[sparse([[1.0, 2.0]], [3])], [sparse([[4.0, 6.0], [8.0, 2.0]], [3, 0])]]
        result = allreduce_grads_naive(rows, average=average)[0]
        assert isinstance(result, tf.IndexedSlices)
        dense = np.array([[8, 2], [0, 0], [0, 0], [5, 8]]) / (2 if average else 1)
        np.testing.assert_allclose(dense, sess.run(tf.convert_to_tensor(result)))

    def test_slices_and_tensors(self, sess):
        """A gradient that is sparse in only one tower becomes dense."""
        rows = [[sparse([[1.0, 2.0]], [3])], [tf.ones([4, 2])]]
        result = sess.run(allreduce_grads_naive(rows, average=False)[0])
        np.testing.assert_allclose([[1, 1], [1, 1], [1, 1], [2, 3]], result)


class TestColocated:
    @pytest.mark.parametrize("average", [True, False])
    def test_value(self, sess, average):
        """Reduced gradients are paired with the variables of the first tower."""
        rows = values(2)
        variables = [tf.get_variable(f"v{i}", shape) for i, shape in enumerate(SHAPES)]
        result = aggregate_grads_colocate([list(zip(row, variables)) for row in tensors(rows)], average)
        assert variables == [var for _, var in result]
        assert_equal(reduced(rows, average), sess.run([grad for grad, _ in result]))

    def test_on_the_variables_device(self):
        """The device of a variable reduces its gradients."""
        with tf.device("/cpu:3"):
            var = tf.get_variable("v", [2], use_resource=True)
        result = aggregate_grads_colocate([[(tf.ones([2]), var)]] * 2)
        assert "/device:CPU:3" == result[0][0].op.device
        assert result[0][0].op.name.startswith("AggregateGradsColocate/")


class TestTogether:
    @pytest.mark.parametrize("average", [True, False])
    @pytest.mark.parametrize("num_towers", [2, 3])
    def test_collective(self, average, num_towers):
        """On distinct devices, each device receives the result, in each run."""
        rows = values(num_towers)
        all_grads = []
        for k, row in enumerate(rows):
            with tf.device(f"/cpu:{k}"):
                all_grads.append([tf.constant(value) for value in row])
        result = allreduce_grads(all_grads, average, "collective")
        config = tf.ConfigProto(device_count={"CPU": num_towers})
        with tf.Session(config=config) as sess:
            for _ in range(3):
                for actual in sess.run(result):
                    assert_equal(reduced(rows, average), actual)

    def test_collective_slices(self):
        """IndexedSlices are concatenated."""
        rows = [[sparse([[1.0, 2.0]], [3])], [sparse([[4.0, 6.0]], [0])]]
        result = allreduce_grads(rows, False, "collective", ["/cpu:0", "/cpu:1"])
        assert [2, 2] == [row[0].values.shape.as_list()[0] for row in result]

    def test_keys_of_two_reductions(self):
        """The operations of different variables have different keys."""
        result = allreduce_grads(tensors(values(2)), True, "collective", ["/cpu:0", "/cpu:1"])
        result += allreduce_grads(tensors(values(2)), True, "collective", ["/cpu:0", "/cpu:1"])
        keys = [[grad.op.get_attr("instance_key") for grad in row] for row in result]
        assert keys[0] == keys[1]
        assert 6 == len({*keys[0], *keys[2]})

    def test_nccl_graph(self):
        """NCCL, which needs GPUs to run, has one operation per device, with one name per variable."""
        result = allreduce_grads(tensors(values(2)), False, "nccl", ["/gpu:0", "/gpu:1"])
        for first, second in zip(*result):
            assert ("NcclAllReduce", b"sum", 2) == (
                first.op.type,
                first.op.get_attr("reduction"),
                first.op.get_attr("num_devices"),
            )
            assert first.op.get_attr("shared_name") == second.op.get_attr("shared_name")
            assert ("/device:GPU:0", "/device:GPU:1") == (first.op.device, second.op.device)

    def test_one_tower(self):
        """Gradients of a single tower are unchanged."""
        rows = tensors(values(1))
        assert rows == allreduce_grads(rows, True, "nccl")

    def test_another_mode(self):
        """An unknown mode raises a ValueError."""
        with pytest.raises(ValueError, match=r"mode is unknown \(expected 'nccl' or 'collective', got 'ring'\)"):
            allreduce_grads(tensors(values(2)), True, "ring")

    def test_scope(self):
        """The name scope can be given."""
        result = allreduce_grads(tensors(values(2)), False, "collective", ["/cpu:0", "/cpu:1"], name_scope="Mine")
        assert result[0][0].op.name.startswith("Mine/")


class TestHierarchical:
    DEVICES = tuple(f"/cpu:{k}" for k in range(8))

    @pytest.mark.parametrize("average", [True, False])
    def test_value(self, average):
        """Each of 8 devices receives the result."""
        rows = values(8)
        result = allreduce_grads_hierarchical(tensors(rows), self.DEVICES, average)
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 8})) as sess:
            for actual in sess.run(result):
                assert_equal(reduced(rows, average), actual)

    def test_devices(self):
        """Device i and its peer reduce variable i, and the other devices copy the result within their group."""
        result = allreduce_grads_hierarchical(tensors(values(8)), self.DEVICES)
        for k, row in enumerate(result):
            for i, grad in enumerate(row):
                assert f"/device:CPU:{k}" == grad.op.device
                source = grad.op.inputs[0].op
                assert (f"/device:CPU:{i if k < 4 else i + 4}") == source.device
                assert source.name.startswith("AllReduceGradsHierachical/group")

    def test_not_eight(self):
        """Other numbers of devices raise a ValueError."""
        with pytest.raises(ValueError, match="expected 8 towers and 8 devices, got 4 and 4"):
            allreduce_grads_hierarchical(tensors(values(4)), ["/cpu:0"] * 4)


def test_split_and_merge():
    """merge_grad_list is the inverse of split_grad_list."""
    pairs = [[("g0", "v0"), ("g1", "v1")], [("h0", "w0"), ("h1", "w1")]]
    grads, variables = split_grad_list(pairs)
    assert ([["g0", "g1"], ["h0", "h1"]], [["v0", "v1"], ["w0", "w1"]]) == (grads, variables)
    assert pairs == merge_grad_list(grads, variables)

"""graph_builder/allreduce.py: gradients of K towers become one."""

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
        """N tensors: the sum or the mean."""
        rows = values(3)
        result = allreduce_grads_naive(tensors(rows), average=average)
        assert_equal(reduced(rows, average), sess.run(result))

    def test_devices_take_turns(self):
        """From the last variable to the first."""
        result = allreduce_grads_naive(tensors(values(2)), devices=["/cpu:1", "/cpu:2"])
        assert [f"/device:CPU:{k}" for k in (1, 2, 1)] == [grad.op.device for grad in result]
        assert all(grad.op.name.startswith("AllReduceNaive/") for grad in result)

    def test_no_operation_for_each_tower(self):
        """Two operations a variable, however many towers, and one constant a device."""
        counts = []
        for num_towers in (2, 8):
            with tf.Graph().as_default() as graph:
                rows = tensors(values(num_towers))
                before = len(graph.get_operations())
                allreduce_grads_naive(rows, devices=["/cpu:0"])
                counts.append(len(graph.get_operations()) - before)
        assert [2 * len(SHAPES) + 1] * 2 == counts

    def test_one_tower(self):
        """Is left alone."""
        rows = tensors(values(1))
        assert rows[0] == allreduce_grads_naive(rows)

    @pytest.mark.parametrize("average", [True, False])
    def test_slices(self, sess, average):
        """IndexedSlices stay such, with the slices of all towers."""
        rows = [[sparse([[1.0, 2.0]], [3])], [sparse([[4.0, 6.0], [8.0, 2.0]], [3, 0])]]
        result = allreduce_grads_naive(rows, average=average)[0]
        assert isinstance(result, tf.IndexedSlices)
        dense = np.array([[8, 2], [0, 0], [0, 0], [5, 8]]) / (2 if average else 1)
        np.testing.assert_allclose(dense, sess.run(tf.convert_to_tensor(result)))

    def test_slices_and_tensors(self, sess):
        """A variable that is sparse in one tower only becomes dense."""
        rows = [[sparse([[1.0, 2.0]], [3])], [tf.ones([4, 2])]]
        result = sess.run(allreduce_grads_naive(rows, average=False)[0])
        np.testing.assert_allclose([[1, 1], [1, 1], [1, 1], [2, 3]], result)


class TestColocated:
    @pytest.mark.parametrize("average", [True, False])
    def test_value(self, sess, average):
        """Reduced gradients beside the variables of the first tower."""
        rows = values(2)
        variables = [tf.get_variable(f"v{i}", shape) for i, shape in enumerate(SHAPES)]
        result = aggregate_grads_colocate([list(zip(row, variables)) for row in tensors(rows)], average)
        assert variables == [var for _, var in result]
        assert_equal(reduced(rows, average), sess.run([grad for grad, _ in result]))

    def test_on_the_variables_device(self):
        """The work is done where the variable lives."""
        with tf.device("/cpu:3"):
            var = tf.get_variable("v", [2], use_resource=True)
        result = aggregate_grads_colocate([[(tf.ones([2]), var)]] * 2)
        assert "/device:CPU:3" == result[0][0].op.device
        assert result[0][0].op.name.startswith("AggregateGradsColocate/")


class TestTogether:
    @pytest.mark.parametrize("average", [True, False])
    @pytest.mark.parametrize("num_towers", [2, 3])
    def test_collective(self, average, num_towers):
        """On distinct devices, each gets the result; run after run."""
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
        """IndexedSlices are put together, not reduced."""
        rows = [[sparse([[1.0, 2.0]], [3])], [sparse([[4.0, 6.0]], [0])]]
        result = allreduce_grads(rows, False, "collective", ["/cpu:0", "/cpu:1"])
        assert [2, 2] == [row[0].values.shape.as_list()[0] for row in result]

    def test_two_reductions_have_their_own_keys(self):
        """Operations belong together by their keys: never those of two variables."""
        result = allreduce_grads(tensors(values(2)), True, "collective", ["/cpu:0", "/cpu:1"])
        result += allreduce_grads(tensors(values(2)), True, "collective", ["/cpu:0", "/cpu:1"])
        keys = [[grad.op.get_attr("instance_key") for grad in row] for row in result]
        assert keys[0] == keys[1]
        assert 6 == len({*keys[0], *keys[2]})

    def test_nccl_graph(self):
        """NCCL's operations run on GPUs only; their graph: one each, all of a variable with one name."""
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
        """Is left alone."""
        rows = tensors(values(1))
        assert rows == allreduce_grads(rows, True, "nccl")

    def test_another_mode(self):
        """Is refused."""
        with pytest.raises(ValueError, match="mode is 'ring', wanted 'nccl' or 'collective'"):
            allreduce_grads(tensors(values(2)), True, "ring")

    def test_scope(self):
        """The scope can be named."""
        result = allreduce_grads(
            tensors(values(2)), False, "collective", ["/cpu:0", "/cpu:1"], name_scope="Mine"
        )
        assert result[0][0].op.name.startswith("Mine/")


class TestHierarchical:
    DEVICES = tuple(f"/cpu:{k}" for k in range(8))

    @pytest.mark.parametrize("average", [True, False])
    def test_value(self, average):
        """Each of 8 devices gets the result."""
        rows = values(8)
        result = allreduce_grads_hierarchical(tensors(rows), self.DEVICES, average)
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 8})) as sess:
            for actual in sess.run(result):
                assert_equal(reduced(rows, average), actual)

    def test_devices(self):
        """Variable i is added up on device i and its opposite, and each device takes from the one in its half."""
        result = allreduce_grads_hierarchical(tensors(values(8)), self.DEVICES)
        for k, row in enumerate(result):
            for i, grad in enumerate(row):
                assert f"/device:CPU:{k}" == grad.op.device
                source = grad.op.inputs[0].op
                assert (f"/device:CPU:{i if k < 4 else i + 4}") == source.device
                assert source.name.startswith("AllReduceGradsHierachical/group")

    def test_not_eight(self):
        """It is for 8 devices."""
        with pytest.raises(ValueError, match="got 4 towers and 4 devices, wanted 8"):
            allreduce_grads_hierarchical(tensors(values(4)), ["/cpu:0"] * 4)


def test_split_and_merge():
    """merge_grad_list undoes split_grad_list."""
    pairs = [[("g0", "v0"), ("g1", "v1")], [("h0", "w0"), ("h1", "w1")]]
    grads, variables = split_grad_list(pairs)
    assert ([["g0", "g1"], ["h0", "h1"]], [["v0", "v1"], ["w0", "w1"]]) == (grads, variables)
    assert pairs == merge_grad_list(grads, variables)

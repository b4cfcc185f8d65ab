"""Tests of graph_builder/packing.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.packing import GradientPacker

SHAPES = [[30, 40], [7], [], [2, 3, 500], [40]]


def gradients(tower):
    rng = np.random.RandomState(tower)
    return [tf.constant(rng.uniform(size=shape).astype("float32")) for shape in SHAPES]


@pytest.mark.parametrize("num_split", [1, 2, 4])
def test_there_and_back(sess, num_split):
    """Unpacking returns the packed gradients of all towers. Buffers differ by at most one element."""
    all_grads = [gradients(0), gradients(1)]
    packer = GradientPacker(num_split)
    assert packer.compute_strategy(all_grads[0])
    packs = packer.pack_all(all_grads, ["/cpu:0", "/cpu:0"])
    sizes = [pack.shape.num_elements() for pack in packs[0]]
    assert (num_split, sum(np.prod(shape, dtype=int) for shape in SHAPES)) == (len(sizes), sum(sizes))
    assert max(sizes) - min(sizes) <= 1
    for expected, actual in zip(all_grads, packer.unpack_all(packs, ["/cpu:0", "/cpu:0"])):
        assert [grad.shape.as_list() for grad in actual] == SHAPES
        for a, b in zip(sess.run(expected), sess.run(actual)):
            np.testing.assert_array_equal(a, b)


def test_one_scope():
    """The operations of all towers are in one name scope, and on the device of their tower."""
    packer = GradientPacker(2)
    packer.compute_strategy(gradients(0))
    packs = packer.pack_all([gradients(0), gradients(1)], ["/cpu:1", "/cpu:2"])
    assert all(pack.op.name.startswith("GradientPacker/") for row in packs for pack in row)
    assert ["/device:CPU:1", "/device:CPU:2"] == [row[0].op.device for row in packs]


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda: [tf.zeros([2047])],
        lambda: [tf.zeros([5000]), tf.zeros([5000], tf.float16)],
        lambda: [tf.zeros([5000]), tf.placeholder(tf.float32, [None])],
        lambda: [tf.zeros([5000]), tf.IndexedSlices(tf.zeros([2, 3]), [0, 1], [10, 3])],
    ],
    ids=["nothing", "too small", "two dtypes", "unknown shape", "sparse"],
)
def test_not_packed(make):
    """Gradients that cannot be packed, or are too small, are not packed."""
    assert not GradientPacker(2).compute_strategy(make())


def test_just_worth_it():
    """1024 elements per buffer are enough."""
    assert GradientPacker(2).compute_strategy([tf.zeros([2048])])

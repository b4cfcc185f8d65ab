"""Which operations a run needs."""

from __future__ import annotations

import collections

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.dependency import (
    dependency_of_fetches,
    dependency_of_targets,
    operations_needed,
)

Pair = collections.namedtuple("Pair", "first second")


@pytest.fixture
def ops():
    """b needs a; c waits for b; d stands alone."""
    a = tf.constant(1.0, name="a")
    b = tf.negative(a, name="b")
    with tf.control_dependencies([b]):
        c = tf.no_op(name="c")
    return {"a": a, "b": b, "c": c, "d": tf.constant(2.0, name="d")}


@pytest.mark.parametrize(
    ("target", "op", "expected"),
    [("b", "a", True), ("c", "a", True), ("a", "a", True), ("a", "b", False), ("d", "a", False)],
)
def test_of_targets(ops, target, op, expected):
    """Through inputs and control inputs, itself included, and only backwards."""
    assert expected == dependency_of_targets((ops[target],), ops[op].op if op != "c" else ops[op])


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda o: o["b"], True),
        (lambda o: [o["d"], [o["c"]]], True),
        (lambda o: {"x": o["d"], 3: (o["b"],)}, True),
        (lambda o: Pair(o["d"], o["b"]), True),
        (lambda o: "b:0", True),
        (lambda o: ["d", None], False),
        (lambda o: [], False),
    ],
)
def test_of_fetches(ops, wrap, expected):
    """Every structure that a session takes."""
    assert expected == dependency_of_fetches(wrap(ops), ops["a"])


def test_sparse_tensors(ops):
    """The parts of a sparse tensor count."""
    sparse = tf.SparseTensor(indices=[[0]], values=tf.reshape(ops["b"], [1]), dense_shape=[1])
    assert dependency_of_fetches({"s": sparse}, ops["a"]) is True


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables(use_resource):
    """A variable may be fetched."""
    var = tf.get_variable("w", shape=[], use_resource=use_resource)
    assert dependency_of_fetches(var, var.op) is True


def test_the_answer_belongs_to_its_graph(ops):
    """The same names in another graph are asked anew."""
    assert dependency_of_targets(["b"], "a") is True
    with tf.Graph().as_default():
        tf.constant(1.0, name="a")
        tf.constant(1.0, name="b")
        assert dependency_of_targets(["b"], "a") is False


def test_operations_needed(ops):
    """Nearest first, each once."""
    assert ["c", "b", "a"] == [op.name for op in operations_needed([ops["c"]])]


def test_outside_the_graph(fresh_graph):
    """Elements are looked up in their own graph, whichever graph is the default one."""
    x = tf.constant(1.0, name="x")
    y = tf.add(x, 1.0, name="y")
    with tf.Graph().as_default():
        assert dependency_of_targets([y], x.op)
        assert dependency_of_targets(["y"], x.op)
        assert dependency_of_fetches({"y": [y]}, "x")
        assert not dependency_of_fetches(x, y.op)

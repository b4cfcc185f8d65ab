"""Tests of the functions that find the operations a session run executes."""

from __future__ import annotations

import collections

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.dependency import (
    dependency_of_fetches,
    dependency_of_targets,
    operations_needed,
    updates_wait_for_data,
)

Pair = collections.namedtuple("Pair", "first second")


@pytest.fixture
def ops():
    """Operations where b depends on a, c has a control dependency on b, and d is independent."""
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
    """An operation depends on itself, its inputs and control inputs, and not on its consumers."""
    assert expected == dependency_of_targets((ops[target],), ops[op].op if op != "c" else ops[op])


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda o: o["b"], True),
        (lambda o: [o["d"], [o["c"]]], True),
        (lambda o: {"x": o["d"], 3: (o["b"],)}, True),
        (lambda o: Pair(o["d"], o["b"]), True),
        (lambda o: {"s": tf.SparseTensor([[0]], tf.reshape(o["b"], [1]), [1])}, True),
        (lambda o: tf.get_variable("w", initializer=o["b"], use_resource=True).initializer, True),
        (lambda o: "b:0", True),
        (lambda o: ["d", None], False),
        (lambda o: [], False),
    ],
)
def test_of_fetches(ops, wrap, expected):
    """Every structure that `Session.run` accepts can be passed."""
    assert expected is dependency_of_fetches(wrap(ops), ops["a"])


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables(use_resource):
    """A variable can be passed as a fetch."""
    var = tf.get_variable("w", shape=[], use_resource=use_resource)
    assert dependency_of_fetches(var, var.op) is True


def test_the_answer_belongs_to_its_graph(ops):
    """Results for one graph are not used for another with the same names."""
    assert dependency_of_targets(["b"], "a") is True
    with tf.Graph().as_default():
        tf.constant(1.0, name="a")
        tf.constant(1.0, name="b")
        assert dependency_of_targets(["b"], "a") is False


def test_operations_needed(ops):
    """The result is sorted nearest first, without duplicates."""
    assert ["c", "b", "a"] == [op.name for op in operations_needed([ops["c"]])]


def test_outside_the_graph(fresh_graph):
    """Elements are looked up in their own graph, even if another graph is the default."""
    x = tf.constant(1.0, name="x")
    y = tf.add(x, 1.0, name="y")
    with tf.Graph().as_default():
        assert dependency_of_targets([y], x.op)
        assert dependency_of_targets(["y"], x.op)
        assert dependency_of_fetches({"y": [y]}, "x")
        assert not dependency_of_fetches(x, y.op)


class TestUpdatesWaitForData:
    """Whether a step that fails because data is missing has updated nothing."""

    @staticmethod
    def update(data, name="w"):
        variable = tf.get_variable(name, shape=[], use_resource=True)
        return tf.train.AdamOptimizer(0.1).minimize((variable - data) ** 2, var_list=[variable])

    @staticmethod
    def queue():
        return tf.FIFOQueue(1, [tf.float32], shapes=[[]])

    def test_one_queue(self):
        """All updates depend on the data of one queue. The step counter and local variables do not matter."""
        train_op = tf.group(self.update(self.queue().dequeue()), tf.train.get_or_create_global_step().assign_add(1))
        assert updates_wait_for_data(train_op)

    def test_a_dataset(self):
        """All updates depend on the data of a dataset."""
        data = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(1.0)).get_next()
        assert updates_wait_for_data(self.update(data))

    def test_without_data(self):
        """A step without data has nothing to wait for."""
        assert not updates_wait_for_data(self.update(1.0))

    def test_an_update_without_data(self):
        """One part of the step may update its variable while another part waits."""
        train_op = tf.group(self.update(self.queue().dequeue()), self.update(1.0, "other"))
        assert not updates_wait_for_data(train_op)

    def test_two_towers(self):
        """If two towers take data, an update must depend on both, and so must updates outside the training operation."""
        queue = self.queue()
        first, second = queue.dequeue(), queue.dequeue()
        train_op = self.update(first + second)
        assert updates_wait_for_data(train_op)
        tf.get_variable("average", shape=[], use_resource=True).assign(first)
        assert not updates_wait_for_data(train_op)

    def test_staging(self):
        """With a staging area, the updates do not depend on the datapoint that is taken in the same run."""
        area = tf.raw_ops.Unstage(dtypes=[tf.float32])[0]
        tf.raw_ops.Stage(values=[self.queue().dequeue()])
        assert not updates_wait_for_data(self.update(tf.reshape(area, [])))

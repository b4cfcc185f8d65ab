"""Tests of tfutils/early_read.py: a read for a summary always returns the value from before the step's update."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.compat.private import add_control_inputs
from tensorpack_lite.tfutils.early_read import let_updates_wait, plain_reads, read_before_update, shared_read
from tensorpack_lite.tfutils.summary import add_param_summary
from tensorpack_lite.utils.naming import READ_BEFORE_UPDATE_KEY

OPTIMIZERS = [
    lambda: tf.train.GradientDescentOptimizer(0.5),
    lambda: tf.train.MomentumOptimizer(0.5, 0.9),
    lambda: tf.train.AdamOptimizer(0.5),
]


def variable(name="w", size=(300, 300)):
    return tf.get_variable(name, size, initializer=tf.ones_initializer(), use_resource=True)


def waits(update) -> list:
    """Return the names of the operations that an update waits for."""
    return [op.name for op in update.control_inputs]


@pytest.mark.slow
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_it_is_the_old_value(sess, make):
    """The old value is read in each of many steps, even though the gradient of a linear cost does not read the variable."""
    w = variable()
    train_op = make().minimize(tf.reduce_sum(w))
    total = tf.reduce_sum(read_before_update(w))
    let_updates_wait()
    sess.run(tf.global_variables_initializer())

    after = np.float32(300 * 300)
    for _ in range(30):
        before = after
        seen, _ = sess.run([total, train_op])
        after = sess.run(tf.reduce_sum(w))
        np.testing.assert_allclose(before, seen, rtol=1e-5)


def test_slices(sess):
    """Updates of some rows wait for the read too."""
    w = variable(size=(5, 2))
    tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(tf.gather(w, [1])), name="train")
    read = read_before_update(w)
    let_updates_wait()
    (update,) = [op for op in w.handle.consumers() if op.type == "ResourceScatterAdd"]
    assert read.op.name in waits(update)


def test_the_models_own_read(sess):
    """If the model reads the variable, no operation is added."""
    w = variable()
    tf.reduce_sum(w)
    before = len(w.graph.get_operations())
    read_before_update(w)
    let_updates_wait()
    assert before == len(w.graph.get_operations())


def test_a_new_read(sess):
    """If all reads have control inputs or are in a condition, a new read is created."""
    w = variable()
    for op in plain_reads(w):
        add_control_inputs(op, [tf.no_op()])
    read = read_before_update(w)
    assert [read.op] == plain_reads(w)


def test_operations_that_do_not_wait(sess, tmp_path):
    """Initialization, restoring, updates of other variables, and variables without a summary do not wait."""
    w, other = variable(), variable("other")
    saver = tf.train.Saver()
    tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(w + other))
    read = read_before_update(w)
    let_updates_wait()

    waiting = [op for op in sess.graph.get_operations() if read.op in op.control_inputs]
    assert ["ResourceApplyGradientDescent"] == [op.type for op in waiting]
    sess.run(tf.global_variables_initializer())
    path = saver.save(sess, str(tmp_path / "model"))
    with tf.Session(graph=sess.graph) as uninitialized:
        saver.restore(uninitialized, path)
        assert 1 == uninitialized.run(w)[0, 0]


def test_a_condition(sess):
    """Updates and reads inside a condition are ignored."""
    w = variable(size=(2,))
    tf.cond(tf.constant(True), lambda: w.assign_add([1.0, 1.0]).op, tf.no_op)
    read_before_update(w)

    def inside():
        return tf.identity(read_before_update(variable("inside", (2,))))

    tf.cond(tf.constant(True), inside, lambda: tf.zeros([2]))
    before = [len(op.control_inputs) for op in sess.graph.get_operations()]
    let_updates_wait()
    assert before == [len(op.control_inputs) for op in sess.graph.get_operations()]


def test_a_read_that_waits(sess):
    """A read with control inputs, for example on a feed, does not become part of each step."""
    w = variable(size=(2,))
    tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(w))
    feed = tf.placeholder(tf.float32, [], "feed")
    for op in plain_reads(w):
        add_control_inputs(op, [tf.no_op()])
    with tf.control_dependencies([feed]):
        read_before_update(w)
    let_updates_wait()

    (update,) = [op for op in w.handle.consumers() if op.type == "ResourceApplyGradientDescent"]
    assert [] == waits(update)


def test_a_reference_variable():
    """A ref variable is returned unchanged."""
    w = tf.get_variable("w", [2], use_resource=False)
    assert w is read_before_update(w)
    let_updates_wait()


def test_summaries_of_parameters_use_it(sess):
    """Each summarized parameter is read once, and other parameters are not read."""
    for name in ("a", "b"):
        tf.reduce_sum(variable(name, (2,)))
    add_param_summary(("a", ["rms", "histogram", "mean"]))
    add_param_summary(("a", ["sparsity"]))
    reads = {value.op.name for value in tf.get_collection(READ_BEFORE_UPDATE_KEY)}
    assert 1 == len(reads)


class TestSharedRead:
    def test_one_operation(self):
        """Two uses share the read that was created with the variable."""
        w = variable()
        before = len(tf.get_default_graph().get_operations())
        assert shared_read(w) is shared_read(w)
        assert "w/Read/ReadVariableOp" == shared_read(w).op.name
        assert before == len(tf.get_default_graph().get_operations())

    def test_gradient(self, sess):
        """Gradients of all uses reach the variable."""
        w = variable(size=[2])
        (gradient,) = tf.gradients(tf.reduce_sum(3 * shared_read(w)) + tf.reduce_sum(shared_read(w) * w), w)
        sess.run(tf.global_variables_initializer())
        assert [5, 5] == sess.run(gradient).tolist()

    def test_after_an_update(self, sess):
        """After an update in the same run, a new read returns the new value."""
        w = variable(size=[])
        with tf.control_dependencies([tf.assign_add(w, 1.0)]):
            value = tf.identity(shared_read(w))
        sess.run(tf.global_variables_initializer())
        assert 2 == sess.run(value)

    def test_inside_a_loop(self, sess):
        """Inside a loop, each iteration reads the variable again."""
        w = variable(size=[])

        def body(i, total):
            with tf.control_dependencies([tf.assign_add(w, 1.0)]):
                return i + 1, total + tf.identity(shared_read(w))

        _, total = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0], parallel_iterations=1)
        sess.run(tf.global_variables_initializer())
        assert 2 + 3 + 4 == sess.run(total)

    def test_inside_a_condition(self, sess):
        """Inside a condition, the variable itself is returned."""
        w, seen = variable(size=[]), []
        value = tf.cond(tf.constant(True), lambda: seen.append(shared_read(w)) or w + 1, lambda: w - 1)
        sess.run(tf.global_variables_initializer())
        assert w is seen[0]
        assert 2 == sess.run(value)

    def test_others(self):
        """Tensors and ref variables are returned unchanged, and a variable with a caching device as its cached copy."""
        for value in (tf.constant(1.0), tf.get_variable("w", [2], use_resource=False)):
            assert value is shared_read(value)
        cached = tf.get_variable("cached", [2], use_resource=True, caching_device="/cpu:0")
        assert "Identity" == shared_read(cached).op.type

"""Tests of tfutils/recompute.py: a recomputed block has the same gradients and effects, and needs less memory."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.processes import RUN, run_python

from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder
from tensorpack_lite.models import BatchNorm, Dropout, FullyConnected
from tensorpack_lite.models.regularize import l2_regularizer
from tensorpack_lite.tfutils import random
from tensorpack_lite.tfutils.recompute import recompute_grad
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.utils import logger


@pytest.fixture
def warnings(monkeypatch):
    """The warnings that are logged."""
    found = []
    monkeypatch.setattr(logger, "warning", lambda message, *_: found.append(message))
    return found


def data(*shape):
    return tf.constant(np.random.RandomState(0).standard_normal(shape), tf.float32)


def peak_bytes(sess, fetches) -> int:
    """Return how many bytes a run has allocated at most at the same time."""
    metadata = tf.RunMetadata()
    sess.run(fetches, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    records = [one for node in nodes for memory in node.memory for one in memory.allocation_records]
    sizes = [one.alloc_bytes for one in sorted(records, key=lambda one: one.alloc_micros)]
    return int(np.cumsum(sizes).max())


def deep_block(x):
    """A block with random numbers and moving averages."""
    x = BatchNorm("bn", FullyConnected("fc0", x, 64, activation=tf.tanh))
    return FullyConnected("fc1", Dropout(x, rate=0.5), 64, activation=tf.tanh)


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_gradients_with_dropout_and_batch_norm(sess, exact):
    """The gradients equal those of the block's own operations, with the same mask; each run draws another one."""
    if exact:
        random.make_exact(1)
    x, kept = data(8, 64), []
    with TowerContext("", is_training=True):
        output = recompute_grad(lambda x: kept.append(deep_block(x)) or kept[0])(x)
    sources = [x, *tf.trainable_variables()]
    pair = [tf.gradients(tf.reduce_sum(y**3), sources) for y in (kept[0], output)]
    sess.run(tf.global_variables_initializer())
    for _ in range(3):
        for expected, actual in zip(*sess.run(pair)):
            np.testing.assert_allclose(expected, actual, rtol=1e-4, atol=1e-5)


def test_exact_random_numbers_are_recomputed():
    """In exact mode, no mask is kept: the gradients draw the same numbers again."""
    random.make_exact(1)
    with TowerContext("", is_training=True):
        output = recompute_grad(deep_block)(data(8, 64))
    before = {op.name for op in tf.get_default_graph().get_operations()}
    tf.gradients(output, tf.trainable_variables())
    drawn = [op for op in tf.get_default_graph().get_operations() if "StatelessRandom" in op.type]
    assert [op for op in drawn if op.name not in before]


def test_effects_happen_once(sess):
    """The gradients add nothing to collections, create no variables, and update moving averages once per run."""

    def block(x):
        x = FullyConnected("fc", x, 3, kernel_regularizer=l2_regularizer(1.0))
        x = BatchNorm("bn", x, ema_update="internal")
        add_moving_summary(tf.reduce_mean(x, name="mean"))
        return x * x

    x = data(4, 2)
    with TowerContext("", is_training=True):
        output = recompute_grad(block)(x)
        graph = tf.get_default_graph()
        before = {key: list(graph.get_collection(key)) for key in graph.get_all_collection_keys()}
        gradient = tf.gradients(output, tf.trainable_variables())
    assert before == {key: list(graph.get_collection(key)) for key in graph.get_all_collection_keys()}
    (mean,) = [var for var in tf.global_variables() if var.op.name == "bn/mean/EMA"]
    sess.run(tf.global_variables_initializer())
    of_batch = sess.run(tf.reduce_mean(graph.get_tensor_by_name("fc/output:0"), 0))
    sess.run(gradient)
    np.testing.assert_allclose(0.1 * of_batch, sess.run(mean), rtol=1e-5)


@pytest.mark.slow
def test_memory(sess):
    """The step of a deep model needs less than half of the memory; how much less depends on the order of execution."""
    peaks = []
    for wrap in (lambda block: block, recompute_grad):
        x = data(512, 64)
        with tf.variable_scope(tf.get_variable_scope(), reuse=bool(peaks)), TowerContext("", is_training=True):
            for k in range(12):
                with tf.variable_scope(f"block{k}"):
                    x = wrap(lambda x: x + deep_block(tf.nn.relu(FullyConnected("first", x, 64))))(x)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(x * x))
        sess.run(tf.global_variables_initializer())
        peaks.append(peak_bytes(sess, step))
    assert peaks[1] < 0.5 * peaks[0]


@pytest.mark.parametrize(
    ("recomputed", "plain"),
    [
        (lambda x, a: recompute_grad(lambda x: tf.sin(x * a) * 2 * a)(x), lambda x, a: tf.sin(x * a) * 2 * a),
        (
            lambda x, a: tf.gradients(recompute_grad(lambda x: tf.sin(x) ** 3)(x), x)[0],
            lambda x, a: tf.gradients(tf.sin(x) ** 3, x)[0],
        ),
        (
            lambda x, a: tf.exp(recompute_grad(lambda x: tf.exp(recompute_grad(tf.sin)(x) * x))(tf.cos(x))),
            lambda x, a: tf.exp(tf.exp(tf.sin(tf.cos(x)) * tf.cos(x))),
        ),
        (
            lambda x, a: tf.add_n(recompute_grad(lambda x, a: (x, tf.nn.relu(a) * 2))(x, a)),
            lambda x, a: x + tf.nn.relu(a) * 2,
        ),
    ],
    ids=["tensor from outside", "second derivative", "nested", "returned argument"],
)
def test_gradients(sess, recomputed, plain):
    """The gradients are those of the plain block: for arguments and other tensors, of gradients, and of nested blocks."""
    x, a = data(3), data(3)
    found = [tf.gradients(build(x, a), [x, a]) for build in (plain, recomputed)]
    for expected, actual in zip(*found):
        assert (expected is None) == (actual is None)
        if expected is not None:
            np.testing.assert_allclose(*sess.run([expected, actual]), rtol=1e-5)


def test_structures(sess):
    """Arguments and results may be nested and of any type; a result that needs no recomputation is returned itself."""
    x, number = data(2, 3), tf.constant(3)

    def block(pair, scale=1.0):
        x, number = pair
        return {"sum": tf.reduce_sum(x**3) * scale, "more": (number + 1, None, x)}

    results = recompute_grad(block)((x, number), scale=2.0)
    assert [None] == [part for part in results["more"] if part is None]
    total, more = sess.run([results["sum"], results["more"][0]])
    np.testing.assert_allclose(sess.run(2 * tf.reduce_sum(x**3)), total, rtol=1e-5)
    assert 4 == more
    (gradient,) = tf.gradients([results["sum"], results["more"][2]], x)
    np.testing.assert_allclose(sess.run(6 * x**2 + 1), sess.run(gradient), rtol=1e-5)


def test_tape(sess):
    """`tf.GradientTape` computes the gradients of the block's inputs, and those of variables."""
    x = data(4, 3)
    with TowerContext("", is_training=True), tensorflow.GradientTape() as tape:
        tape.watch(x)
        cost = tf.reduce_sum(recompute_grad(lambda x: FullyConnected("fc", x, 2, activation=tf.tanh))(x) ** 2)
    sources = [x, *tf.trainable_variables()]
    sess.run(tf.global_variables_initializer())
    for left, right in zip(*sess.run([tf.gradients(cost, sources), tape.gradient(cost, sources)])):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_control_flow_around(sess):
    """A block inside a condition or a loop has the right gradients."""
    x = data(3)

    def block(x):
        return tf.sin(x) * tf.exp(-x)

    def build(wrap):
        y = tf.cond(tf.reduce_sum(x) > -100, lambda: wrap(block)(x), lambda: x)
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, wrap(block)(y)), [0, y])
        return tf.gradients(y, x)[0]

    np.testing.assert_allclose(*sess.run([build(lambda block: block), build(recompute_grad)]), rtol=1e-5)


@pytest.mark.slow
def test_towers_with_joint_statistics(sess):
    """Blocks with `sync_statistics` have the gradients of the same towers without recomputation."""

    def block(x):
        return tf.tanh(BatchNorm("bn", x, sync_statistics="nccl")) ** 3

    def build_towers(wrap):
        inputs = iter([data(4, 3), 1 + 2 * data(4, 3) ** 2])

        def build():
            x = next(inputs)
            return tf.gradients(wrap(block)(x), x)[0]

        return DataParallelBuilder.build_on_towers(range(2), build, ["/cpu:0"] * 2, [False] * 2)

    gradients = [build_towers(lambda block: block)]
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        gradients.append(build_towers(recompute_grad))
    sess.run(tf.global_variables_initializer())
    for left, right in zip(*sess.run(gradients)):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)


def test_nothing_to_recompute(warnings):
    """A block whose operations cannot be repeated logs a warning, and works."""
    x = data(3)
    recompute_grad(lambda x: tf.random.uniform([3]) + tf.py_func(lambda x: np.sin(x), [x], tf.float32))(x)
    assert [True] == ["nothing is recomputed" in text for text in warnings]


@pytest.mark.parametrize("layer", [lambda x: Dropout(x, rate=0.5), lambda x: BatchNorm("bn", x)])
def test_tensorflows_function(warnings, monkeypatch, layer):
    """Under `tf.recompute_grad`, layers that must not run twice log a warning that names this function."""
    found = []
    monkeypatch.setattr("tensorpack_lite.models.checks.log_once", lambda message, func: found.append(message))
    x = data(4, 3)
    with TowerContext("", is_training=True):
        layer(x)
        assert [] == found
        tf.get_variable_scope().reuse_variables()
        tf.gradients(tensorflow.recompute_grad(layer)(x), x)
    assert all("tensorpack_lite.recompute_grad" in message for message in found)
    assert len(found) == (1 if TF_VERSION >= (2, 0) else 2)


def test_arguments_from_outside_of_a_branch(sess, warnings):
    """In a branch, the block may get tensors that were created outside of it."""
    x = data(3)
    output = tf.cond(tf.constant(True), lambda: recompute_grad(tf.exp)(x), lambda: x)
    (gradient,) = tf.gradients(output, [x])
    np.testing.assert_allclose(*sess.run([tf.exp(x), gradient]), rtol=1e-6)
    if tf.control_flow_v2_enabled():
        assert [] == warnings


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_under_run(tmp_path):
    """In scripts of `tensorpack-lite run`, variables of a block have gradients."""
    (tmp_path / "train.py").write_text(
        """
import tensorflow as tf
from tensorpack import *
from tensorpack.tfutils.recompute import recompute_grad

with TowerContext("", is_training=True):
    y = recompute_grad(lambda x: FullyConnected("fc", x, 4))(tf.ones([8, 64]))
print([g is not None for g in tf.gradients(y, tf.trainable_variables())])
"""
    )
    assert "[True, True]" == run_python(*RUN, "train.py", cwd=tmp_path).stdout.splitlines()[-1]

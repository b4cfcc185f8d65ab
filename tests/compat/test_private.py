"""Each private name of TensorFlow that the library uses works on every supported version."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tensorpack_lite import compat
from tensorpack_lite.compat import TF_VERSION, private
from tensorpack_lite.compat import tfv1 as tf


def test_indexed_slices_value(sess):
    """`IndexedSlicesValue` is the type that a session returns for `tf.IndexedSlices`."""
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]), tf.constant([5, 1]))
    value = sess.run(slices)
    assert isinstance(value, private.IndexedSlicesValue)
    assert [3] == value.indices.tolist()


def test_v2_behavior_enabled():
    """TensorFlow 2 behavior is on in TF 2, with and without eager execution, and off in TF 1."""
    assert (compat.TF_VERSION[0] == 2) is private.v2_behavior_enabled()


def test_eager_seed():
    """`eager_seed` returns the seed that was set in eager execution, or None."""
    assert private.eager_seed() is None
    try:
        with private._context.eager_mode():
            tf.set_random_seed(5)
        assert 5 == private.eager_seed()
    finally:
        private._context.context()._seed = None


class TestMakeCallable:
    @pytest.fixture
    def x(self):
        """The arrays to feed."""
        return tf.placeholder(tf.float32, [None], name="x")

    def test_feeds_fetches_targets(self, sess, x):
        """Feeds are passed by position, values come in the order of the fetches, and targets run."""
        count = tf.get_variable("count", initializer=0, use_resource=True)
        sess.run(count.initializer)
        call = private.make_callable(sess, [x * 2, x + 1], [count.assign_add(1).op], [x])
        doubled, added = call(np.array([1, 2], "float32"))
        assert ([2.0, 4.0], [2.0, 3.0]) == (doubled.tolist(), added.tolist())
        call(np.zeros([3], "float32"))
        assert 2 == sess.run(count)

    def test_without_feeds(self, sess):
        """Targets, feeds and options may be omitted."""
        assert [5] == private.make_callable(sess, [tf.constant(5)])()

    def test_run_metadata(self, sess):
        """Options apply to every call, and each call returns its trace."""
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        call = private.make_callable(sess, [tf.constant(1.0) + 1.0], run_options=options)
        for _ in range(2):
            metadata = tf.RunMetadata()
            call(run_metadata=metadata)
            assert len(metadata.step_stats.dev_stats)

    def test_debug_options(self, sess, x, tmp_path):
        """tfdbg writes the tensors that it watches; feeds, fetches and targets work as usual."""
        seen = tf.add(x, 1.0, name="seen")
        options = tf.RunOptions()
        options.debug_options.debug_tensor_watch_opts.add(
            node_name="seen", output_slot=0, debug_ops=["DebugIdentity"], debug_urls=[f"file://{tmp_path}"]
        )
        call = private.make_callable(sess, [seen], [tf.no_op()], [x], options)
        assert [[3.0]] == [value.tolist() for value in call(np.array([2], "float32"))]
        assert any(file.name.startswith("seen_0_DebugIdentity") for file in tmp_path.rglob("*"))


def test_chrome_trace(sess):
    """The trace is JSON with an event for each operation that ran."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    total = tf.reduce_sum(tf.random_uniform([10]), name="total")
    sess.run(total, options=options, run_metadata=metadata)
    events = json.loads(private.chrome_trace(metadata.step_stats))["traceEvents"]
    assert "total" in [event["args"]["name"] for event in events if event["ph"] == "X"]


def test_debug_hook_class(monkeypatch):
    """tfdbg's hook is a session hook, or None if TensorFlow has no tfdbg."""
    assert issubclass(private.debug_hook_class(), tf.train.SessionRunHook)
    monkeypatch.setitem(sys.modules, "tensorflow.python.debug.wrappers.hooks", None)
    assert private.debug_hook_class() is None


def test_add_control_inputs(sess):
    """An existing operation can be made to wait for another one."""
    count = tf.get_variable("count", initializer=0.0, use_resource=True)
    waits = tf.no_op(name="waits")
    sess.run(count.initializer)
    sess.run(waits)
    assert 0.0 == sess.run(count)
    with tf.Graph().as_default() as graph:
        count = tf.get_variable("count", initializer=0.0, use_resource=True)
        waits = tf.no_op(name="waits")
        private.add_control_inputs(waits, [count.assign_add(1.0, read_value=False)])
        with tf.Session(graph=graph) as session:
            session.run(count.initializer)
            session.run(waits)
            assert 1.0 == session.run(count)


class TestExplainError:
    def failed(self, sess):
        """Fail in a callable and return the error."""
        checked = tf.debugging.check_numerics(tf.constant(1.0) / tf.constant(0.0), "planted", name="checked")
        call = private.make_callable(sess, [checked])
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            call()
        return raised.value

    def test_operation(self, sess):
        """The error of a callable gets the operation and the place where it was created."""
        error = self.failed(sess)
        explained = private.explain_error(sess, error)
        assert type(error) is type(explained)
        assert "checked" == explained.op.name
        assert "planted" in explained.message

    def test_nothing_to_add(self, sess):
        """An error without an operation is returned unchanged."""
        error = tf.errors.OutOfRangeError(None, None, "over")
        explained = private.explain_error(sess, error)
        assert tf.errors.OutOfRangeError is type(explained)
        assert "over" in explained.message


def test_inside_control_flow():
    """Operations inside a loop are recognized."""
    inside = []

    def body(i):
        inside.append(tf.add(i, 1).op)
        return inside[-1].outputs[0]

    outside = tf.constant(0)
    v2_loops = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        tf.while_loop(lambda i: i < 3, body, [outside])
    finally:
        if v2_loops:
            tf.enable_control_flow_v2()
    assert private.inside_control_flow(inside[0])
    assert not private.inside_control_flow(outside.op)


def test_at_top_level():
    """Conditions of both kinds and functions are not at the top level."""
    below = []

    def branch():
        below.append(private.at_top_level(tf.get_default_graph()))
        return tf.constant(1)

    assert private.at_top_level(tf.get_default_graph())
    v2_conditions = tf.control_flow_v2_enabled()
    try:
        for choose in (tf.enable_control_flow_v2, tf.disable_control_flow_v2):
            choose()
            tf.cond(tf.placeholder(tf.bool, []), branch, branch)
    finally:
        (tf.enable_control_flow_v2 if v2_conditions else tf.disable_control_flow_v2)()
    assert [False] * 4 == below
    assert private.at_top_level(tf.get_default_graph())


def test_update_input(sess):
    """An existing operation computes with its new input and no longer needs the old one."""
    waiting = tf.placeholder(tf.float32, [2], name="waiting")
    result = tf.negative(waiting)
    private.update_input(result.op, 0, tf.constant([1.0, 2.0]))
    assert [-1.0, -2.0] == sess.run(result).tolist()
    assert "waiting" != result.op.inputs[0].op.name
    assert [] == waiting.consumers()


class TestInsideXla:
    def test_outside(self, fresh_graph):
        """A plain graph and a loop are not inside XLA."""
        assert not private.inside_xla(fresh_graph)

    def test_inside(self, fresh_graph):
        """A function that XLA compiles is inside XLA, and so is a loop in it."""
        seen = []

        def body(i):
            seen.append(private.inside_xla(tf.get_default_graph()))
            return i + 1

        def computation(x):
            seen.append(private.inside_xla(tf.get_default_graph()))
            return tf.while_loop(lambda i: i < 3, body, [x])

        v2_loops = tf.control_flow_v2_enabled()
        tf.disable_control_flow_v2()  # its loop bodies are separate graphs
        try:
            compat.tensorflow.xla.experimental.compile(computation, [tf.constant(0)])
        finally:
            if v2_loops:
                tf.enable_control_flow_v2()
        assert [True, True] == seen
        assert not private.inside_xla(fresh_graph)


def test_optimize_for_inference():
    """Nodes that the outputs do not need are removed, and the rest computes the same values."""
    x = tf.placeholder(tf.float32, [], name="x")
    tf.identity(tf.identity(x) * 2.0, name="y")
    tf.constant(1.0, name="unused")
    graph_def = tf.get_default_graph().as_graph_def()
    optimized = private.optimize_for_inference(graph_def, ["x"], ["y"], [tf.float32.as_datatype_enum])
    assert not {"Identity", "unused"} & {node.name for node in optimized.node}
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(optimized, name="")
        assert 6.0 == sess.run("y:0", {"x:0": 3.0})


def test_unfinalize(fresh_graph):
    """New operations can be added to a graph that was finalized."""
    fresh_graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        tf.no_op(name="early")
    private.unfinalize(fresh_graph)
    tf.no_op(name="late")
    assert ["late"] == [op.name for op in fresh_graph.get_operations()]


def test_has_kernel():
    """The kernels of a dtype are known for each kind of device."""
    assert private.has_kernel("FusedBatchNormV3", tf.float32, "CPU")
    assert (TF_VERSION >= (2, 0)) == private.has_kernel("FusedBatchNormV3", tf.bfloat16, "CPU")
    assert not private.has_kernel("FusedBatchNormV3", tf.float64, "CPU")
    assert not private.has_kernel("FusedBatchNormV3", tf.float32, "TPU")

"""Layers inside conditions and loops: of TensorFlow 2, which builds them as functions, and of TensorFlow 1."""

from __future__ import annotations

import traceback

import numpy as np
import pytest
from fakes.control_flow import control_flow

from tensorpack_lite.callbacks.graph import RunUpdateOps
from tensorpack_lite.callbacks.summary import MergeAllSummaries, MovingAverageSummary
from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, BatchRenorm, FullyConnected, l2_regularizer
from tensorpack_lite.models.regularize import regularize_cost_from_collection
from tensorpack_lite.tfutils.collection import inside_branch
from tensorpack_lite.tfutils.summary import add_activation_summary, add_moving_summary
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.utils.naming import MOVING_SUMMARY_OPS_KEY

ADVICE = r"Return the tensor from there and use it outside, or call tf.disable_control_flow_v2\(\)"
X = np.array([[1.0, 4.0], [3.0, 8.0]], "float32")
only_functions = pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 builds no functions")


@pytest.fixture(params=["functions", "contexts"])
def kind(request):
    """TensorFlow 2's control flow, where it is the default, and TensorFlow 1's."""
    if request.param == "functions" and not tf.control_flow_v2_enabled():
        pytest.skip("TensorFlow 1.15 builds no functions")
    with control_flow(is_v2=request.param == "functions"):
        yield request.param


def in_cond(layer, x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x), lambda: x)


def in_case(layer, x):
    return tf.case([(tf.reduce_sum(x) > 0, lambda: layer(x))], default=lambda: x)


def in_nested_cond(layer, x):
    return in_cond(lambda x: in_cond(layer, x), x)


def in_while(layer, x):
    return tf.while_loop(lambda i, _: i < 1, lambda i, x: (i + 1, layer(x)), [0, x])[1]


def in_map(layer, x):
    return tf.map_fn(layer, x[None])[0]


everywhere = pytest.mark.parametrize("build", [in_cond, in_case, in_nested_cond, in_while, in_map])


def update_all(sess, output):
    """Run the output with UPDATE_OPS, as a training does."""
    sess.run(tf.global_variables_initializer())
    callback = RunUpdateOps()
    updates = callback._group_updates()
    return sess.run([output, updates])[0]


def normalize(x):
    return BatchNorm("bn", x)


def project(x):
    return FullyConnected("fc", x, 2)


@pytest.mark.parametrize("layer", [normalize, project])
def test_autograph_does_not_convert_a_layer(kind, layer):
    """`tf.map_fn` lets AutoGraph convert the user's function, which takes seconds for the functions of a layer."""
    files = set()

    def getter(get, *args, **kwargs):
        around = traceback.extract_stack()
        called = [frame.name for frame in around].index("layer")  # what a layer of ours is called with, in registry.py
        files.update(frame.filename for frame in around[called:])
        return get(*args, **kwargs)

    with TowerContext("", is_training=True), tf.variable_scope("", custom_getter=getter):
        in_map(layer, tf.constant(X))
    assert files
    assert not [name for name in files if "autograph_generated" in name]


@everywhere
def test_batch_norm(sess, kind, build):
    """BatchNorm updates its averages once per step, when the step runs the branch."""
    with TowerContext("", is_training=True):
        output = build(lambda x: BatchNorm("bn", x), tf.constant(X))
    actual = update_all(sess, output)
    np.testing.assert_allclose([[-1, -1], [1, 1]], actual, atol=1e-4)
    mean, variance = sess.run([var for var in tf.global_variables() if "EMA" in var.name])
    np.testing.assert_allclose([0.2, 0.6], mean, rtol=1e-5)
    np.testing.assert_allclose([1.0, 1.3], variance, rtol=1e-5)


@only_functions
@everywhere
def test_batch_renorm(sess, build):
    """BatchRenorm, too."""
    with TowerContext("", is_training=True):
        output = build(lambda x: BatchRenorm("bn", x, rmax=1.0, dmax=0.0), tf.constant(X))
    update_all(sess, output)
    (mean,) = sess.run([var for var in tf.global_variables() if "moving_mean" in var.name])
    np.testing.assert_allclose([0.2, 0.6], mean, rtol=1e-5)


def test_a_branch_that_is_not_taken(sess, kind):
    """The averages do not change if the step takes the other branch."""
    with TowerContext("", is_training=True):
        output = in_cond(lambda x: BatchNorm("bn", x), tf.constant(-X))
    update_all(sess, output)
    (mean,) = sess.run([var for var in tf.global_variables() if "mean/EMA" in var.name])
    assert [0, 0] == mean.tolist()


@everywhere
def test_kernel_regularizer(sess, kind, build):
    """The cost of a kernel regularizer inside counts outside, with its gradient."""
    if TF_VERSION < (2, 0) and build in (in_while, in_map):
        pytest.skip("TensorFlow 1.15 computes the cost inside the loop")
    with TowerContext("", is_training=True):
        output = build(lambda x: FullyConnected("fc", x, 2, kernel_regularizer=l2_regularizer(2.0)), tf.constant(X))
        cost = regularize_cost_from_collection()
    weights = tf.trainable_variables()[0]
    (gradient,) = tf.gradients(cost, weights)
    sess.run(tf.global_variables_initializer())
    _, value, of_cost, actual = sess.run([output, weights, cost, gradient])
    np.testing.assert_allclose((value**2).sum(), of_cost, rtol=1e-5)
    np.testing.assert_allclose(2 * value, actual, rtol=1e-5)


@only_functions
@everywhere
@pytest.mark.parametrize(
    ("what", "layer"),
    [
        ("add_moving_summary: '.*", lambda x: add_moving_summary(tf.reduce_mean(x)) and x),
        ("add_tensor_summary: '.*", lambda x: add_activation_summary(x) or x),
        (
            "activity_regularizer: 'fc' is inside",
            lambda x: FullyConnected("fc", x, 2, activity_regularizer=tf.nn.l2_loss),
        ),
    ],
)
def test_what_cannot_leave(build, what, layer):
    """A summary or cost that would exist only inside raises RuntimeError, with advice."""
    with TowerContext("", is_training=True), pytest.raises(RuntimeError, match=f"{what}.*{ADVICE}"):
        build(layer, tf.constant(X))


@only_functions
@pytest.mark.parametrize(
    ("key", "callback"),
    [
        (tf.GraphKeys.UPDATE_OPS, RunUpdateOps),
        (tf.GraphKeys.SUMMARIES, MergeAllSummaries),
        (tf.GraphKeys.SUMMARIES, lambda: MergeAllSummaries(run_alone=True)),
        (MOVING_SUMMARY_OPS_KEY, MovingAverageSummary),
    ],
)
def test_a_members_of_a_collection(key, callback):
    """A callback that runs a collection names a member that was created inside, with advice."""

    def branch():
        inside = tf.constant("text", name="mine")
        tf.add_to_collection(key, inside)
        return inside

    tf.cond(tf.constant(True), branch, lambda: tf.constant(""))
    with pytest.raises(RuntimeError, match=rf"'mine:0' in the collection '{key}' was created inside.*{ADVICE}"):
        callback()._setup_graph()


def test_inside_branch(kind):
    """`inside_branch` is true in the functions of TensorFlow 2 only."""
    seen = []
    in_cond(lambda x: seen.append(inside_branch()) or x, tf.constant(X))
    assert [kind == "functions"] == list(dict.fromkeys(seen))
    assert not inside_branch()

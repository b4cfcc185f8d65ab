"""Tests of optimizer wrappers: numbers in closed form, names and places of variables."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.gradproc import MapGradient, ScaleGradient
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.optimizer import (
    AccumGradOptimizer,
    PostProcessOptimizer,
    ProxyOptimizer,
    VariableAssignmentOptimizer,
    apply_grad_processors,
)
from tensorpack_lite.tfutils.varreplace import override_to_local_variable

KINDS = [True, False]  # resource variables and ref variables
SGD = tf.train.GradientDescentOptimizer


def skip_ref_accumulation(use_resource) -> None:
    """Skip ref variables under TF 2's control flow, which cannot assign them. Another test checks the error."""
    if not use_resource and tf.control_flow_v2_enabled():
        pytest.skip("ref variables need TF 1's control flow")


def trajectory(sess, op, var, steps) -> list:
    """Return the variable's value after each step."""
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    values = []
    for _ in range(steps):
        sess.run(op)
        values.append(sess.run(var))
    return values


def global_names() -> list:
    """Return the sorted names of global variables."""
    return sorted(var.op.name for var in tf.global_variables())


class TestProxyOptimizer:
    def test_delegates(self, sess):
        """All methods forward to the wrapped optimizer."""
        x = tf.get_variable("x", initializer=1.0)
        inner = tf.train.MomentumOptimizer(0.5, 0.5)
        proxy = ProxyOptimizer(inner)
        op = proxy.minimize(x * 2.0)
        np.testing.assert_allclose([0.0, -1.5, -3.25], trajectory(sess, op, x, 3))
        assert ["momentum"] == proxy.get_slot_names()
        assert proxy.get_slot(x, "momentum") is inner.get_slot(x, "momentum")
        assert ["x/Momentum"] == [var.op.name for var in proxy.variables()]
        assert isinstance(proxy, tf.train.Optimizer)


class TestApplyGradProcessors:
    def test_in_order(self, sess):
        """Processors are applied in the order of the list: (1 + 1) * 3 is not 1 * 3 + 1."""
        x = tf.get_variable("x", initializer=0.0)
        opt = apply_grad_processors(SGD(1.0), [MapGradient(lambda g: g + 1.0), ScaleGradient((".*", 3.0))])
        assert [-6.0] == trajectory(sess, opt.minimize(x * 1.0), x, 1)

    def test_name_and_global_step(self, sess):
        """Name and global step are passed to the wrapped optimizer."""
        x = tf.get_variable("x", initializer=0.0)
        step = tf.train.create_global_step()
        op = apply_grad_processors(SGD(1.0), []).minimize(x * 1.0, global_step=step, name="train_op")
        assert "train_op" == getattr(op, "op", op).name
        assert [1, 2] == trajectory(sess, op, step, 2)


class TestPostProcessOptimizer:
    @pytest.mark.parametrize("use_resource", KINDS)
    def test_runs_after_the_update(self, sess, use_resource):
        """`func` reads the value after the update: x <- 2 (x - 1)."""
        x = tf.get_variable("x", initializer=3.0, use_resource=use_resource)
        opt = PostProcessOptimizer(SGD(1.0), lambda var: var.assign(var.read_value() * 2.0, read_value=False))
        op = opt.minimize(x * 1.0, name="train_op")
        assert "train_op" == op.name
        assert [4.0, 6.0, 10.0] == trajectory(sess, op, x, 3)

    @pytest.mark.parametrize("optimizer", [PostProcessOptimizer, VariableAssignmentOptimizer])
    def test_none_does_nothing(self, sess, optimizer):
        """If `func` returns None, the variable keeps the value of the update, and the step is counted once."""
        x, step = tf.get_variable("x", initializer=3.0), tf.train.create_global_step()
        op = optimizer(SGD(1.0), lambda var: None).minimize(x * 1.0, global_step=step)
        assert [[2.0, 1], [1.0, 2]] == trajectory(sess, op, [x, step], 2)


class TestVariableAssignmentOptimizer:
    @pytest.mark.parametrize("use_resource", KINDS)
    def test_assigns(self, sess, use_resource):
        """The variable is clipped after each update."""
        x = tf.get_variable("x", initializer=[3.0, 0.5], use_resource=use_resource)
        opt = VariableAssignmentOptimizer(SGD(1.0), lambda var: tf.clip_by_value(var.read_value(), -1.0, 1.0))
        got = trajectory(sess, opt.minimize(tf.reduce_sum(x)), x, 3)
        np.testing.assert_allclose([[1.0, -0.5], [0.0, -1.0], [-1.0, -1.0]], got)

    def test_plain_use_of_the_variable(self, sess):
        """With a resource variable, `var` in an expression is its value after the update."""
        x = tf.get_variable("x", initializer=3.0, use_resource=True)
        opt = VariableAssignmentOptimizer(SGD(1.0), lambda var: var * 2.0)
        assert [4.0, 6.0] == trajectory(sess, opt.minimize(x * 1.0), x, 2)


class TestAccumGradOptimizer:
    @pytest.mark.parametrize("use_resource", KINDS)
    def test_updates_with_the_sum_at_every_nth_call(self, sess, use_resource):
        """9 calls with learning rate 1, gradient 1 and n = 3 update the variable three times by 3."""
        skip_ref_accumulation(use_resource)
        x = tf.get_variable("x", initializer=0.0, use_resource=use_resource)
        op = AccumGradOptimizer(SGD(1.0), 3).minimize(x * 1.0)
        assert [0, 0, -3, -3, -3, -6, -6, -6, -9] == trajectory(sess, op, x, 9)

    def test_every_run_is_the_same(self, sess):
        """The counter is read after its increment: 100 runs of many variables give the same values."""
        variables = [tf.get_variable(f"x{i}", initializer=np.zeros(50, "float32")) for i in range(20)]
        op = AccumGradOptimizer(SGD(1.0), 4).minimize(tf.add_n([tf.reduce_sum(x) for x in variables]))
        sess.run(tf.global_variables_initializer())
        for call in range(1, 101):
            sess.run(op)
            expected = np.full([20, 50], -4.0 * (call // 4))
            np.testing.assert_array_equal(expected, sess.run(tf.get_collection("trainable_variables")))

    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_equals_the_large_batch(self, sess, n):
        """n small batches with Momentum give the same values as one batch of their sum."""
        x = tf.get_variable("x", initializer=1.0)
        data = tf.placeholder(tf.float32, [])
        op = AccumGradOptimizer(tf.train.MomentumOptimizer(0.01, 0.9), n).minimize(tf.square(x - data) / 2)
        sess.run(tf.global_variables_initializer())
        samples = np.random.RandomState(0).randn(20).astype("float32")
        value, momentum = 1.0, 0.0
        for step in range(20 // n):
            batch = samples[step * n : (step + 1) * n]
            for sample in batch:
                sess.run(op, {data: sample})
            momentum = 0.9 * momentum + np.sum(value - batch)
            value -= 0.01 * momentum
            np.testing.assert_allclose(value, sess.run(x), rtol=1e-5)

    @pytest.mark.parametrize("use_resource", KINDS)
    def test_slices(self, sess, use_resource):
        """Gradients of rows are added up, and rows that occur twice count twice."""
        skip_ref_accumulation(use_resource)
        table = tf.get_variable("e", initializer=np.zeros([4, 2], "float32"), use_resource=use_resource)
        cost = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3, 1]))
        opt = AccumGradOptimizer(SGD(1.0), 2)
        ((grad, _),) = grads = opt.compute_gradients(cost)
        assert isinstance(grad, tf.IndexedSlices)
        got = trajectory(sess, opt.apply_gradients(grads), table, 2)
        assert [0, 0, 0, 0] == got[0][:, 0].tolist()
        assert [0, -4, 0, -2] == got[1][:, 0].tolist()

    def test_variables(self):
        """Names are the same as in tensorpack, and those of the wrapped optimizer are the same as without accumulation."""
        x = tf.get_variable("fc/W", initializer=0.0)
        AccumGradOptimizer(tf.train.AdamOptimizer(1.0), 3).minimize(x * 1.0)
        slots = ["fc/W", "fc/W/AccumGrad", "fc/W/Adam", "fc/W/Adam_1"]
        assert ["AccumGrad/counter", "beta1_power", "beta2_power", *slots] == global_names()
        assert ["fc/W"] == [var.op.name for var in tf.trainable_variables()]

    def test_names_under_scopes(self):
        """Under a name scope, as in the replicated trainer, and under a variable scope, the names are correct, too."""
        with tf.variable_scope("gen"):
            x = tf.get_variable("x", initializer=0.0)
        with tf.name_scope("apply_gradients"):
            op = AccumGradOptimizer(tf.train.AdamOptimizer(1.0), 3).minimize(x * 1.0, name="apply_grad_0")
        assert "apply_gradients/apply_grad_0" == op.name
        expected = {"apply_gradients/AccumGrad/counter", "apply_gradients/beta1_power", "gen/x/AccumGrad"}
        assert expected <= set(global_names())
        with tf.variable_scope("discrim"):
            y = tf.get_variable("y", initializer=0.0)
            AccumGradOptimizer(SGD(1.0), 3).minimize(y * 1.0)
        assert "discrim/y/AccumGrad" in global_names()

    def test_one_counter_for_each_tower(self, sess):
        """Sums and counters of replicas are local, with the names of their towers, and none is global."""
        opt = AccumGradOptimizer(SGD(1.0), 2)
        ops, variables = [], []
        for tower in range(2):
            with override_to_local_variable(enable=tower > 0):
                x = tf.get_variable("tower1/x" if tower else "x", initializer=0.0)
                with tf.name_scope("apply_gradients/"):
                    ops.append(opt.apply_gradients([(tf.constant(1.0 + tower), x)]))
            variables.append(x)
        assert ["apply_gradients/AccumGrad/counter", "x", "x/AccumGrad"] == global_names()
        assert ["tower1/apply_gradients/AccumGrad/counter", "tower1/x", "tower1/x/AccumGrad"] == sorted(
            var.op.name for var in tf.local_variables()
        )
        got = trajectory(sess, ops, variables[0], 2)
        assert ([0.0, -2.0], -4.0) == (got, sess.run(variables[1]))

    def test_two_optimizers(self, sess):
        """Two optimizers, as in a GAN, have separate counters."""
        x, y = tf.get_variable("x", initializer=0.0), tf.get_variable("y", initializer=0.0)
        first = AccumGradOptimizer(SGD(1.0), 2).minimize(x * 1.0, var_list=[x])
        second = AccumGradOptimizer(SGD(1.0), 3).minimize(y * 1.0, var_list=[y])
        sess.run(tf.global_variables_initializer())
        for _ in range(6):
            sess.run([first, second])
        assert [-6.0, -6.0] == sess.run([x, y])
        sess.run(first)
        sess.run(second)
        assert [-6.0, -6.0] == sess.run([x, y])

    def test_same_variables_twice(self, sess):
        """Two calls for the same variables share the sums and the counter, for towers that share variables."""
        x = tf.get_variable("x", initializer=0.0)
        opt = AccumGradOptimizer(SGD(1.0), 2)
        ops = [opt.apply_gradients([(tf.constant(1.0), x)]) for _ in range(2)]
        assert ["AccumGrad/counter", "x", "x/AccumGrad"] == global_names()
        sess.run(tf.global_variables_initializer())
        sess.run(ops[0])
        sess.run(ops[1])
        assert -2.0 == sess.run(x)

    @pytest.mark.parametrize(
        ("name", "expected"), [("train_op", "train_op"), (None, "AccumGradOptimizer/cond_update_grad")]
    )
    def test_returns_an_operation(self, name, expected):
        """The result is an operation with the given name, at the same place as with other optimizers."""
        x = tf.get_variable("x", initializer=0.0)
        op = AccumGradOptimizer(SGD(1.0), 3).minimize(x * 1.0, name=name)
        assert isinstance(op, tf.Operation)
        assert expected == op.name

    def test_with_processors_outside(self, sess):
        """With processors outside, each small gradient is processed."""
        x = tf.get_variable("x", initializer=0.0)
        opt = apply_grad_processors(AccumGradOptimizer(SGD(1.0), 2), [ScaleGradient((".*", 0.5))])
        assert [0.0, -1.0] == trajectory(sess, opt.minimize(x * 1.0), x, 2)

    def test_checkpoint_in_the_middle(self, tmp_path, sess):
        """Sums and counter are saved: continuing from a checkpoint gives the same values as training without interruption."""
        x = tf.get_variable("x", initializer=0.0)
        op = AccumGradOptimizer(SGD(1.0), 3).minimize(x * 1.0)
        saver = tf.train.Saver()
        trajectory(sess, op, x, 2)
        path = saver.save(sess, str(tmp_path / "m"))
        with tf.Session() as other:
            saver.restore(other, path)
            other.run(op)
            assert -3.0 == other.run(x)

    def test_none_gradients(self, sess):
        """Pairs without a gradient are omitted. The global step counts calls, not updates."""
        x, step = tf.get_variable("x", initializer=0.0), tf.train.create_global_step()
        tf.get_variable("y", initializer=0.0)
        op = AccumGradOptimizer(SGD(1.0), 2).minimize(x * 1.0, global_step=step)
        assert [[0.0, 1], [-2.0, 2]] == trajectory(sess, op, [x, step], 2)

    @pytest.mark.parametrize("wrap", [lambda opt: AccumGradOptimizer(opt, 2), DynamicLossScaleOptimizer])
    def test_ref_variables_under_v2_control_flow(self, wrap):
        """A ref variable under TF 2's control flow raises a ValueError with advice."""
        if not tf.control_flow_v2_enabled():
            pytest.skip("TF 1's control flow can do it")
        x = tf.get_variable("x", initializer=0.0, use_resource=False)
        with pytest.raises(ValueError, match="Optimizer: 'x' is a ref variable, .* use_resource=True"):
            wrap(SGD(1.0)).minimize(x * 1.0)

"""Tests of graph_builder/data_parallel.py."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder, apply_one_after_another
from tensorpack_lite.tfutils.tower.context import get_current_tower_context


def tower():
    """Create one variable. Return the attributes of the context, a tensor and the variable."""
    w = tf.get_variable("w", initializer=1.0)
    context = get_current_tower_context()
    seen = (context.name, context.vs_name, context.index, context.total, context.has_own_variables)
    return seen, tf.add(w, 1.0, name="y"), w


class TestCallForEachTower:
    def test_shared(self):
        """Towers are named by their index, and later towers reuse the variables of the first one."""
        results = DataParallelBuilder.call_for_each_tower([4, 7], tower)
        assert [("tower0", "", 0, 2, True), ("tower1", "", 1, 2, False)] == [seen for seen, _, _ in results]
        assert ["tower0/y", "tower1/y"] == [y.op.name for _, y, _ in results]
        assert ["/device:GPU:4", "/device:GPU:7"] == [y.op.device for _, y, _ in results]
        assert ["w"] == [var.op.name for var in tf.global_variables()]

    def test_own_variables(self):
        """With `use_vs`, a tower has trainable, local copies of the variables."""
        results = DataParallelBuilder.call_for_each_tower([0, 1], tower, use_vs=[False, True])
        assert ("tower1", "tower1", 1, 2, True) == results[1][0]
        assert ["w"] == [var.op.name for var in tf.global_variables()]
        assert ["tower1/w"] == [var.op.name for var in tf.local_variables()]
        assert ["w", "tower1/w"] == [var.op.name for var in tf.trainable_variables()]

    def test_device_functions(self):
        """A device can be a function of the operation."""
        results = DataParallelBuilder.call_for_each_tower([0], tower, devices=[lambda op: "/device:CPU:5"])
        assert "/device:CPU:5" == results[0][1].op.device

    def test_called_twice(self):
        """A GAN's trainer can call the function twice."""
        DataParallelBuilder.call_for_each_tower([0], tower)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            again = DataParallelBuilder.call_for_each_tower([0], tower)
        assert "tower0/y_1" == again[0][1].op.name

    def test_old_name(self):
        """`build_on_towers` is the same function."""
        assert "tower0/y" == DataParallelBuilder.build_on_towers([0], tower)[0][1].op.name

    @pytest.mark.parametrize("kwargs", [{"devices": ["/cpu:0"]}, {"use_vs": [False]}])
    def test_lengths(self, kwargs):
        """Lists of different lengths raise a ValueError."""
        with pytest.raises(ValueError, match="got 2 towers"):
            DataParallelBuilder.call_for_each_tower([0, 1], tower, **kwargs)

    def test_variables_in_a_later_tower(self):
        """A trainable variable that only a later tower creates raises an error that names it."""
        counter = iter("ab")
        with pytest.raises(RuntimeError, match=r"must reuse .* but created trainable variables: tower1/b\."):
            DataParallelBuilder.call_for_each_tower(
                [0, 1], lambda: tf.Variable(0.0, name=next(counter), use_resource=True)
            )


class TestCheckGradList:
    def pairs(self, *names):
        return [(None, tf.get_variable(name, initializer=0.0)) for name in names]

    def test_copies_are_the_same(self):
        """Copies of a variable in different towers count as the same variable."""
        DataParallelBuilder._check_grad_list([self.pairs("a", "b"), self.pairs("tower1/a", "tower1/b")])

    def test_another_number(self):
        """The error names the variables that are not in all towers."""
        with pytest.raises(ValueError, match=r"tower 0 has 2, tower 1 has 1 \(b\)"):
            DataParallelBuilder._check_grad_list([self.pairs("a", "b"), self.pairs("tower1/a")])

    def test_another_order(self):
        """Another order of variables raises a ValueError."""
        with pytest.raises(ValueError, match="in another order"):
            DataParallelBuilder._check_grad_list([self.pairs("a", "b"), self.pairs("tower1/b", "tower1/a")])


class TestApplyOneAfterAnother:
    @pytest.mark.parametrize("times", [1, 2, 5])
    def test_adam_advances_once(self, sess, times):
        """Adam's powers advance once per step, after all applications have read them."""
        optimizer = tf.train.AdamOptimizer(0.1)
        variables = [tf.get_variable(f"v{i}", [3], use_resource=True) for i in range(times)]
        zeros = [var.assign(tf.zeros([3]), read_value=False) for var in variables]
        ops = apply_one_after_another(
            optimizer, [lambda v=v: optimizer.apply_gradients([(tf.ones([3]), v)]) for v in variables]
        )
        step = tf.group(*ops)
        sess.run(tf.global_variables_initializer())
        sess.run(zeros)
        for _ in range(3):
            sess.run(step)
        power = optimizer._get_beta_accumulators()[0]
        assert 0.9**4 == pytest.approx(sess.run(power), rel=1e-5)
        for value in sess.run(variables):
            assert [-0.3] * 3 == pytest.approx(value, rel=1e-5)

    def test_no_order_where_nothing_advances(self):
        """Updates of an optimizer without such state do not wait for each other."""
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        variables = [tf.get_variable(f"v{i}", [3], use_resource=True) for i in range(2)]
        ops = apply_one_after_another(
            optimizer, [lambda v=v: optimizer.apply_gradients([(tf.ones([3]), v)]) for v in variables]
        )
        waits_for = {op.name for update in ops[1].control_inputs for op in update.control_inputs}
        assert ops[0].name not in waits_for

    def test_the_optimizer_is_as_before(self):
        """After an error, the optimizer advances at each call again."""
        optimizer = tf.train.AdamOptimizer(0.1)
        with pytest.raises(ZeroDivisionError):
            apply_one_after_another(optimizer, [lambda: 1 // 0, lambda: None])
        assert "_finish" not in vars(optimizer)

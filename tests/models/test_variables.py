"""Tests of models/variables.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, Conv2D, FullyConnected, PReLU
from tensorpack_lite.models.variables import (
    VariableHolder,
    default_kernel_initializer,
    is_variable,
    rename_get_variable,
    rename_tflayer_get_variable,
    same_constant,
    shared_constant,
)
from tensorpack_lite.tfutils.tower.context import TowerContext, TrainTowerContext
from tensorpack_lite.tfutils.varreplace import freeze_variables, remap_variables


class TestVariableHolder:
    def test_it_holds_in_order(self):
        """Variables are attributes, and `all` returns them in order. A second value for a name raises a ValueError."""
        holder = VariableHolder(W=1, b=2)
        holder.gamma = 3
        assert (1, 2, 3) == (holder.W, holder.b, holder.gamma)
        assert [1, 2, 3] == holder.all()
        with pytest.raises(ValueError, match="'W' is set already"):
            holder.W = 2

    def test_an_unknown_name(self):
        """An unknown name is an AttributeError and a KeyError, which lists the variables."""
        holder = VariableHolder(W=1, b=2)
        assert not hasattr(holder, "w")
        for error in (AttributeError, KeyError):
            with pytest.raises(error) as caught:
                _ = holder.w
            assert "VariableHolder: no variable is called 'w' (the variables are: W, b)." == str(caught.value)


class TestRename:
    def test_the_last_part_is_replaced(self):
        """Only the last part of a name is replaced, in the block or the decorated function."""
        with rename_get_variable({"kernel": "W"}), tf.variable_scope("kernel"):
            tf.get_variable("kernel", [])
            tf.get_variable("other", [])
        rename_get_variable({"a": "b"})(lambda: tf.get_variable("a", []))()
        with tf.variable_scope("outside"):
            tf.get_variable("kernel", [])
        expected = ["kernel/W", "kernel/other", "b", "outside/kernel"]
        assert expected == [v.op.name for v in tf.global_variables()]

    def test_names_of_tensorflows_layers(self):
        """kernel, bias and the moving averages get the names of this library's layers."""
        with rename_tflayer_get_variable(), tf.variable_scope("x"):
            for name in ("kernel", "bias", "moving_mean", "moving_variance", "gamma"):
                tf.get_variable(name, [])
        assert ["x/W", "x/b", "x/mean/EMA", "x/variance/EMA", "x/gamma"] == [v.op.name for v in tf.global_variables()]


class TestInitializer:
    def test_it_is_an_untruncated_normal(self, sess):
        """The standard deviation is sqrt(2 / fan_in), and values beyond four times that occur."""
        values = sess.run(default_kernel_initializer()([3, 3, 50, 1000], tf.float32))
        stddev = np.sqrt(2 / 450)
        assert abs(values.std() / stddev - 1) < 0.01
        assert np.abs(values).max() > 4 * stddev

    def test_seeds_and_parts(self):
        """The initializer follows the graph's seed; a part of a variable uses the fan-in of the whole."""
        values = []
        for _ in range(2):
            with tf.Graph().as_default(), tf.Session() as session:
                tf.set_random_seed(3)
                parts = tf.get_variable(
                    "w",
                    [1000, 40],
                    initializer=default_kernel_initializer(),
                    partitioner=tf.fixed_size_partitioner(4),
                )
                session.run(tf.global_variables_initializer())
                values.append(session.run(tf.convert_to_tensor(parts)))
        assert np.array_equal(values[0], values[1])
        assert (2 / 1000) ** 0.5 == pytest.approx(values[0].std(), rel=0.02)

    @pytest.mark.parametrize(
        "build",
        [lambda x: Conv2D("x", x, 256, 3), lambda x: FullyConnected("x", tf.reshape(x, [-1, 144]), 2304)],
        ids=["Conv2D", "FullyConnected"],
    )
    def test_layers_use_it(self, build, sess):
        """Layers use the initializer by default, here with fan_in = 144."""
        out = build(tf.zeros([1, 3, 3, 16]))
        sess.run(tf.global_variables_initializer())
        weights, bias = sess.run([out.variables.W, out.variables.b])
        assert abs(weights.std() / np.sqrt(2 / 144) - 1) < 0.05
        assert (0 == bias).all()


class TestCustomGetters:
    """Every variable of every layer is created by tf.get_variable."""

    def build(self):
        x = tf.ones([2, 3, 3, 4])
        with TowerContext("", is_training=True):
            x = BatchNorm("bn", Conv2D("conv", x, 3, 2))
            return FullyConnected("fc", PReLU("prelu", x), 2)

    def test_each_variable_is_seen(self):
        """A custom getter around the model receives each variable."""
        seen = []

        def getter(getter, name, *args, **kwargs):
            seen.append(name)
            return getter(name, *args, **kwargs)

        with tf.variable_scope("", custom_getter=getter):
            self.build()
        assert [v.op.name for v in tf.global_variables()] == seen
        assert 9 == len(seen)

    def test_remap(self, sess):
        """If a custom getter returns a tensor, the layer uses it, and `.variables` has it. Frozen weights have no gradient."""
        with remap_variables(lambda v: v * 0 if v.op.name.endswith("/W") else v):
            out = self.build()
        sess.run(tf.global_variables_initializer())
        assert (0 == sess.run(out)).all()
        assert [False, True] == [is_variable(out.variables.W), is_variable(out.variables.b)]
        with tf.Graph().as_default():
            with freeze_variables():
                out = self.build()
            assert [None] * 7 == tf.gradients(out, tf.trainable_variables())
            assert 2 == len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))

    def test_an_average_that_is_a_tensor(self):
        """If a custom getter replaces an average by a tensor, BatchNorm raises a TypeError."""
        with pytest.raises(TypeError, match="BatchNorm 'bn': a custom getter returned .* instead of a moving average"), \
                remap_variables(lambda v: tf.identity(v)):  # fmt: skip
            self.build()


@pytest.mark.parametrize("use_resource", [True, False])
def test_is_variable(use_resource):
    """Resource and reference variables are variables, and tensors are not."""
    var = tf.get_variable("v", [2], use_resource=use_resource)
    assert is_variable(var)
    assert not is_variable(tf.identity(var))


class TestSameConstant:
    def test_one_per_shape(self, sess):
        """Variables of one shape and dtype share an initial value, and are still independent."""
        ones = same_constant(1.0)
        shapes = {"a": [3], "b": [3], "c": [4], "d": [3]}
        made = {
            name: tf.get_variable(name, shape, tf.float64 if name == "d" else tf.float32, ones, use_resource=True)
            for name, shape in shapes.items()
        }
        sess.run(tf.global_variables_initializer())
        sess.run(made["a"].assign_add([1.0, 2.0, 3.0]))
        values = sess.run(made)
        assert [2, 3, 4] == values["a"].tolist()
        for name in "bcd":
            assert [1] * shapes[name][0] == values[name].tolist()
        initial = {name: var.initializer.inputs[1] for name, var in made.items()}
        assert initial["a"] is initial["b"]
        assert 3 == len({tensor.name for tensor in initial.values()})

    def test_another_graph(self):
        """Each graph has its own constant."""
        ones, found = same_constant(1.0), []
        for _ in range(2):
            with tf.Graph().as_default() as graph:
                found.append(ones([3], tf.float32))
                assert found[-1].graph is graph


class TestSharedConstant:
    def test_one_per_tower(self):
        """Layers of a tower share a constant, other towers have another one."""
        made = []
        for index in range(2):
            with TrainTowerContext(f"tower{index}", index=index, total=2):
                made.append([shared_constant(value, tf.float32) for value in (0.1, 0.1, [], [])])
        for first, again, empty, empty_again in made:
            assert first is again
            assert empty is empty_again
        assert ["tower0", "tower1"] == [row[0].op.name.split("/")[0] for row in made]

    def test_inside_a_condition(self, sess):
        """A constant inside a condition is not shared, because it cannot be used outside."""
        with TowerContext("", is_training=True):
            value = tf.cond(tf.constant(True), lambda: shared_constant(2.0, tf.float32) * 3, lambda: tf.constant(0.0))
            assert 2 + 6 == sess.run(shared_constant(2.0, tf.float32) + value)

"""Tests of tfutils/tower/cross_tower.py: means over towers that are built one after the other, and their gradients."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from fakes.control_flow import control_flow

from tensorpack_lite.compat import private
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder
from tensorpack_lite.tfutils.tower.context import TowerContext, TrainTowerContext
from tensorpack_lite.tfutils.tower.cross_tower import mean_over_ranks, mean_over_towers, require_all_towers
from tensorpack_lite.tfutils.tower.tower_ranks import TowerRanks

VALUES = np.array([[1.0, 2.0], [5.0, -4.0], [0.5, 0.25]])


def in_towers(build, total=3, own=False):
    """Call `build(index)` in each of several towers on the CPU, and return the results."""
    indices = iter(range(total))
    use_vs = [own and index > 0 for index in range(total)]
    devices = ["/cpu:0"] * total
    return DataParallelBuilder.build_on_towers(range(total), lambda: build(next(indices)), devices, use_vs)


def value_of(index, dtype=tf.float32):
    return tf.constant(VALUES[index], dtype)


class TestForward:
    @pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
    @pytest.mark.parametrize("total", [2, 3])
    def test_mean(self, sess, total, dtype):
        """Every tower gets exactly the same mean, with the dtype of its value."""
        means = in_towers(lambda index: mean_over_towers(value_of(index, dtype), "layer"), total)
        assert [[2]] * total == [mean.shape.as_list() for mean in means]
        assert [dtype] * total == [mean.dtype for mean in means]
        got = sess.run(means)
        np.testing.assert_allclose(VALUES[:total].mean(0), got[0], rtol=1e-3 if dtype == tf.float16 else 1e-6)
        assert all(np.array_equal(got[0], other) for other in got)

    def test_one_after_the_other(self, sess):
        """A mean can depend on another mean."""

        def build(index):
            mean = mean_over_towers(value_of(index), "a")
            return mean_over_towers(mean * value_of(index), "b")

        expected = VALUES.mean(0) ** 2
        for got in sess.run(in_towers(build)):
            np.testing.assert_allclose(expected, got, rtol=1e-6)

    @pytest.mark.parametrize("own", [False, True])
    def test_several_builds_in_a_graph(self, sess, own):
        """Several builds in a graph are independent. Variable scopes of towers are not in the layer's name; shapes may be unknown."""

        def build(index):
            with tf.variable_scope("bn"):
                value = tf.placeholder_with_default(VALUES[index], [None])
                return mean_over_towers(value, f"Layer '{tf.get_variable_scope().name}'")

        for total in (2, 3, 2):
            means = in_towers(build, total, own)
            np.testing.assert_allclose(VALUES[:total].mean(0), sess.run(means[-1]), rtol=1e-6)

    def test_a_tower_that_is_run_alone(self, sess):
        """Running one tower runs only those parts of the others that it depends on."""
        probes = [tf.placeholder(tf.float32, [2], name=f"probe{index}") for index in range(2)]

        def build(index):
            mean = mean_over_towers(value_of(index), "layer")
            return mean, mean + probes[index]

        (mean, _), _ = in_towers(build, 2)
        np.testing.assert_allclose(VALUES[:2].mean(0), sess.run(mean))


class TestGradient:
    """Costs f(w * v_k, mean of w * v) of the towers k = 0, 1, ...; a single process would minimize their mean."""

    @staticmethod
    def cost(own, mean, k):
        return tf.reduce_sum((k + 1.0) * tf.sin(own) * mean**2)

    def expected(self, w, total):
        """Return the gradient of the mean cost, computed without towers."""
        owns = [w * value_of(k, tf.float64) for k in range(total)]
        mean = tf.add_n(owns) / total
        return tf.add_n([self.cost(own, mean, k) for k, own in enumerate(owns)]) / total

    @pytest.mark.parametrize("total", [2, 3])
    def test_average_over_towers(self, sess, total):
        """The average of the gradients that towers compute of their costs is the gradient of the mean cost."""
        w = tf.constant([0.3, -0.7], tf.float64)

        def build(k):
            own = w * value_of(k, tf.float64)
            return tf.gradients(self.cost(own, mean_over_towers(own, "layer"), k), w)[0]

        grads = in_towers(build, total)
        expected = tf.gradients(self.expected(w, total), w)[0]
        np.testing.assert_allclose(*sess.run([expected, tf.add_n(grads) / total]), rtol=1e-12)

    @pytest.mark.slow
    def test_of_the_mean_cost_after_all_towers(self, sess):
        """One call of tf.gradients on the costs of all towers, as in trainers of GANs, gives the same gradient."""
        w = tf.constant([0.3, -0.7], tf.float64)

        def build(k):
            own = w * value_of(k, tf.float64)
            return self.cost(own, mean_over_towers(own, "layer"), k)

        cost = tf.add_n(in_towers(build)) / 3
        expected = self.expected(w, 3)
        np.testing.assert_allclose(*sess.run([expected, cost]), rtol=1e-12)
        for _ in range(2):  # one iteration for each player
            got = tf.gradients(cost, w)[0]
            np.testing.assert_allclose(*sess.run([tf.gradients(expected, w)[0], got]), rtol=1e-12)

    @pytest.mark.slow
    def test_twice_in_a_tower(self, sess):
        """If each tower computes gradients twice, the first calls are combined, and the second calls are combined."""
        w = tf.constant([0.3, -0.7], tf.float64)

        def build(k):
            own = w * value_of(k, tf.float64)
            cost = self.cost(own, mean_over_towers(own, "layer"), k)
            return tf.gradients(cost, w)[0], tf.gradients(-3 * cost, w)[0]

        grads = in_towers(build)
        expected = tf.gradients(self.expected(w, 3), w)[0]
        for nth, factor in enumerate((1, -3)):
            got = tf.add_n([pair[nth] for pair in grads]) / 3
            np.testing.assert_allclose(*sess.run([factor * expected, got]), rtol=1e-12)

    @pytest.mark.slow
    def test_second_derivative(self, sess):
        """Second derivatives are correct, as for the gradient penalty of WGAN-GP."""
        w = tf.constant([0.3, -0.7], tf.float64)

        def penalty(gradients):
            return tf.add_n([tf.reduce_sum(gradient**2) for gradient in gradients]) / len(gradients)

        def build(k):
            value = value_of(k, tf.float64)
            own = w * value
            cost = self.cost(own, mean_over_towers(own, "layer"), k)
            return tf.gradients(penalty(tf.gradients(cost, value)), w)[0]

        grads = in_towers(build)
        values = [value_of(k, tf.float64) for k in range(3)]
        owns = [w * value for value in values]
        total = tf.add_n([self.cost(own, tf.add_n(owns) / 3, k) for k, own in enumerate(owns)])
        expected = tf.gradients(penalty(tf.gradients(total, values)), w)[0]
        np.testing.assert_allclose(*sess.run([expected, tf.add_n(grads) / 3]), rtol=1e-11)

    def test_gradients_stay_in_their_tower(self):
        """tf.gradients in the last tower does not follow the mean into other towers."""
        inputs = [value_of(k) for k in range(2)]
        means = in_towers(lambda k: mean_over_towers(inputs[k], "layer"), 2)
        assert [None] == tf.gradients(means[1], inputs[0])
        assert [None] != tf.gradients(means[1], inputs[1])


def gradients_of_mean(index):
    """Build fewer gradients in the second tower."""
    value = value_of(index)
    mean = mean_over_towers(value, "layer")
    return [tf.gradients(mean, value) for _ in range(2 - index)]


class TestTowersThatDiffer:
    def test_without_a_builder(self, sess):
        """Without a builder, running an incomplete mean raises an error that names the placeholder."""
        with TrainTowerContext("tower0", index=0, total=2):
            mean = mean_over_towers(value_of(0), "layer")
        with pytest.raises(tf.errors.InvalidArgumentError, match="tower0/mean_over_towers/waits_for_all_2_towers"):
            sess.run(mean)
        with pytest.raises(RuntimeError, match="layer: missing in tower 1 of 2"):
            require_all_towers(2)

    @pytest.mark.parametrize(
        ("message", "build"),
        [
            (
                "layer1: tower 1 builds it where another tower has built layer0",
                lambda index: mean_over_towers(value_of(index), f"layer{index}"),
            ),
            (
                "^layer: missing in tower 1 of 2. Towers that share",
                lambda index: [mean_over_towers(value_of(index), "layer") for _ in range(2 - index)],
            ),
            (
                "^layer: missing in tower 0 of 2",
                lambda index: [mean_over_towers(value_of(index), "layer") for _ in range(1 + index)],
            ),
            ("^A gradient of layer: missing in tower 1 of 2", gradients_of_mean),
        ],
        ids=["another name", "fewer layers", "more layers", "fewer gradients"],
    )
    def test_they_raise(self, message, build):
        """A tower with other layers or gradients raises an error, while it is built or when all towers are."""
        with pytest.raises(RuntimeError, match=message):
            in_towers(build, 2)


class TestInvalidPlaces:
    def test_alone(self):
        """With one tower or one rank, the value itself is returned."""
        value = value_of(0)
        assert [value] == in_towers(lambda index: mean_over_towers(value, "layer"), 1)
        with TrainTowerContext("", ranks=TowerRanks(1, None)):
            assert value is mean_over_ranks(value, "layer")

    @pytest.mark.parametrize("is_training", [False, None, True])
    def test_no_training_tower(self, is_training):
        """Outside of a training tower, or without ranks, a RuntimeError is raised."""
        value = value_of(0)
        with pytest.raises(
            RuntimeError, match="layer: a mean over .* only in training towers|Use HorovodTrainer or Coll"
        ):
            if is_training is None:
                mean_over_towers(value, "layer")
            with TowerContext("", is_training=is_training):
                mean_over_ranks(value, "layer")

    @pytest.mark.parametrize("is_v2", [False, True])
    def test_a_condition(self, is_v2):
        """Inside a condition, a RuntimeError is raised."""

        def build(index):
            value, flag = value_of(index), tf.placeholder(tf.bool, [])
            return tf.cond(flag, lambda: mean_over_towers(value, "layer"), lambda: value)

        match = "layer: a mean over .* cannot be inside a condition"
        with control_flow(is_v2), pytest.raises(RuntimeError, match=match):
            in_towers(build, 2)


class TestRanks:
    """Tests with a function that returns half of this rank's value, as if the other rank's value were 0."""

    RANKS = TowerRanks(2, lambda tensor: tf.stop_gradient(tensor / 2))

    @pytest.mark.slow
    def test_mean_and_gradients(self, sess):
        """The gradient is the mean of the gradients, and so is the second derivative."""
        with TrainTowerContext("", ranks=self.RANKS):
            x = value_of(0)
            mean = mean_over_ranks(x**3, "layer")
            first = tf.gradients(mean, x)[0]
            second = tf.gradients(first, x)[0]
        got = sess.run([mean, first, second])
        np.testing.assert_allclose([VALUES[0] ** 3 / 2, 3 * VALUES[0] ** 2 / 2, 6 * VALUES[0] / 2], got, rtol=1e-6)


def test_one_mean_for_all(fresh_graph):
    """The mean is computed once for all towers."""
    in_towers(lambda index: mean_over_towers(value_of(index), "layer"))
    assert 1 == [op.type for op in fresh_graph.get_operations()].count("AddN")
    assert private.at_top_level(fresh_graph)


@pytest.mark.slow
def test_the_graph_can_be_collected():
    """The gradient functions do not keep the graph alive."""
    with tf.Graph().as_default() as graph:
        values = [value_of(index) for index in range(2)]
        in_towers(lambda index: tf.gradients(mean_over_towers(values[index], "layer"), values[index]), 2)
        alive = weakref.ref(graph)
    graph = values = None
    gc.collect()
    assert alive() is None

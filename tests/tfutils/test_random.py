"""Tests of tfutils/random.py: random operations that repeat exactly when a training is resumed."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.control_flow import control_flow

from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.data_parallel import DataParallelBuilder
from tensorpack_lite.models.regularize import Dropout
from tensorpack_lite.tfutils import random
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.early_read import let_updates_wait
from tensorpack_lite.tfutils.tower.context import TowerContext

SHAPE = [4, 5]
DRAWS = {
    "uniform": lambda **kwargs: random.uniform(SHAPE, **kwargs),
    "integers": lambda **kwargs: random.uniform(SHAPE, 0, 1 << 30, tf.int32, **kwargs),
    "normal": lambda **kwargs: random.normal(SHAPE, **kwargs),
    "truncated_normal": lambda **kwargs: random.truncated_normal(SHAPE, **kwargs),
    "dropout": lambda **kwargs: random.dropout(tf.ones([10, 10]), rate=0.5, **kwargs),
}


def values(build, steps, entropy=7, rank=0, seed=None):
    """Build tensors in a new graph and tower, and return their values at each of the given steps, in one session."""
    with tf.Graph().as_default():
        if seed is not None:
            tf.set_random_seed(seed)
        random.make_exact(entropy, rank)
        with TowerContext("", is_training=True):
            fetches = build()
        step = get_global_step_var()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            results = []
            for number in steps:
                step.load(number, sess)
                results.append(sess.run(fetches))
            return results


def distinct(arrays) -> int:
    """Return how many different arrays there are."""
    return len({np.asarray(array).tobytes() for array in arrays})


def operations():
    """Return the types and attributes of all operations of the default graph."""
    nodes = tf.get_default_graph().as_graph_def().node
    return [node.SerializeToString(deterministic=True) for node in nodes]


class TestOff:
    PAIRS = [
        (lambda: random.uniform(SHAPE, -1, 1, seed=3), lambda: tf.random.uniform(SHAPE, -1, 1, seed=3)),
        (lambda: random.uniform(SHAPE, name="x"), lambda: tf.random_uniform(SHAPE, name="x")),
        (lambda: random.normal(SHAPE, 1.0, 2.0), lambda: tf.random.normal(SHAPE, 1.0, 2.0)),
        (lambda: random.truncated_normal(SHAPE), lambda: tf.random.truncated_normal(SHAPE)),
        (
            lambda: random.dropout(tf.ones(SHAPE), rate=0.3, noise_shape=[4, 1], name="d"),
            lambda: tf.nn.dropout(tf.ones(SHAPE), rate=0.3, noise_shape=[4, 1], name="d"),
        ),
        (lambda: random.dropout(tf.ones(SHAPE), 0.75), lambda: tf.nn.dropout(tf.ones(SHAPE), rate=0.25)),
        (
            lambda: Dropout(tf.ones(SHAPE), rate=0.3, seed=2, name="drop"),
            lambda: tf.nn.dropout(tf.ones(SHAPE), rate=0.3, seed=2, name="drop"),
        ),
    ]

    @pytest.mark.parametrize(("build", "build_plain"), PAIRS)
    def test_same_operations(self, build, build_plain):
        """Without make_exact there is no entropy, and each function and layer creates the operations of TensorFlow's."""
        assert random.exact_entropy() is None
        graphs = []
        for function in (build, build_plain):
            with tf.Graph().as_default():
                tf.set_random_seed(5)
                with TowerContext("", is_training=True):
                    function()
                graphs.append(operations())
        assert graphs[0] == graphs[1]


class TestExact:
    @pytest.mark.parametrize("name", list(DRAWS))
    def test_resumed(self, name):
        """A session that starts at step 3 draws the same bytes as one that ran from step 0; steps differ."""
        through = values(DRAWS[name], range(6))
        resumed = values(DRAWS[name], range(3, 6))
        assert distinct(through) == 6
        assert [array.tobytes() for array in through[3:]] == [array.tobytes() for array in resumed]

    def test_streams_differ(self):
        """Operations, ranks, seeds of operations and entropies have different streams, also within one name scope."""

        def build():
            with tf.name_scope("a") as scope:
                pass
            drawn = [random.uniform(SHAPE), random.uniform(SHAPE), random.uniform(SHAPE, seed=4)]
            return drawn + [random.dropout(tf.ones([99]), rate=0.5, name=scope) for _ in range(2)]

        (layers,) = values(build, [0])
        others = values(DRAWS["uniform"], [0], entropy=8) + values(DRAWS["uniform"], [0], rank=1)
        assert distinct(layers) == 5
        assert distinct([layers[0], *others]) == 3

    def test_towers(self):
        """Towers draw different numbers, the first one those of a single tower; an operation outside draws others."""
        (single,) = values(DRAWS["dropout"], [3])
        with tf.Graph().as_default():
            random.make_exact(7)
            towers = DataParallelBuilder.build_on_towers(range(3), DRAWS["dropout"], ["/cpu:0"] * 3)
            outside = DRAWS["dropout"]()
            with tf.Session() as sess:
                get_global_step_var().load(3, sess)
                masks = sess.run([*towers, outside])
        assert distinct(masks) == 4
        assert np.array_equal(single, masks[0])

    def test_before_the_increment(self):
        """A step draws with the number of steps before it, even if it increments global_step."""
        with tf.Graph().as_default():
            random.make_exact(7)
            with TowerContext("", is_training=True):
                drawn = random.uniform(SHAPE)
            step = get_global_step_var()
            increment = step.assign_add(1, read_value=False)
            let_updates_wait()
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                got = [sess.run([drawn, increment])[0].tobytes() for _ in range(20)]
        assert got == [array.tobytes() for array in values(DRAWS["uniform"], range(20))]

    def test_the_numbers_never_change(self):
        """The streams are the same on every version of TensorFlow and of the library, since checkpoints outlive them."""
        numbers = {
            "u": (random.uniform, [0.001756429672241211, 0.5159602165222168, 0.878686785697937]),
            "n": (random.normal, [2.2155802249908447, -0.3405335247516632, -0.3256732225418091]),
            "t": (random.truncated_normal, [-0.5164944529533386, -0.5162153244018555, 1.3642629384994507]),
        }
        for name, (draw, expected) in numbers.items():
            (got,) = values(lambda: draw([3], name=name), [1000])  # noqa: B023 (called at once)
            np.testing.assert_allclose(expected, got, rtol=1e-6)
        (got,) = values(lambda: random.dropout(tf.ones([8]), rate=0.5, name="d"), [1000])
        assert got.tolist() == [2, 0, 2, 2, 0, 0, 0, 0]

    def test_inference(self):
        """In inference, the layer Dropout returns x itself, and other functions draw anew in each run."""
        random.make_exact(7)
        x = tf.ones(SHAPE)
        with TowerContext("", is_training=False):
            assert Dropout(x, rate=0.5) is x
            drawn = random.uniform(SHAPE)
        with tf.Session() as sess:
            assert distinct(sess.run(drawn) for _ in range(3)) == 3

    def test_a_layer_in_a_training_step(self):
        """Gradients pass through exact dropout: they are those of the values that were kept."""

        def build():
            x = tf.get_variable("x", [50], initializer=tf.ones_initializer(), use_resource=True)
            out = Dropout("drop", x, rate=0.2)
            return out, tf.gradients(out * out, [x])[0]

        for out, gradient in values(build, range(3)):
            np.testing.assert_allclose(np.where(out > 0, 2 / 0.8**2, 0), gradient, rtol=1e-6)


class TestEntropy:
    def test_fresh(self):
        """Without a seed, each graph gets a fresh entropy, which is constant and gives the same numbers when it is passed again."""
        found = []
        for _ in range(2):
            with tf.Graph().as_default():
                tf.set_random_seed(None)
                random.make_exact()
                found.append(random.exact_entropy())
                assert found[-1] == random.exact_entropy()
        assert found[0] != found[1]
        assert all(0 <= entropy < 1 << 63 for entropy in found)

    @pytest.mark.slow
    def test_graph_seed(self):
        """The seed of the graph is its entropy, also if it is set after make_exact; a saved entropy wins over a seed."""
        first, same = (values(DRAWS["uniform"], [0], entropy=None, seed=9) for _ in range(2))
        other = values(DRAWS["uniform"], [0], entropy=None, seed=10)
        resumed = values(DRAWS["uniform"], [0], entropy=9, seed=12345)
        assert distinct([*first, *same, *resumed]) == 1
        assert distinct([*first, *other]) == 2
        random.make_exact()
        tf.set_random_seed(11)
        assert random.exact_entropy() == 11

    def test_a_call_after_the_first_draw(self):
        """A call after the first draw raises an error with advice."""
        random.make_exact(7)
        random.make_exact(8)
        random.uniform([1])
        with pytest.raises(RuntimeError, match="already has exact random operations. Call make_exact once, before"):
            random.make_exact(7)


class TestStatistics:
    SIZE = 200_000

    def draw(self, build):
        return values(build, [5])[0]

    def test_uniform(self):
        """Moments and range of uniform numbers and integers."""
        got = self.draw(lambda: random.uniform([self.SIZE], -1, 3))
        assert -1 <= got.min() < -0.99
        assert 2.99 < got.max() < 3
        np.testing.assert_allclose([1, 4 / np.sqrt(12)], [got.mean(), got.std()], atol=0.01)
        integers = self.draw(lambda: random.uniform([self.SIZE], 2, 6, tf.int64))
        assert integers.dtype == np.int64
        np.testing.assert_allclose([0.25] * 4, np.bincount(integers)[2:] / self.SIZE, atol=0.01)

    @pytest.mark.parametrize(
        ("draw", "dtype", "deviation"),
        [
            (random.normal, tf.float32, 2),
            (random.normal, tf.float16, 2),
            (random.truncated_normal, tf.float32, 2 * 0.8796),
        ],
    )
    def test_normal(self, draw, dtype, deviation):
        """Moments of normal numbers in single and half precision. A truncated distribution ends at two deviations."""
        got = self.draw(lambda: draw([self.SIZE], 1.0, 2.0, dtype))
        assert got.dtype == dtype.as_numpy_dtype
        assert (abs(got - 1).max() <= 4) == (draw is random.truncated_normal)
        got = got.astype("float64")
        np.testing.assert_allclose([1, deviation], [got.mean(), got.std()], atol=0.03)

    @pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
    def test_dropout(self, rate):
        """The fraction of zeros is the rate, and the mean stays the same."""
        got = self.draw(lambda: random.dropout(tf.ones([self.SIZE]), rate=rate))
        np.testing.assert_allclose(rate, (got == 0).mean(), atol=0.01)
        np.testing.assert_allclose(1, got.mean(), atol=0.03)
        np.testing.assert_allclose(1 / (1 - rate), got.max(), rtol=1e-6)

    def test_consecutive_masks(self):
        """Masks of consecutive steps and layers are uncorrelated."""
        masks = values(lambda: [random.uniform([self.SIZE]) for _ in range(2)], range(3))
        correlation = np.corrcoef([layer for step in masks for layer in step])
        np.testing.assert_allclose(np.eye(6), correlation, atol=0.015)


class TestDropout:
    def test_noise_shape(self):
        """Values along an axis of size 1 are dropped together; None is the size of x, which may be unknown."""

        def build():
            x = tf.placeholder_with_default(np.ones([50, 4], "float32"), [None, 4])
            return random.dropout(x, rate=0.5, noise_shape=[None, 1])

        (mask,) = values(build, [0])
        assert mask.shape == (50, 4)
        assert np.array_equal(mask, mask[:, :1].repeat(4, 1))
        assert distinct(mask) == 2

    def test_rates(self):
        """A rate of 0 returns x; a tensor, of any dtype, works."""
        random.make_exact(7)
        x = tf.ones([1000], tf.float16)
        assert random.dropout(x, rate=0) is x
        with tf.Session() as sess:
            sess.run([get_global_step_var().initializer])
            got = sess.run(random.dropout(x, rate=tf.constant(0.25)))
        assert got.dtype == np.float16
        np.testing.assert_allclose(0.25, (got == 0).mean(), atol=0.05)

    def test_errors(self):
        """A missing, doubled or impossible rate is a ValueError."""
        random.make_exact(7)
        for arguments in ({}, {"rate": 0.5, "keep_prob": 0.5}):
            with pytest.raises(ValueError, match="dropout: expected either rate or keep_prob, got rate="):
                random.dropout(tf.ones(SHAPE), **arguments)
        with pytest.raises(ValueError, match="dropout: rate is out of range"):
            random.dropout(tf.ones(SHAPE), rate=1.0)


def in_loop(counter):
    """Draw in three iterations of a loop."""

    def body(i, rows):
        return i + 1, rows.write(i, random.uniform(SHAPE, name="in_loop", counter=i if counter else None))

    rows = tf.TensorArray(tf.float32, 3, element_shape=SHAPE)
    return tf.while_loop(lambda i, rows: i < 3, body, [tf.constant(0), rows])[1].stack()


class TestControlFlow:
    @pytest.fixture(params=[False, True], ids=["v1", "v2"])
    def both_kinds(self, request):
        """Loops and conditions as operations of the graph, or as functions."""
        with control_flow(is_v2=request.param):
            yield

    def test_a_loop_with_counter(self, both_kinds):
        """With a counter, iterations differ from each other, from other steps and from other loops, and are exact."""
        through = values(lambda: [in_loop(True), in_loop(True)], range(4))
        resumed = values(lambda: [in_loop(True), in_loop(True)], [3])
        assert distinct(row for step in through for loop in step for row in loop) == 4 * 2 * 3
        assert np.array_equal(through[3], resumed[0])

    def test_a_layer_in_a_loop(self, both_kinds):
        """The layer Dropout takes a counter, too."""

        def build():
            return tf.map_fn(lambda i: Dropout(tf.ones(SHAPE), rate=0.5, counter=i), tf.range(3), dtype=tf.float32)

        through, resumed = values(build, range(3)), values(build, [2])
        assert distinct(mask for step in through for mask in step) == 9
        assert np.array_equal(through[2], resumed[0])

    def test_a_loop_without_counter(self, both_kinds):
        """Without a counter, a draw in a loop stays TensorFlow's, and is listed as not exact."""
        with tf.Graph().as_default():
            random.make_exact(7)
            rows = in_loop(False)
            (name,) = random.find_stateful_random_ops(rows)
            with tf.Session() as sess:
                assert distinct(sess.run(rows)) == 3
        assert "in_loop" in name

    def test_a_condition(self, both_kinds):
        """With counter 0, a draw in a condition is exact; without a counter, it is listed."""

        def build(counter):
            return tf.cond(
                get_global_step_var() >= 0,
                lambda: random.uniform(SHAPE, counter=counter),
                lambda: tf.zeros(SHAPE),
            )

        through, resumed = values(lambda: build(0), range(3)), values(lambda: build(0), [2])
        assert distinct(through) == 3
        assert np.array_equal(through[2], resumed[0])
        random.make_exact(7)
        assert [] == random.find_stateful_random_ops(build(0))
        assert len(random.find_stateful_random_ops(build(None))) == 1

    @pytest.mark.slow
    def test_a_data_set(self):
        """In a function of tf.data, a draw stays TensorFlow's, even with a counter."""
        with tf.Graph().as_default():
            tf.set_random_seed(None)  # of a seed outside of the function's own graph, TensorFlow would warn
            random.make_exact(7)
            dataset = tf.data.Dataset.range(20).map(lambda i: random.uniform(SHAPE, counter=i))
            row = tf.data.make_one_shot_iterator(dataset).get_next()
            with tf.Session() as sess:
                assert distinct(sess.run(row) for _ in range(20)) == 20

    def test_xla(self):
        """Code that XLA compiles draws TensorFlow's numbers, even with a counter, and is listed."""
        with tf.Graph().as_default():
            random.make_exact(7)
            (row,) = tf.xla.experimental.compile(lambda: random.uniform(SHAPE, counter=0))
            assert len(random.find_stateful_random_ops(row)) == 1


class TestFind:
    def test_what_a_step_runs(self):
        """Stateful operations that the fetches depend on are listed; exact ones, initializers and others are not."""
        random.make_exact(7)
        with TowerContext("", is_training=True):
            w = tf.get_variable("w", SHAPE, initializer=tf.random_normal_initializer(), use_resource=True)
            x = Dropout("drop", tf.ones(SHAPE), rate=0.5) * w
            with tf.name_scope("augment"):
                noise = tf.random_uniform(SHAPE)
            cost = tf.reduce_sum(x + noise + tf.nn.dropout(x, rate=0.5, name="theirs"))
        tf.random_uniform(SHAPE, name="unused")
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(cost)
        found = random.find_stateful_random_ops({"op": [train_op], "cost": cost})
        assert ["augment/random_uniform/RandomUniform", "theirs/random_uniform/RandomUniform"] == found
        assert [] == random.find_stateful_random_ops(x)
        assert [] == random.find_stateful_random_ops([])

    def test_a_shuffling_queue(self):
        """A queue that shuffles is random too."""
        queue = tf.RandomShuffleQueue(10, 2, [tf.float32], name="queue")
        assert ["queue"] == random.find_stateful_random_ops(queue.dequeue())

    @pytest.mark.slow
    @pytest.mark.skipif(TF_VERSION < (2, 0), reason="tf.function in a graph is TensorFlow 2's")
    def test_functions(self):
        """Operations inside nested functions have the names of the calls as prefix."""

        @tensorflow.function
        def inner():
            return tf.random_uniform([2], name="noise")

        outer = tensorflow.function(lambda: inner() + 1)
        (name,) = random.find_stateful_random_ops(outer())
        assert name.count("PartitionedCall/") == 2
        assert name.endswith("noise/RandomUniform")


def test_determinism_switches(monkeypatch):
    """The switches that are set are listed."""
    monkeypatch.delenv("TF_DETERMINISTIC_OPS", raising=False)
    assert [] == random.determinism_switches()
    monkeypatch.setenv("TF_DETERMINISTIC_OPS", "1")
    assert ["TF_DETERMINISTIC_OPS"] == random.determinism_switches()


@pytest.mark.skipif(TF_VERSION < (2, 9), reason="enable_op_determinism is TensorFlow 2.9's")
def test_op_determinism(monkeypatch):
    """`enable_op_determinism` is listed."""
    from tensorflow.python.framework.config import disable_op_determinism

    monkeypatch.delenv("TF_DETERMINISTIC_OPS", raising=False)
    tensorflow.config.experimental.enable_op_determinism()
    try:
        assert ["enable_op_determinism"] == random.determinism_switches()
    finally:
        disable_op_determinism()

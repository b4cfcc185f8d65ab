"""tf1/contrib: the modules that need neither tf_slim nor Keras. On TensorFlow 1.15, the tests check its own tf.contrib."""

from __future__ import annotations

import numpy as np
import pytest
from tf1.command import run_quickly

from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.compat import tfv1 as tf

if TF_VERSION < (2, 0):
    contrib = tensorflow.contrib
else:
    from tensorpack_lite.tf1 import contrib

OURS = pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 has its own tf.contrib")


class TestHParams:
    def make(self):
        """Hyper-parameters of each type."""
        return contrib.training.HParams(lr=0.1, units=[8, 16], name="a", fast=True, depth=3)

    def test_values(self):
        """Values are attributes, and `values` returns all of them."""
        params = self.make()
        assert 0.1 == params.lr
        assert {"lr": 0.1, "units": [8, 16], "name": "a", "fast": True, "depth": 3} == params.values()
        assert "lr" in params
        assert (3, None, 5) == (params.get("depth"), params.get("width"), params.get("width", 5))

    def test_parse(self):
        """A string overrides values, and converts them to the old types."""
        params = self.make().parse("lr=2,units=[1,2,3],name=b,fast=false,depth=4")
        assert {"lr": 2.0, "units": [1, 2, 3], "name": "b", "fast": False, "depth": 4} == params.values()
        assert isinstance(params.lr, float)

    @pytest.mark.parametrize("text", ["width=3", "depth=x", "depth=1,depth=2", "fast=maybe", "=3", "units[0]=[1]"])
    def test_malformed(self, text):
        """Unknown names, wrong types and repeated names are ValueErrors."""
        with pytest.raises(ValueError):  # noqa: PT011 (the message of TensorFlow 1.15 differs)
            self.make().parse(text)

    def test_parse_values(self):
        """`parse_values` returns elements of lists by index."""
        found = contrib.training.parse_values("a=5,l=[1,2],m[1]=3", {"a": int, "l": int, "m": int})
        assert {"a": 5, "l": [1, 2], "m": {1: 3}} == found

    def test_json(self):
        """JSON text overrides values, and is written."""
        params = self.make().parse_json('{"lr": 1.5, "units": [4]}')
        assert '{"depth": 3, "fast": true, "lr": 1.5, "name": "a", "units": [4]}' == params.to_json(sort_keys=True)

    def test_types(self):
        """A value of another type, or a list for a scalar, is a ValueError."""
        params = self.make()
        for name, value in [("depth", 1.5), ("fast", 2), ("lr", [1.0]), ("units", 3), ("name", 3)]:
            with pytest.raises(ValueError):  # noqa: PT011 (the message of TensorFlow 1.15 differs)
                params.set_hparam(name, value)
        params.del_hparam("depth")
        assert "depth" not in params
        with pytest.raises(ValueError, match="reserved"):
            params.add_hparam("parse", 1)

    @OURS
    def test_one_element(self):
        """An index assigns one element of a list. TensorFlow 1.15 refuses it in `HParams.parse`."""
        assert [8, 5] == self.make().parse("units[1]=5").units


class TestPlacement:
    def test_byte_size(self):
        """The load of a variable is its size in bytes, for both kinds of variables."""
        sizes = [
            contrib.training.byte_size_load_fn(tf.get_variable(f"v{i}", [3, 5], dtype, use_resource=False).op)
            for i, dtype in enumerate([tf.float32, tf.float64])
        ]
        assert [60, 120] == sizes

    @OURS
    def test_byte_size_of_a_resource_variable(self):
        """The size is that of the value, not of the handle."""
        variable = tf.get_variable("v", [3, 5], use_resource=True)
        assert 60 == contrib.training.byte_size_load_fn(variable.op)

    def test_greedy(self):
        """Each operation goes to the least loaded task."""
        place = contrib.training.GreedyLoadBalancingStrategy(2, lambda load: load)
        assert [0, 1, 1, 1, 0] == [place(load) for load in [5, 1, 3, 2, 1]]

    def test_random(self):
        """The placement depends on the name and the seed only, as on TensorFlow 1.15."""
        ops = [tf.constant(0, name=f"c{i}").op for i in range(6)]
        assert [0, 1, 1, 0, 1, 0] == [contrib.training.RandomStrategy(3)(op) for op in ops]


def test_memory_stats(sess):
    """The statistics are int64 scalars that can be evaluated without a GPU."""
    for name in ("BytesInUse", "MaxBytesInUse", "BytesLimit"):
        if TF_VERSION < (2, 0) and name != "BytesLimit":
            continue  # no kernel on a CPU
        value = getattr(contrib.memory_stats, name)()
        assert (tf.int64, []) == (value.dtype, value.shape.as_list())
        assert (-1 if name == "BytesLimit" else 0) == sess.run(value)


def test_model_analyzer(fresh_graph, capfd):
    """`print_model_analysis` counts parameters and floating-point operations."""
    analyzer = contrib.tfprof.model_analyzer
    product = tf.matmul(tf.zeros([2, 3]), tf.get_variable("w", [3, 5], use_resource=False))
    assert [2, 5] == product.shape.as_list()
    parameters = analyzer.print_model_analysis(fresh_graph, tfprof_options=analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS)
    operations = analyzer.print_model_analysis(fresh_graph, tfprof_options=analyzer.FLOAT_OPS_OPTIONS)
    printed = capfd.readouterr().out
    assert 15 == parameters.total_parameters
    assert "w (3x5, 15/15 params)" in printed
    assert 2 * 2 * 3 * 5 <= operations.total_float_ops  # the initializer counts as well
    assert "MatMul (60/60 flops)" in printed


def test_util(fresh_graph):
    """Constants have values, and arrays pass through protocol buffers."""
    proto = contrib.util.make_tensor_proto(np.arange(3))
    assert [0, 1, 2] == contrib.util.make_ndarray(proto).tolist()
    assert [1, 2] == contrib.util.constant_value(tf.constant([1, 2])).tolist()
    assert contrib.util.constant_value(tf.placeholder(tf.float32)) is None
    assert {"Const", "Placeholder"} <= set(contrib.util.ops_used_by_graph_def(fresh_graph.as_graph_def()))


def test_data(sess):
    """Transformations of `tf.contrib.data` apply to data sets."""
    dataset = tf.data.Dataset.range(5).apply(contrib.data.batch_and_drop_remainder(2))
    dataset = dataset.apply(contrib.data.assert_element_shape(tf.TensorShape([2])))
    element = tf.data.make_one_shot_iterator(dataset).get_next()
    assert [[0, 1], [2, 3]] == [sess.run(element).tolist() for _ in range(2)]
    with pytest.raises(tf.errors.OutOfRangeError):
        sess.run(element)


@OURS
class TestFramework:
    """`tf.contrib.framework` of this package; the names below are found without tf_slim."""

    def test_smart_cond(self, sess):
        """A known predicate chooses a branch, and an unknown one builds `tf.cond`."""
        framework = contrib.framework
        assert "a" == framework.smart_cond(True, lambda: "a", lambda: "b")
        assert "b" == framework.smart_cond(tf.constant(False), lambda: "a", lambda: "b")
        fed = tf.placeholder(tf.bool, [])
        chosen = framework.smart_cond(fed, lambda: tf.constant(1), lambda: tf.constant(2))
        assert 2 == sess.run(chosen, {fed: False})

    def test_shapes(self, sess):
        """`with_shape` sets the static shape, and checks it at run time."""
        x = tf.placeholder(tf.float32)
        shaped = contrib.framework.with_shape([2], x)
        assert [2] == shaped.shape.as_list()
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(shaped, {x: [1.0, 2.0, 3.0]})

    def test_others(self, sess):
        """Sums, placeholders, integer scalars and nested structures."""
        framework = contrib.framework
        x = tf.placeholder(tf.float32, [2], name="x")
        assert 6.0 == sess.run(framework.reduce_sum_n([x, x]), {x: [1.0, 2.0]})
        assert [x.name] == [tensor.name for tensor in framework.get_placeholders(tf.get_default_graph())]
        assert 3 == sess.run(framework.assert_scalar_int(3))
        with pytest.raises(ValueError, match="expected an integer scalar"):
            framework.assert_scalar_int([1])
        assert framework.nest.is_sequence([1])
        assert [1, 2, 3] == framework.nest.flatten([1, (2, [3])])


@pytest.mark.skipif(
    not (2, 0) <= TF_VERSION < (2, 16), reason="needs Keras 2; test_old_models.py has processes with it"
)
def test_no_influence_of_padding(sess):
    """NaN behind the lengths does not reach the memory of an attention, or outputs and gradients of a fused cell."""
    sequences = np.array([[[1, 2], [3, 4], [5, 6]], [[1, 2], [np.nan] * 2, [np.nan] * 2]], "float32")
    attention = contrib.seq2seq.LuongAttention(3, tf.constant(sequences), [3, 1])
    cell = contrib.rnn.LSTMBlockFusedCell(3)
    outputs, state = cell(tf.constant(sequences.transpose(1, 0, 2)), dtype=tf.float32, sequence_length=[3, 1])
    results = [attention.values, attention.keys, outputs, *state]
    gradients = tf.gradients(results, tf.trainable_variables())
    sess.run(tf.global_variables_initializer())
    assert all(np.isfinite(value).all() for value in sess.run([*results, *gradients]))


class TestBuckets:
    def test_batches(self):
        """A batch has elements of one bucket; elements whose `keep_input` is false are dropped."""
        with tf.Graph().as_default(), tf.Session() as session:
            number = tf.train.range_input_producer(12, num_epochs=1, shuffle=False).dequeue()
            index, batch = contrib.training.bucket([number], number % 3, 2, 3, shapes=[[]], keep_input=number < 9)
            session.run(tf.local_variables_initializer())
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            found = {int(i): values.tolist() for i, values in (session.run([index, batch]) for _ in range(3))}
            coordinator.request_stop()
            coordinator.join(threads, ignore_live_threads=True)
        assert batch.shape.as_list() == [2]
        assert found == {0: [0, 3], 1: [1, 4], 2: [2, 5]}

    def test_malformed(self):
        """Boundaries that are not in increasing order, and too few batch sizes, are ValueErrors."""
        with tf.Graph().as_default():
            for size, boundaries in ((2, [5, 3]), ([2, 2], [3, 5])):
                with pytest.raises(ValueError, match="boundaries|buckets|length"):
                    contrib.training.bucket_by_sequence_length(3, [tf.zeros([3])], size, boundaries)


@OURS
@pytest.mark.slow
def test_tensorflow_probability(write, tmp_path):
    """Distributions that TensorFlow does not have come from tensorflow_probability, if it is installed."""
    place = "site-packages/tensorflow_probability"
    write(f"{place}/__init__.py", "")
    write(f"{place}/python/__init__.py", "")
    write(f"{place}/python/bijectors.py", "Exp = 2\n")
    write(f"{place}/python/distributions.py", "Logistic = 1\n")
    write(
        "train.py",
        """
        import sys
        sys.path.insert(0, "site-packages")
        import tensorflow as tf
        from tensorflow.contrib.distributions import Logistic, bijectors
        print(Logistic, bijectors.Exp, tf.contrib.distributions.Normal.__name__)
        """,
    )
    result = run_quickly("train.py", cwd=tmp_path)
    assert result.stdout == "1 2 Normal\n", result.stderr

"""State that no variable holds: which operations are found, and that the contents of tables are restored."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.exact.lost import find_lost_state
from tensorpack_lite.tfutils.exact.state import begin_exact
from tensorpack_lite.tfutils.exact.tables import SavedTables

try:  # where TensorFlow 1.15 has them
    from tensorflow.python.ops.lookup_ops import DenseHashTable, MutableHashTable
except ImportError:
    from tensorflow.python.ops.lookup_ops import MutableHashTable

    DenseHashTable = None


def queue():
    return tf.FIFOQueue(3, tf.float32, [[]]).dequeue()


def accumulator():
    return tf.ConditionalAccumulator(tf.float32, []).take_grad(1)


def staging_area():
    area = tensorflow.raw_ops.Unstage(dtypes=[tf.float32], shared_name="area")
    return area[0]


def iterator():
    return tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()


def python():
    return tf.py_func(lambda: np.float32(1), [], tf.float32)


def python_in_a_loop():
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.reshape(x + python(), [])), [0, 0.0])


def variable_in_no_collection():
    return tf.Variable(1.0, collections=[], use_resource=True) + 1


def clock():
    return tf.timestamp()


def file_reader():
    return tf.WholeFileReader().read(tf.FIFOQueue(3, tf.string, [[]]))


LOST = [
    (queue, "Dequeue"),
    (accumulator, "conditional_accumulator"),
    (staging_area, "Unstage"),
    (iterator, "IteratorGetNext"),
    (python, "PyFunc"),
    (python_in_a_loop, "PyFunc"),
    (variable_in_no_collection, "Variable"),
    (clock, "Timestamp"),
    (file_reader, "ReaderReadV2"),
]


@pytest.mark.parametrize(("build", "name"), LOST)
def test_what_is_lost(sess, build, name):
    """An operation with state that is in no checkpoint is found, also inside a loop, and also of an unlisted type."""
    assert name in "".join(find_lost_state(build()))


def test_what_is_kept(sess):
    """Variables, loops, arrays inside a run, assertions, tables of constants, functions without state and random operations are not listed."""
    x = tf.get_variable("x", initializer=1.0, use_resource=True)
    old = tf.get_variable("old", initializer=1.0, use_resource=False)
    with tf.control_dependencies([x.assign_add(1.0), old.assign_add(1.0), tf.Assert(x > 0, [x]), tf.print(x)]):
        y = x.read_value() + tf.py_func(lambda: np.float32(1), [], tf.float32, stateful=False)
    y += tf.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + x), [0, 0.0])[1]
    y += tf.cond(x > 0, lambda: x + 1, lambda: x) + tf.reduce_sum(tf.map_fn(lambda e: e * x, tf.ones([3])))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2.0]), 0.0)
    y += table.lookup(tf.constant(1)) + tf.random_uniform([])
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(y)
    assert [] == find_lost_state([step, y])
    assert [] == find_lost_state([])


def make_table(kind):
    if kind == "dense":
        options = {"empty_key": -1, "deleted_key": -2}
        return DenseHashTable(tf.int64, tf.float32, 0.0, name="table", **options), [3, 5], [1.0, 2.0]
    if kind == "vectors":
        return (
            MutableHashTable(tf.int64, tf.float32, [0.0, 0.0], name="table"),
            [3, 5],
            [[1.0, 2.0], [3.0, 4.0]],
        )
    if kind == "strings":
        return MutableHashTable(tf.int64, tf.string, "", name="table"), [3, 5], ["\u00e4", "b\0\0"]
    return MutableHashTable(tf.string, tf.float32, 0.0, name="table"), ["a", "b\0"], [1.0, 2.0]


@pytest.mark.parametrize("kind", ["dense", "vectors", "strings", "by strings"])
def test_tables(kind):
    """The contents of a mutable table are saved and restored, and a step that uses it is then exact."""
    if kind == "dense" and DenseHashTable is None:
        pytest.skip("this TensorFlow has no DenseHashTable")
    found = []
    for state in (None, "saved"):
        with tf.Graph().as_default():
            table, keys, values = make_table(kind)
            keys = tf.constant(keys, table.key_dtype)
            insert, lookup = table.insert(keys, tf.constant(values, table.value_dtype)), table.lookup(keys)
            tables = SavedTables()
            assert [] == find_lost_state([insert, lookup], tables.names)
            assert find_lost_state([table.export()]) == tables.names
            with tf.Session() as sess:
                if state is None:
                    sess.run(insert)
                    saved = tables.state()[0]
                else:
                    tables.restore(saved)
                found.append(sess.run(lookup).tolist())
    assert found[0] == found[1]


def exact_with_two_tables(mode, saved=None):
    """Begin an exact training, in the default session, with a table of 200 bytes and a table of 20 bytes."""
    exact = begin_exact(mode, saved)
    for name, size in (("large", 10), ("small", 1)):
        table = MutableHashTable(tf.int64, tf.float32, [0.0] * 3, name=name)
        keys = np.arange(size)
        table.insert(tf.constant(keys), tf.constant(np.zeros([size, 3], "float32"))).run()
    exact.complete_graph()
    return exact


def test_a_table_that_is_too_large(monkeypatch, log_lines):
    """A table that is too large for a checkpoint is named when it is saved, and again after the resume. The others are saved."""
    monkeypatch.setattr("tensorpack_lite.tfutils.exact.tables.MAX_TABLE_BYTES", 100)
    with tf.Graph().as_default(), tf.Session().as_default():
        saved = exact_with_two_tables(True).state()
    assert ["small"] == list(saved["tables"])
    assert "will not have the contents of these tables: large (" in log_lines[-1]
    with tf.Graph().as_default(), tf.Session().as_default():
        exact_with_two_tables(True, saved).begin_loop()
    assert "does not have the contents of these tables: large." in log_lines[-1]


def test_a_required_table_that_is_too_large(monkeypatch):
    """With "require", a table that is too large is an error."""
    monkeypatch.setattr("tensorpack_lite.tfutils.exact.tables.MAX_TABLE_BYTES", 100)
    with tf.Graph().as_default(), tf.Session().as_default():
        exact = exact_with_two_tables("require")
        with pytest.raises(RuntimeError, match="will not have the contents of these tables: large"):
            exact.state()

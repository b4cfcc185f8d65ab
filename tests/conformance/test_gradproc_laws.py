"""Laws of all public gradient processors. `gradproc_rows.py` has the table."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from conformance.gradproc_rows import NO_ROW, ROWS

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import gradproc
from tensorpack_lite.tfutils.gradproc import GlobalNormClip
from tensorpack_lite.tfutils.optimizer import apply_grad_processors

pytestmark = pytest.mark.law

ALL = pytest.mark.parametrize("row", ROWS, ids=str)
SHAPES = {"conv/W": (2, 3), "conv/b": (3,), "fc/W": (2, 4), "fc/b": (4,), "alpha": ()}
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}


class Grads:
    """
    Variables and their gradients.

    Args:
        seed: a text. Equal texts give equal numbers.
        sliced: names of the variables whose gradient is an IndexedSlices, of rows 1 and 0.
        without: names of the variables without a gradient.
    """

    def __init__(self, seed, dtype="float32", names=tuple(SHAPES), sliced=(), without=()) -> None:
        rng = np.random.RandomState(zlib.crc32(str(seed).encode()))
        self.values = {name: rng.uniform(-1, 1, SHAPES[name]).astype(dtype) for name in SHAPES}
        self.values = {name: self.values[name] for name in names if name not in without}
        self.pairs = []
        for name in names:
            var = tf.get_variable(name, SHAPES[name], dtype, initializer=tf.zeros_initializer(), use_resource=True)
            grad = None if name in without else tf.constant(self.values[name])
            if name in sliced:
                values = tf.constant(self.values[name][[1, 0]])
                grad = tf.IndexedSlices(values, tf.constant([1, 0]), tf.constant(SHAPES[name]))
            self.pairs.append((grad, var))

    def expected(self, *oracles) -> dict:
        """Return the result of applying processors one after the other."""
        values = {name: np.asarray(value, np.float64) for name, value in self.values.items()}
        for oracle in oracles:
            values = oracle(values)
        return values


def names(pairs) -> list:
    """Return the names of the variables."""
    return [var.op.name for _, var in pairs]


def dense(value) -> np.ndarray:
    """Return a gradient as an array."""
    if not hasattr(value, "dense_shape"):
        return value
    array = np.zeros(value.dense_shape, value.values.dtype)
    np.add.at(array, value.indices, value.values)
    return array


def check(sess, expected, pairs, dtype="float32") -> None:
    """Check that the pairs with a gradient are the expected ones, in their order."""
    got = {var.op.name: grad for grad, var in pairs if grad is not None}
    assert list(expected) == list(got)
    values = {name: dense(grad) for name, grad in sess.run(got).items()}
    for name, value in expected.items():
        np.testing.assert_allclose(value, values[name], rtol=0, atol=TOLERANCE[dtype], err_msg=name)


def test_every_public_processor_has_a_row():
    """Every public name of gradproc has a row in the table, or a reason in NO_ROW."""
    assert sorted(gradproc.__all__) == sorted([*{row.name for row in ROWS}, *NO_ROW])


@ALL
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_it_equals_numpy(row, dtype, sess):
    """The gradients equal those of the oracle, in the variables' order, with the same dtypes and static shapes."""
    grads = Grads(row, dtype)
    processed = row.make().process(grads.pairs)
    check(sess, grads.expected(row.oracle), processed, dtype)
    for grad, var in processed:
        assert (dtype, SHAPES[var.op.name]) == (grad.dtype.name, tuple(grad.shape.as_list()))


@ALL
def test_a_list_for_a_list(row):
    """A processor returns a new list of pairs with the same variables, and does not change its argument."""
    pairs = Grads(row, without=["fc/W"]).pairs
    before = list(pairs)
    processed = row.make().process(pairs)

    assert list is type(processed)
    assert all(isinstance(pair, tuple) and len(pair) == 2 for pair in processed)
    assert all(one is other for one, other in zip(before, pairs))
    assert len(before) == len(pairs)
    assert pairs is not processed
    given = {id(var) for _, var in pairs}
    assert all(id(var) in given for _, var in processed)


@ALL
def test_the_order_is_that_of_the_list(row, sess):
    """The result has the order of the given list, also if the list is reversed."""
    grads = Grads(row, names=tuple(reversed(list(SHAPES))))
    check(sess, grads.expected(row.oracle), row.make().process(grads.pairs))


@ALL
def test_variables_without_gradient(row, sess):
    """Pairs without a gradient stay or are dropped as documented, and do not affect the others."""
    grads = Grads(row, without=["fc/W", "alpha"])
    processed = row.make().process(grads.pairs)
    check(sess, grads.expected(row.oracle), processed)
    left = [name for name in ("fc/W", "alpha") if name in names(processed)]
    if row.case == "some":  # variables that the regex does not match
        assert set(left) <= {"fc/W", "alpha"}
        assert "alpha" in left
    else:
        assert (["fc/W", "alpha"] if row.keeps_none else []) == left
    order = names(grads.pairs)
    assert sorted(names(processed), key=order.index) == names(processed)


@ALL
def test_slices_stay_slices(row, sess):
    """An IndexedSlices keeps its rows and shape, and its values are those of the oracle."""
    grads = Grads(row, sliced=["conv/W", "fc/W"])
    processed = row.make().process(grads.pairs)
    check(sess, grads.expected(row.oracle), processed)
    slices = [grad for grad, var in processed if var.op.name.endswith("/W")]
    assert all(isinstance(grad, tf.IndexedSlices) for grad in slices)
    for rows, shape in sess.run([(grad.indices, grad.dense_shape) for grad in slices]):
        assert [1, 0] == rows.tolist()
        assert tuple(shape) in (SHAPES["conv/W"], SHAPES["fc/W"])


@ALL
@pytest.mark.parametrize("first", [True, False])
def test_one_after_the_other(row, first, sess):
    """A processor works before and after another one."""
    other = next(row for row in ROWS if str(row) == "GlobalNormClip-above")
    chain = [row, other] if first else [other, row]
    grads = Grads(row)
    processed = grads.pairs
    for one in chain:
        processed = one.make().process(processed)
    check(sess, grads.expected(*(one.oracle for one in chain)), processed)


@ALL
def test_nothing(row):
    """An empty list gives an empty list."""
    assert [] == row.make().process([])


@ALL
def test_names(row, fresh_graph):
    """All operations are under the class name, also in a second call and in a second graph."""
    processor = row.make()
    for graph in (fresh_graph, tf.Graph()):
        with graph.as_default():
            pairs = Grads(row).pairs
            before = set(graph.get_operations())
            for _ in range(2):
                processor.process(pairs)
            variables = tuple(f"EMA/{name}" for name in SHAPES)
            new = [op.name for op in graph.get_operations() if op not in before]
            outside = [name for name in new if not name.startswith((f"{row.name}/", "EMA/", *variables))]
            assert [] == outside


@ALL
def test_it_adds_no_variable_that_is_saved(row):
    """A processor adds no trainable or global variables."""
    pairs = Grads(row).pairs
    row.make().process(pairs)
    assert names(pairs) == [var.op.name for var in tf.global_variables()]


@ALL
def test_under_an_optimizer(row, sess):
    """`apply_grad_processors` with gradient descent moves each variable by the oracle's gradient."""
    grads = Grads(row)
    cost = tf.add_n([tf.reduce_sum(grad * var) for grad, var in grads.pairs])
    opt = apply_grad_processors(tf.train.GradientDescentOptimizer(0.5), [row.make()])
    train_op = opt.minimize(cost, var_list=[var for _, var in grads.pairs])
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    sess.run(train_op)

    moved = grads.expected(row.oracle)
    for name, value in sess.run({var.op.name: var for _, var in grads.pairs}).items():
        np.testing.assert_allclose(-0.5 * np.asarray(moved.get(name, 0.0)), value, atol=1e-6, err_msg=name)


def test_the_norm_is_joint(sess):
    """GlobalNormClip returns gradients whose joint norm is the given one."""
    clipped = GlobalNormClip(0.5).process(Grads("norm").pairs)
    squares = [np.sum(np.square(grad)) for grad in sess.run([grad for grad, _ in clipped])]
    assert 0.5 == pytest.approx(np.sqrt(np.sum(squares)), rel=1e-6)

"""Which operations are listed because their results may differ between two runs; tests/conformance/test_repeat_laws.py measures them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import not_repeatable as module
from tensorpack_lite.tfutils.not_repeatable import find_not_repeatable


def table(resource=True):
    return tf.get_variable("table", [100, 16], use_resource=resource)


def ids(number):
    return tf.placeholder(tf.int32, [number], "ids")


def lookup(optimizer, number=4096, resource=True, prepare=lambda rows: rows):
    """Return the update of a table of which a batch looks up rows."""
    cost = tf.reduce_sum(tf.square(tf.gather(table(resource), prepare(ids(number)))))
    return optimizer.minimize(cost)


def sgd():
    return tf.train.GradientDescentOptimizer(0.1)


def in_a_condition():
    """Return an update that runs only if a condition holds."""
    weights = table()
    grads = sgd().compute_gradients(tf.reduce_sum(tf.square(tf.gather(weights, ids(4096)))))
    return tf.cond(tf.placeholder(tf.bool, []), lambda: tf.group(sgd().apply_gradients(grads)), tf.no_op)


def unique_in_a_condition():
    weights = table()
    grads = sgd().compute_gradients(tf.reduce_sum(tf.square(tf.gather(weights, ids(4096)))))
    adam = tf.train.AdamOptimizer()
    adam._create_slots([weights])
    return tf.cond(tf.placeholder(tf.bool, []), lambda: tf.group(adam.apply_gradients(grads)), tf.no_op)


def crops(number):
    images, boxes = tf.get_variable("images", [2, 32, 32, 4]), tf.placeholder(tf.float32, [number, 4])
    return tf.gradients(tf.image.crop_and_resize(images, boxes, tf.zeros([number], tf.int32), [7, 7]), images)


def counts(weights):
    """Return the operation of `tf.bincount`; that of TensorFlow 1.15 with weights sums segments instead."""
    return tf.raw_ops.Bincount(arr=tf.placeholder(tf.int32, [5000]), size=10, weights=weights)


def terms(number):
    """Return the operation of `tf.accumulate_n`, which TensorFlow 2 replaces with `tf.add_n`."""
    return tf.raw_ops.AccumulateNV2(inputs=[tf.placeholder(tf.float32, [4]) for _ in range(number)], shape=[4])


ADDED, OVERWRITTEN = "rows that occur several times", "the thread that comes last"
DIFFERS = {
    "gradient descent": (lambda: lookup(sgd()), ADDED),
    "gradient descent, any batch": (lambda: lookup(sgd(), None), ADDED),
    "gradient descent, ref variable": (lambda: lookup(sgd(), resource=False), ADDED),
    "in a condition": (in_a_condition, ADDED),
    "overwritten": (lambda: tf.scatter_update(table(), ids(2000), tf.ones([2000, 16])), OVERWRITTEN),
    "crops": (lambda: crops(20), "overlapping boxes"),
    "weighted bincount": (lambda: counts(tf.placeholder(tf.float32, [5000])), "weights"),
    "accumulate_n": (lambda: terms(3), "its terms"),
}
REPEATS = {
    "few rows": lambda: lookup(sgd(), 1023),
    "unique rows": lambda: lookup(sgd(), prepare=lambda rows: tf.unique(rows)[0]),
    "rows that the optimizer sums first": lambda: lookup(tf.train.AdamOptimizer()),
    "these in a ref variable": lambda: lookup(tf.train.AdamOptimizer(), resource=False),
    "these in a condition": unique_in_a_condition,
    "integers": lambda: tf.scatter_add(tf.get_variable("n", initializer=np.zeros(9, "int32")), ids(4096), tf.ones([4096], tf.int32)),
    "one crop": lambda: crops(1),
    "bincount": lambda: counts(tf.zeros([0], tf.float32)),
    "two terms": lambda: terms(2),
    "a dense layer": lambda: sgd().minimize(tf.nn.l2_loss(tf.placeholder(tf.float32, [4096, 100]) @ table())),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERS)
def test_listed(name):
    """An operation that several threads compute in any order is listed with the reason; with one thread, only the sum of terms is."""
    make, reason = DIFFERS[name]
    if TF_VERSION < (2, 0) and reason in (ADDED, OVERWRITTEN):
        pytest.skip("TensorFlow 1.15 does not divide these operations")
    target = make()
    (operation,) = find_not_repeatable(target, 2)
    assert reason in operation.reason
    assert (name == "accumulate_n") == bool(find_not_repeatable(target, 1))


@pytest.mark.parametrize("name", REPEATS)
def test_not_listed(name):
    """Integers, rows that occur once, few rows and dense operations give the same bytes, and are not listed."""
    assert [] == find_not_repeatable(REPEATS[name](), 4)


@pytest.mark.parametrize(("places", "number"), [((1, 1, 1), 1), ((1, 1, 0, 0), 0)])
def test_elements_read_again(places, number):
    """Without TensorFlow 2's control flow, the gradient of an array is listed if an element is read three times."""
    values = tf.placeholder(tf.float32, [4, 3])
    array = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(values)
    grads = tf.gradients([tf.square(array.read(place)) for place in places], values)
    assert number * (not tf.control_flow_v2_enabled()) == len(find_not_repeatable(grads, 1))


def test_deterministic_kernels(monkeypatch):
    """With TensorFlow's switch for deterministic operations, only the operations that ignore it are listed."""
    monkeypatch.setattr(module, "determinism_switches", lambda: ["enable_op_determinism"])
    monkeypatch.setattr(module, "TF_VERSION", (2, 9))
    assert [] == find_not_repeatable(crops(20), 4)
    assert 1 == len(find_not_repeatable(terms(3), 4))

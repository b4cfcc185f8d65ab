"""AdamW, SGDW, LAMB and the one-line wrappers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.accumulation import AccumGradOptimizer
from tensorpack_lite.tfutils.gradproc import ScaleGradient
from tensorpack_lite.tfutils.lamb import LAMBOptimizer
from tensorpack_lite.tfutils.optimizer import (
    accumulate_gradients,
    apply_grad_processors,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from tensorpack_lite.tfutils.varmanip import is_training_name
from tensorpack_lite.tfutils.weight_decay import AdamWOptimizer, DecoupledDecayOptimizer, SGDWOptimizer

KINDS = [True, False]  # resource variables and ref variables
STEPS = 7
SGD = tf.train.GradientDescentOptimizer
GRADS = np.random.RandomState(0).normal(size=[STEPS, 4])
START = np.array([1.0, -2.0, 0.5, 0.0])


def run(sess, optimizer, use_resource=True, grads=GRADS, start=START):
    """Apply given gradients to a variable `fc/W` and return its value after each step."""
    number = tf.get_variable("number", initializer=0, use_resource=True, trainable=False)
    var = tf.get_variable("fc/W", initializer=tf.constant(start, tf.float32), use_resource=use_resource)
    grad = tf.gather(tf.constant(grads, tf.float32), number)
    update = optimizer.apply_gradients([(grad, var)])
    with tf.control_dependencies([update]):
        step = number.assign_add(1, read_value=False)
    sess.run(tf.global_variables_initializer())
    values = []
    for _ in range(len(grads)):
        sess.run(step)
        values.append(sess.run(var))
    return np.array(values)


def adam_updates(grads, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """Yield the update of Adam for each gradient, without the learning rate."""
    m = v = 0.0
    for t, grad in enumerate(grads, 1):
        m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
        yield m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + epsilon)


@pytest.mark.parametrize("use_resource", KINDS)
def test_adamw(sess, use_resource):
    """Each step is var * (1 - lr * decay) minus lr times the update of Adam, which knows nothing of the decay."""
    var, expected = START, []
    for update in adam_updates(GRADS):
        var = var * (1 - 0.1 * 0.3) - 0.1 * update
        expected.append(var)
    np.testing.assert_allclose(run(sess, AdamWOptimizer(0.1, 0.3), use_resource), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_resource", KINDS)
@pytest.mark.parametrize("nesterov", [False, True])
def test_sgdw(sess, use_resource, nesterov):
    """Each step is var * (1 - lr * decay) minus lr times the momentum of the gradients."""
    var, momentum, expected = START, 0.0, []
    for grad in GRADS:
        momentum = 0.9 * momentum + grad
        var = var * (1 - 0.1 * 0.3) - 0.1 * (grad + 0.9 * momentum if nesterov else momentum)
        expected.append(var)
    optimizer = SGDWOptimizer(0.1, 0.3, use_nesterov=nesterov)
    np.testing.assert_allclose(run(sess, optimizer, use_resource), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("use_resource", KINDS)
def test_lamb(sess, use_resource):
    """Each step is lr * |var| / |u| * u, where u is the update of Adam plus decay * var."""
    var, expected = START, []
    for update in adam_updates(GRADS, epsilon=1e-6):
        u = update + 0.3 * var
        var = var - 0.1 * np.linalg.norm(var) / np.linalg.norm(u) * u
        expected.append(var)
    found = run(sess, LAMBOptimizer(0.1, 0.3), use_resource)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_lamb_of_a_variable_that_is_0(sess):
    """The factor is 1 for a variable of zeros, so it is trained, and a gradient of zeros without decay changes nothing."""
    found = run(sess, LAMBOptimizer(0.1, 0.0), start=np.zeros(4), grads=GRADS[:1])
    np.testing.assert_allclose(found[0], -0.1 * np.sign(GRADS[0]), rtol=1e-4)
    with tf.Graph().as_default(), tf.Session() as other:
        assert (START == run(other, LAMBOptimizer(0.1, 0.0), grads=np.zeros([2, 4]))).all()


def test_lamb_without_decay_and_scaling(sess):
    """A variable that the regular expression does not select gets the update of Adam."""
    expected = START - 0.1 * np.cumsum(list(adam_updates(GRADS, epsilon=1e-6)), axis=0)
    found = run(sess, LAMBOptimizer(0.1, 0.3, regex=".*/b"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_selected_variables(sess):
    """Only variables whose whole name matches decay; a copy in another tower is matched without its prefix."""
    names = ["a/W", "tower1/a/W", "a/W2", "a/b", "b/W"]
    variables = [tf.get_variable(name, initializer=1.0, use_resource=True) for name in names]
    pairs = [(tf.constant(0.0), var) for var in variables[:-1]] + [(None, variables[-1])]
    op = DecoupledDecayOptimizer(SGD(0.1), 0.1, 1.0, regex=".*/W").apply_gradients(pairs)
    sess.run(tf.global_variables_initializer())
    sess.run(op)
    np.testing.assert_allclose(sess.run(variables), [0.9, 0.9, 1, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("use_resource", KINDS)
@pytest.mark.parametrize("make", [lambda: AdamWOptimizer(0.1, 0.3), lambda: LAMBOptimizer(0.1, 0.3)])
def test_sparse_gradients(sess, use_resource, make):
    """The sparse gradient of an embedding, with a row that occurs twice, gives the same variable as the dense one."""
    start = np.arange(6, dtype=np.float32).reshape(3, 2) + 1
    results = []
    for is_sparse in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            var = tf.get_variable("W", initializer=start, use_resource=use_resource)
            rows = tf.gather(var, [0, 2, 0]) if is_sparse else tf.matmul(tf.one_hot([0, 2, 0], 3), var)
            op = make().minimize(tf.reduce_sum(tf.square(rows)))
            session.run(tf.global_variables_initializer())
            session.run(op)
            results.append(session.run(var))
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_rates_may_be_variables_and_functions(sess):
    """A learning rate that is a variable changes the decay, too; a function is called."""
    rate = tf.get_variable("learning_rate", initializer=0.5, trainable=False, use_resource=True)
    found = run(sess, SGDWOptimizer(rate, lambda: 0.2, momentum=0.0), grads=np.zeros([2, 4]))
    np.testing.assert_allclose(found, [START * 0.9, START * 0.81], rtol=1e-6)


def test_inside_accumulation(sess):
    """Inside AccumGradOptimizer, a variable decays once per update."""
    found = run(sess, AccumGradOptimizer(DecoupledDecayOptimizer(SGD(0.1), 0.1, 1.0), 3), grads=np.zeros([4, 4]))
    np.testing.assert_allclose(found, np.outer([1, 1, 0.9, 0.9], START), rtol=1e-6)


def test_the_variables_are_those_of_the_wrapped_optimizer(sess):
    """A checkpoint of Adam fits AdamW. The slots of LAMB are recognized as variables that only training needs."""
    var = tf.get_variable("fc/W", initializer=1.0, use_resource=True)
    optimizer = AdamWOptimizer(0.1)
    optimizer.minimize(var * 2.0)
    names = {one.op.name for one in optimizer.variables()}
    assert {"fc/W/Adam", "fc/W/Adam_1"} <= names
    lamb = LAMBOptimizer(0.1)
    lamb.minimize(var * 2.0)
    names = {one.op.name for one in lamb.variables()}
    assert {"fc/W/LAMB", "fc/W/LAMB_1", "fc/W/LAMB_2"} == names
    assert all(is_training_name(name) for name in names)


class TestOneLiners:
    """Functions that return an optimizer with a gradient processor."""

    @pytest.fixture
    def step(self, sess):
        """Return a function that applies gradients to two variables, which are 0, and returns their new values."""

        def apply(make, grads):
            with tf.Graph().as_default(), tf.Session() as session:
                variables = [
                    tf.get_variable(f"v{k}", initializer=np.zeros_like(grad), use_resource=True)
                    for k, grad in enumerate(grads)
                ]
                op = make(SGD(1.0)).apply_gradients(list(zip(map(tf.constant, grads), variables)))
                session.run(tf.global_variables_initializer())
                session.run(op)
                return [-value for value in session.run(variables)]

        return apply

    GRADS = (np.float32([3, 0]), np.float32([0, -4]))  # of the joint norm 5

    def test_accumulate_gradients(self, sess):
        """After n steps, the update is that of the mean of their gradients."""
        found = run(sess, accumulate_gradients(SGD(0.1), 3), grads=GRADS[:6])
        first = START - 0.1 * GRADS[:3].mean(axis=0)
        second = first - 0.1 * GRADS[3:6].mean(axis=0)
        np.testing.assert_allclose(found, [START, START, first, first, first, second], rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("clip", [clip_by_value, clip_by_norm, clip_by_global_norm])
    @pytest.mark.parametrize("accumulates", [False, True])
    def test_repeated_rows(self, sess, clip, accumulates):
        """The gradient of a lookup is clipped like a dense one, also if rows are looked up several times."""
        indices = [2, 0, 2, 2]
        values = tf.constant([[1.0, -0.5], [0.25, 3.0], [1.0, 0.25], [0.5, 0.0]])
        dense = tf.scatter_nd([[index] for index in indices], values, [4, 2])
        results = []
        for name, grad in (
            ("sparse", tf.IndexedSlices(values, tf.constant(indices), [4, 2])),
            ("dense", dense),
        ):
            var = tf.get_variable(name, initializer=tf.zeros([4, 2]))
            opt = clip(accumulate_gradients(SGD(1.0), 1) if accumulates else SGD(1.0), 1.5)
            results += [(opt.apply_gradients([(grad, var)]), var)]
        sess.run(tf.global_variables_initializer())
        sess.run([update for update, _ in results])
        sparse, expected = sess.run([var for _, var in results])
        np.testing.assert_allclose(expected, sparse, rtol=1e-6)
        assert np.abs(sparse).max() <= 1.5

    @pytest.mark.parametrize(
        ("make", "expected"),
        [
            (lambda opt: clip_by_global_norm(opt, 1.0), [[0.6, 0], [0, -0.8]]),
            (lambda opt: clip_by_global_norm(opt, 9.0), [[3, 0], [0, -4]]),
            (lambda opt: clip_by_norm(opt, 3.5), [[3, 0], [0, -3.5]]),
            (lambda opt: clip_by_value(opt, 2.0), [[2, 0], [0, -2]]),
            (
                lambda opt: apply_grad_processors(clip_by_value(opt, 5.0), [ScaleGradient((".*", 2.0))]),
                [[5, 0], [0, -5]],
            ),
        ],
        ids=["global norm", "large global norm", "norm", "value", "scaled before"],
    )
    def test_clipping(self, step, make, expected):
        """Gradients shrink by the same factor, each by itself, or each element; processors outside come first."""
        np.testing.assert_allclose(step(make, self.GRADS), expected, rtol=1e-6)

    def test_processors_and_accumulation(self, sess):
        """A processor outside of `accumulate_gradients` sees the gradients of steps, undivided; one inside their mean."""
        grads = np.array([[3.0] * 4, [1.0] * 4])
        outside = run(sess, clip_by_value(accumulate_gradients(SGD(1.0), 2), 2.0), grads=grads)[-1]
        np.testing.assert_allclose(START - (2 + 1) / 2, outside)
        with tf.Graph().as_default(), tf.Session() as other:
            inside = run(other, accumulate_gradients(clip_by_value(SGD(1.0), 1.5), 2), grads=grads)[-1]
        np.testing.assert_allclose(START - 1.5, inside)

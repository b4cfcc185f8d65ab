"""Functions of `symbolic_functions`, and a layer, that tensorpack has removed: values and gradients are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.trainv1 import symbolic_functions as symbf
from tensorpack_lite.trainv1.layers import BilinearUpSample

RNG = np.random.RandomState(0)
A, P, N = (RNG.randn(6, 3) for _ in range(3))
SIMILAR = np.array([1, 0, 1, 0, 0, 1])
LOGITS = RNG.randn(2, 4, 4, 1) * 3
EDGES = RNG.rand(2, 4, 4, 1) < 0.3


def distance(a, b):
    return np.sqrt(((a - b) ** 2).sum(axis=1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def balanced(p):
    """The cost of Xie and Tu 2015."""
    negative = np.mean(~EDGES)
    return -np.mean(np.where(EDGES, negative * np.log(p), (1 - negative) * np.log(1 - p)))


def contrastive(a, b):
    d = distance(a, b)
    return np.mean(np.where(SIMILAR, d**2, np.maximum(0, 2 - d) ** 2)) / 2


def cosine(a, b):
    cosines = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.mean((2 * SIMILAR - 1 - cosines) ** 2) / 2


def triplet(a, p, n):
    return np.mean(np.maximum(0, 1 + distance(a, p) ** 2 - distance(a, n) ** 2))


def soft_triplet(a, p, n):
    near, far = np.exp(distance(a, p)), np.exp(distance(a, n))
    return -np.mean(np.log(far / (near + far)))


COSTS = {
    "class_balanced_cross_entropy": (
        lambda p: symbf.class_balanced_cross_entropy(p, tf.constant(EDGES)),
        balanced,
        [sigmoid(LOGITS)],
    ),
    "class_balanced_sigmoid_cross_entropy": (
        lambda x: symbf.class_balanced_sigmoid_cross_entropy(x, tf.constant(EDGES)),
        lambda x: balanced(sigmoid(x)),
        [LOGITS],
    ),
    "contrastive_loss": (lambda a, b: symbf.contrastive_loss(a, b, tf.constant(SIMILAR), 2.0), contrastive, [A, P]),
    "siamese_cosine_loss": (lambda a, b: symbf.siamese_cosine_loss(a, b, tf.constant(SIMILAR)), cosine, [A, P]),
    "triplet_loss": (lambda a, p, n: symbf.triplet_loss(a, p, n, 1.0), triplet, [A, P, N]),
    "soft_triplet_loss": (lambda a, p, n: symbf.soft_triplet_loss(a, p, n, extra=False), soft_triplet, [A, P, N]),
    "psnr_loss": (
        lambda x, y: symbf.psnr_loss(x, y, maxp=2.0),
        lambda x, y: 10 * np.log10(np.mean((x - y) ** 2)) - 20 * np.log10(2.0),
        [A, P],
    ),
}  # fmt: skip


def differences(function, arrays, index, step=1e-6):
    """Return the gradient of a function with respect to one of its arguments, by central differences."""
    gradient = np.zeros(arrays[index].shape)
    for place in np.ndindex(gradient.shape):
        moved = [array.copy() for array in arrays]
        values = []
        for sign in (1, -1):
            moved[index][place] = arrays[index][place] + sign * step
            values.append(function(*moved))
        gradient[place] = (values[0] - values[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", sorted(COSTS))
def test_costs(sess, name):
    """A cost and its gradients are those of its formula in NumPy."""
    function, formula, arrays = COSTS[name]
    inputs = [tf.constant(array, tf.float32) for array in arrays]
    cost = function(*inputs)
    assert [] == cost.shape.as_list()
    value, gradients = sess.run([cost, tf.gradients(cost, inputs)])
    assert formula(*arrays) == pytest.approx(value, rel=1e-5)
    for index, gradient in enumerate(gradients):
        np.testing.assert_allclose(differences(formula, arrays, index), gradient, rtol=1e-3, atol=1e-5)


def test_costs_without_positive_labels(sess):
    """If no label is positive, the cost of the logits is 0."""
    cost = symbf.class_balanced_sigmoid_cross_entropy(tf.constant(LOGITS, tf.float32), tf.zeros([2, 4, 4, 1]))
    assert 0.0 == sess.run(cost)
    assert symbf.class_balanced_binary_class_cross_entropy is symbf.class_balanced_cross_entropy


def test_mean_distances(sess):
    """With `extra`, the losses return mean distances. Equal embeddings have a finite gradient."""
    a, p, n = (tf.constant(x, tf.float32) for x in (A, P, N))
    for outputs in (symbf.triplet_loss(a, p, n, 1.0, extra=True), symbf.soft_triplet_loss(a, p, n)):
        np.testing.assert_allclose([distance(A, P).mean(), distance(A, N).mean()], sess.run(outputs[1:]), rtol=1e-5)
    _, near, far = symbf.contrastive_loss(a, p, tf.constant(SIMILAR), 2.0, extra=True)
    d = distance(A, P)
    np.testing.assert_allclose([d[SIMILAR == 1].mean(), d[SIMILAR == 0].mean()], sess.run([near, far]), rtol=1e-5)
    _, _, none = symbf.contrastive_loss(a, p, tf.ones([6]), 2.0, extra=True)
    gradient = tf.gradients(symbf.contrastive_loss(a, a + 0.0 * p, tf.zeros([6]), 2.0), p)[0]
    assert 0.0 == sess.run(none)
    assert np.isfinite(sess.run(gradient)).all()


def test_small_functions(sess):
    """`flatten`, `one_hot` and `logSoftmax` are what their names say."""
    labels, scores = np.array([2, 0]), A[:2].astype("float32")
    flat, hot, logarithms = sess.run(
        [symbf.flatten(tf.constant(scores)), symbf.one_hot(tf.constant(labels), 3), symbf.logSoftmax(scores)]
    )
    np.testing.assert_array_equal(scores.reshape(-1), flat)
    np.testing.assert_array_equal(np.eye(3)[labels], hot)
    np.testing.assert_allclose(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)), logarithms, rtol=1e-5)


def test_saliency_map(sess):
    """It is the row of the weights that gives each example its largest output."""
    weights = RNG.randn(3, 4).astype("float32")
    x = tf.constant(A, tf.float32)
    result = symbf.saliency_map(tf.matmul(x, tf.constant(weights)), x)
    assert "saliency_map" == result.op.name
    np.testing.assert_allclose(weights.T[(A @ weights).argmax(axis=1)], sess.run(result), rtol=1e-6)


def test_guided_relu(sess):
    """Inside the context, a negative gradient does not pass the function; outside, it does."""
    x = tf.constant([-1.0, 2.0, 3.0])
    for _ in range(2):  # the gradient is registered once
        with symbf.guided_relu():
            guided = tf.nn.relu(x)
    scale = tf.constant([1.0, -1.0, 1.0])
    values = sess.run([tf.gradients(y * scale, x)[0] for y in (guided, tf.nn.relu(x))])
    np.testing.assert_array_equal([[0, 0, 1], [0, -1, 1]], values)


@pytest.mark.parametrize("factor", [2, 3])
def test_bilinear_up_sample(sess, factor):
    """It is the transposed convolution of Caffe's BilinearFiller, with the edges repeated."""
    images = RNG.rand(2, 4, 5, 3).astype("float32")
    x = tf.placeholder(tf.float32, [None, 4, 5, 3])
    y = BilinearUpSample("up", x, factor)
    assert "up/output" == y.op.name
    assert [None, 4 * factor, 5 * factor, 3] == y.shape.as_list()
    size = 2 * factor
    line = 1 - np.abs(np.arange(size) / factor - (2 * factor - 1 - factor % 2) / (2 * factor))
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)], mode="edge")
    expected = np.zeros((2, 8 * factor, 9 * factor, 3))
    for i, j in np.ndindex(6, 7):
        rows, columns = slice(i * factor, i * factor + size), slice(j * factor, j * factor + size)
        patch = np.outer(line, line)[None, :, :, None] * padded[:, i, j][:, None, None, :]
        expected[:, rows, columns] += patch[:, : expected[:, rows, columns].shape[1]]
    start = factor + factor // 2
    expected = expected[:, start : start + 4 * factor, start : start + 5 * factor]
    np.testing.assert_allclose(expected, sess.run(y, {x: images}), rtol=1e-5)
    gradient = sess.run(tf.gradients(y, x)[0], {x: images})
    assert images.size * factor**2 == pytest.approx(gradient.sum(), rel=1e-5)

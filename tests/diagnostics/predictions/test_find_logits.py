"""find_classification: the images, labels and logits of towers, and towers that classify nothing."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.predictions.find_logits import find_classification
from tensorpack_lite.tfutils.tower.context import PredictTowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc

IMAGE, COLORED = ([None, 8, 8], tf.float32), ([None, 8, 8, 3], tf.uint8)
LABEL = ([None], tf.int32)


def dense(image, num_classes=10):
    """Return logits that depend on images."""
    flat = tf.reshape(tf.cast(image, tf.float32), [tf.shape(image)[0], 64 * (image.shape.as_list() + [1])[3]])
    return tf.matmul(flat, tf.ones([flat.shape.as_list()[1], num_classes])) + tf.range(num_classes, dtype=tf.float32)


def sparse(logits, label):
    """Return a softmax cross entropy."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))


def sigmoid(logits, label):
    """Return a sigmoid cross entropy."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=label))


def find(build, *inputs):
    """Return what a tower classifies that is built from inputs `(shape, dtype)`, and its inputs."""
    specs = [tf.TensorSpec(shape, dtype, f"x{number}") for number, (shape, dtype) in enumerate(inputs)]
    tower_func = TowerFunc(build, specs)
    with PredictTowerContext("tower"):
        tower_func(*(tf.placeholder(spec.dtype, spec.shape) for spec in specs))
    tower = tower_func.towers[-1]
    return find_classification(tower), tower.inputs


def with_decay(image, label):
    """A cost with weight decay, of logits that are computed in another dtype."""
    logits = tf.cast(tf.cast(dense(image), tf.float16), tf.float32)
    return sparse(logits, label) + 1e-4 * tf.nn.l2_loss(tf.ones([3]))


def one_hot(image, label):
    """A dense softmax cross entropy, with smoothed labels."""
    labels = tf.one_hot(label, 10, on_value=0.91, off_value=0.01)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=dense(image), labels=labels))


def one_hot_of_tf_losses(image, label):
    """A cost of `tf.losses`."""
    return tf.losses.softmax_cross_entropy(tf.one_hot(label, 10), dense(image))


def binary(image, label):
    """One logit for each sample."""
    return sigmoid(tf.squeeze(dense(image, 1), 1), tf.cast(label, tf.float32))


def binary_in_a_column(image, label):
    """Logits [N, 1]."""
    return sigmoid(dense(image, 1), tf.cast(tf.expand_dims(label, 1), tf.float32))


def independent(image, label):
    """A sigmoid for each class."""
    return sigmoid(dense(image), tf.one_hot(label, 10))


class TestFound:
    @pytest.mark.parametrize("image", [IMAGE, COLORED, ([None, 8, 8, 1], tf.float32), ([None, None, None], tf.float32)])
    def test_images(self, image):
        """Images of the usual shapes and dtypes are found, with their labels and logits."""
        found, inputs = find(
            lambda x, label: sparse(dense(tf.ensure_shape(x, [None, 8, 8, *image[0][3:]])), label), image, LABEL
        )
        assert (inputs[0].name, inputs[1].name, False) == (found.image.name, found.label.name, found.is_sigmoid)
        assert [None, 10] == found.logits.shape.as_list()

    @pytest.mark.parametrize(
        "build", [with_decay, one_hot, one_hot_of_tf_losses, binary, binary_in_a_column, independent]
    )
    def test_costs(self, build):
        """All cross entropies of integer labels are found, whatever the rest of the cost is."""
        found, inputs = find(build, IMAGE, LABEL)
        assert inputs[1].name == found.label.name
        assert (build in (binary, binary_in_a_column, independent)) == found.is_sigmoid

    def test_other_inputs(self):
        """Inputs that the logits do not depend on do not matter, nor do labels of another kind."""
        found, inputs = find(
            lambda label, other, image, weights: sparse(dense(image), label), LABEL, IMAGE, IMAGE, ([None], tf.int64)
        )
        assert (inputs[2].name, inputs[0].name) == (found.image.name, found.label.name)


def regression(image, target):
    """A cost that is not a cross entropy."""
    return tf.reduce_mean(tf.square(tf.cast(target, tf.float32) - dense(image, 1)[:, 0]))


def shifted(image, label):
    """Labels from 1 on."""
    return sparse(dense(image), label - 1)


def two_heads(image, label):
    """Two cross entropies."""
    return sparse(dense(image), label) + 0.3 * sparse(dense(image + 1), label)


def reversed_one_hot(image, label):
    """A cost that is small for all classes but the label."""
    labels = tf.one_hot(label, 10, on_value=0.0, off_value=0.1)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=dense(image), labels=labels))


NOTHING = {
    "no image": (lambda x, label: sparse(tf.matmul(x, tf.ones([8, 10])), label), [([None, 8], tf.float32), LABEL]),
    "text": (lambda x, label: sparse(tf.one_hot(x[:, 0], 10), label), [([None, 20], tf.int32), LABEL]),
    "regression": (regression, [IMAGE, LABEL]),
    "shifted labels": (shifted, [IMAGE, LABEL]),
    "two cross entropies": (two_heads, [IMAGE, LABEL]),
    "two images": (lambda a, b, label: sparse(dense(a) + dense(b), label), [IMAGE, IMAGE, LABEL]),
    "one sample": (
        lambda x, label: sparse(dense(x[tf.newaxis]), label[tf.newaxis]),
        [([8, 8, 3], tf.float32), ([], tf.int32)],
    ),
    "labels of pixels": (lambda x, label: sparse(tf.stack([x, -x], 3), label), [IMAGE, ([None, 8, 8], tf.int32)]),
    "labels among the logits": (lambda x, label: sparse(dense(x) - tf.one_hot(label, 10), label), [IMAGE, LABEL]),
    "labels of floating-point numbers": (lambda x, y: sigmoid(dense(x, 1)[:, 0], y), [IMAGE, ([None], tf.float32)]),
    "wrong one-hot": (reversed_one_hot, [IMAGE, LABEL]),
    "many channels": (lambda x, label: sparse(x[:, 0, 0], label), [([None, 8, 8, 10], tf.float32), LABEL]),
    "logits of something else": (lambda x, label: sparse(tf.zeros([tf.shape(label)[0], 10]), label), [IMAGE, LABEL]),
    "no cost": (lambda x, label: None, [IMAGE, LABEL]),
    "several outputs": (lambda x, label: [sparse(dense(x), label)], [IMAGE, LABEL]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing(name):
    """A tower that does something else has no classification."""
    build, inputs = NOTHING[name]
    found, _ = find(build, *inputs)
    assert found is None

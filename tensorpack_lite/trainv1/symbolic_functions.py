"""Functions on tensors, which tensorpack has removed."""

from __future__ import annotations

from typing import Any, ContextManager

from ..compat import tfv1 as tf
from ..tfutils.gradient_override import register_gradient
from ..tfutils.symbolic_functions import psnr

_EPSILON = 1e-12  # in roots and logarithms


def flatten(x: tf.Tensor) -> tf.Tensor:
    """Reshape a tensor to a vector."""
    return tf.reshape(x, [-1])


def one_hot(y: tf.Tensor, num_labels: int) -> tf.Tensor:
    """Return the one-hot encoding of [N] labels as float32 [N, num_labels]."""
    return tf.one_hot(y, num_labels)


def logSoftmax(x: tf.Tensor) -> tf.Tensor:  # noqa: N802
    """Return the logarithm of the softmax of [N, C] logits."""
    return tf.nn.log_softmax(x)


def psnr_loss(
    prediction: tf.Tensor, ground_truth: tf.Tensor, maxp: float | None = None, name: str = "psnr_loss"
) -> tf.Tensor:
    """Return the negative of `psnr(prediction, ground_truth, maxp)`."""
    return tf.negative(psnr(prediction, ground_truth, maxp), name=name)


# Costs of maps of edges ----------------------------------------------------------------------------------------------
def class_balanced_cross_entropy(pred: tf.Tensor, label: tf.Tensor, name: str = "cross_entropy_loss") -> tf.Tensor:
    """
    Return the mean cross entropy of probabilities, in which the rarer class has the larger weight.

    The weight of a positive label is the fraction of negative labels, and vice versa.

    Args:
        pred: [N, ...] probabilities.
        label: [N, ...], 0 or 1.
        name: name of the result.

    Source: Xie and Tu 2015, "Holistically-nested edge detection".
    """
    with tf.name_scope("class_balanced_cross_entropy"):
        p, y, negative = _balance(pred, label)
        positive_part = negative * y * tf.log(p + _EPSILON)
        negative_part = (1.0 - negative) * (1.0 - y) * tf.log(1.0 - p + _EPSILON)
        cost = -tf.reduce_mean(positive_part + negative_part)
    return tf.identity(cost, name=name)


class_balanced_binary_class_cross_entropy = class_balanced_cross_entropy


def class_balanced_sigmoid_cross_entropy(
    logits: tf.Tensor, label: tf.Tensor, name: str = "cross_entropy_loss"
) -> tf.Tensor:
    """
    Return `class_balanced_cross_entropy` of the sigmoid of logits, without overflow. It is 0 if no label is positive.

    Args:
        logits: [N, ...].
        label: [N, ...], 0 or 1.
        name: name of the result.
    """
    with tf.name_scope("class_balanced_sigmoid_cross_entropy"):
        z, y, negative = _balance(logits, label)
        weights = negative * y + (1.0 - negative) * (1.0 - y)
        cost = tf.reduce_mean(weights * tf.nn.sigmoid_cross_entropy_with_logits(logits=z, labels=y))
    return tf.identity(cost, name=name)


def _balance(values: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return values and labels as vectors, and the share of negative labels."""
    y = tf.cast(flatten(label), tf.float32)
    return flatten(values), y, tf.reduce_mean(1.0 - y)


# Costs of embeddings -------------------------------------------------------------------------------------------------
def contrastive_loss(
    left: tf.Tensor,
    right: tf.Tensor,
    y: tf.Tensor,
    margin: float,
    extra: bool = False,
    scope: str = "constrastive_loss",
) -> Any:
    """
    Return the mean of (y d^2 + (1 - y) max(0, margin - d)^2) / 2, where d is the distance of two embeddings.

    Args:
        left, right: [N, D].
        y: [N], 1 for similar pairs and 0 for others.
        margin: the distance above which a dissimilar pair costs nothing.
        extra: also return the mean distance of the similar pairs and the mean distance of the dissimilar pairs.
        scope: the name scope.

    Source: Hadsell, Chopra and LeCun 2006, "Dimensionality reduction by learning an invariant mapping".
    """
    with tf.name_scope(scope):
        y = tf.cast(y, tf.float32)
        distance = _distance(left, right)
        too_near = tf.maximum(0.0, margin - distance)
        cost = tf.reduce_mean(y * tf.square(distance) + (1.0 - y) * tf.square(too_near)) / 2.0
        if not extra:
            return cost
        similar, dissimilar = (_mean_where(share, distance) for share in (y, 1.0 - y))
        return cost, tf.identity(similar, name="pos-dist"), tf.identity(dissimilar, name="neg-dist")


def siamese_cosine_loss(left: tf.Tensor, right: tf.Tensor, y: tf.Tensor, scope: str = "cosine_loss") -> tf.Tensor:
    """
    Return half the mean squared error of the cosine similarity of two embeddings.

    The target is 1 for similar pairs and -1 for others.

    Args:
        left, right: [N, D].
        y: [N], 1 for similar pairs and 0 for others.
        scope: the name scope.
    """
    with tf.name_scope(scope):
        wanted = 2.0 * tf.cast(y, tf.float32) - 1.0
        cosine = tf.reduce_sum(tf.nn.l2_normalize(left, 1) * tf.nn.l2_normalize(right, 1), 1)
        return tf.reduce_mean(tf.square(wanted - cosine)) / 2.0


def triplet_loss(
    anchor: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    margin: float,
    extra: bool = False,
    scope: str = "triplet_loss",
) -> Any:
    """
    Return the mean of max(0, margin + |anchor - positive|^2 - |anchor - negative|^2).

    Args:
        anchor, positive, negative: [N, D].
        margin: how much larger the squared distance to the negative should be.
        extra: also return the mean distance of the anchors to their positives and to their negatives.
        scope: the name scope.

    Source: Schroff, Kalenichenko and Philbin 2015, arXiv:1503.03832.
    """
    with tf.name_scope(scope):
        near, far = _distance(anchor, positive), _distance(anchor, negative)
        cost = tf.reduce_mean(tf.maximum(0.0, margin + tf.square(near) - tf.square(far)))
        return (cost, *_means(near, far)) if extra else cost


def soft_triplet_loss(
    anchor: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    extra: bool = True,
    scope: str = "soft_triplet_loss",
) -> Any:
    """
    Return the mean cross entropy of the softmax of the two distances, where the distance to the negative is the correct
    class.

    Args:
        anchor, positive, negative: [N, D].
        extra: also return the mean distances, as `triplet_loss` does.
        scope: the name scope.

    Source: Hoffer and Ailon 2014, "Deep metric learning using triplet network".
    """
    with tf.name_scope(scope):
        near, far = _distance(anchor, positive), _distance(anchor, negative)
        cost = tf.reduce_mean(tf.nn.softplus(near - far))
        return (cost, *_means(near, far)) if extra else cost


def _distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Return the distance between corresponding rows of `a` and `b`. The gradient is finite even for equal rows."""
    return tf.sqrt(tf.reduce_sum(tf.square(a - b), 1) + _EPSILON)


def _means(near: tf.Tensor, far: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.reduce_mean(near, name="pos-dist"), tf.reduce_mean(far, name="neg-dist")


def _mean_where(share: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return the mean of the values where `share` is 1; 0 if there are none."""
    return tf.reduce_sum(share * values) / tf.maximum(tf.reduce_sum(share), 1.0)


# Gradients -----------------------------------------------------------------------------------------------------------
def saliency_map(output: tf.Tensor, input: tf.Tensor, name: str = "saliency_map") -> tf.Tensor:
    """
    Return the gradient of the largest output of each example.

    Args:
        output: [N, C].
        input: [N, ...].
        name: name of the result, which has the shape of `input`.

    Source: Simonyan, Vedaldi and Zisserman 2013, "Deep inside convolutional networks".
    """
    return tf.identity(tf.gradients(tf.reduce_max(output, 1), input)[0], name=name)


def guided_relu() -> ContextManager[None]:
    """
    Return a context in which the gradient of `tf.nn.relu` does not pass negative gradients back.

    Source: Springenberg et al. 2014, "Striving for simplicity".
    """
    name = register_gradient("tensorpack_lite.trainv1.guided_relu", _guided_gradient)
    return tf.get_default_graph().gradient_override_map({"Relu": name})


def _guided_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    passes = tf.logical_and(gradient > 0, op.outputs[0] > 0)
    return tf.where(passes, gradient, tf.zeros_like(gradient))

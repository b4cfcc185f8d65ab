"""`tf.contrib.seq2seq`: attention, decoders and the loss of sequences. Beam search is not included."""

from __future__ import annotations

from typing import Any, Callable

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=(
        "tensorpack_lite.tf1.contrib._attention",
        "tensorpack_lite.tf1.contrib._decoder",
        "tensorpack_lite.tf1.contrib._helpers",
    ),
    same=("ops", "attention_wrapper", "basic_decoder", "decoder", "helper", "loss"),
)


def sequence_loss(
    logits: tf.Tensor,
    targets: tf.Tensor,
    weights: tf.Tensor,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """
    Return the weighted cross entropy of sequences.

    Args:
        logits: [batch, time, classes].
        targets: [batch, time] of class numbers.
        weights: [batch, time], usually 1 for steps that count and 0 for padding.
        average_across_timesteps, average_across_batch: divide by the sum of the weights over these axes.
        sum_over_timesteps, sum_over_batch: divide by the number of non-zero weights over these axes.
        softmax_loss_function: `(labels, logits) -> losses`. None means the sparse softmax cross entropy.
        name: the name scope.

    Returns:
        A scalar if both axes are averaged or summed, a vector for one of them, and [batch, time] for none.

    Raises:
        ValueError: a rank is wrong, or an axis is both averaged and summed.
    """
    ranks = [tensor.shape.ndims for tensor in (logits, targets, weights)]
    if ranks != [3, 2, 2]:
        raise ValueError(
            f"sequence_loss: logits, targets and weights must have ranks 3, 2 and 2, got {ranks[0]}, {ranks[1]} and {ranks[2]}."
        )
    if (average_across_timesteps and sum_over_timesteps) or (average_across_batch and sum_over_batch):
        raise ValueError("sequence_loss: an axis is both averaged and summed. Choose one of them.")
    function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        losses = function(labels=tf.reshape(targets, [-1]), logits=flat)
        losses = tf.reshape(losses, tf.shape(logits)[:2]) * weights
        averaged = [axis for axis, on in enumerate((average_across_batch, average_across_timesteps)) if on]
        summed = [axis for axis, on in enumerate((sum_over_batch, sum_over_timesteps)) if on]
        if averaged and len(averaged) >= len(summed):
            axes, total = averaged, tf.reduce_sum(weights, averaged)
        elif summed:
            axes, total = summed, tf.cast(tf.math.count_nonzero(weights, summed), losses.dtype)
        else:
            return losses
        return tf.math.divide_no_nan(tf.reduce_sum(losses, axes), total)


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeat each element of the batch `multiplier` times, in a tensor or a nested structure of tensors."""
    with tf.name_scope(name, "tile_batch"):
        return tf.nest.map_structure(lambda tensor: tf.repeat(tensor, multiplier, axis=0), t)


def hardmax(logits: Any, name: str | None = None) -> tf.Tensor:
    """Return 1 at the maximum of each last axis and 0 elsewhere, in the type of the logits."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        depth = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    """Return the cumulative product of values in [0, 1] through logarithms. The arguments are those of `tf.cumsum`."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x)
        smallest = 1e-300 if x.dtype == tf.float64 else 1.1754944e-38
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, smallest, 1)), *args, **kwargs))

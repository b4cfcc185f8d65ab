"""`tf.contrib.legacy_seq2seq`: recurrent models on lists with one tensor per time step, without attention."""

from __future__ import annotations

import copy
from typing import Any, Callable, Sequence

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, same=("ops", "seq2seq"))


def rnn_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    cell: Any,
    loop_function: Callable[[tf.Tensor, int], tf.Tensor] | None = None,
    scope: Any = None,
) -> tuple[list[tf.Tensor], Any]:
    """
    Run a cell over a list of inputs [N, C].

    Args:
        decoder_inputs: the inputs.
        initial_state: the state before the first input.
        cell: a `tf.nn.rnn_cell.RNNCell`.
        loop_function: computes the inputs after the first from the previous output and the number of the input.
        scope: the variable scope; "rnn_decoder" by default.

    Returns:
        The list of outputs [N, D], and the last state.
    """
    state = initial_state
    outputs: list[tf.Tensor] = []
    with tf.variable_scope(scope or "rnn_decoder") as used:
        for i, value in enumerate(decoder_inputs):
            if i > 0:
                used.reuse_variables()
                if loop_function is not None:
                    with tf.variable_scope("loop_function", reuse=True):
                        value = loop_function(outputs[-1], i)
            output, state = cell(value, state)
            outputs.append(output)
    return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    dtype: tf.DType = tf.float32,
    scope: Any = None,
) -> tuple[list[tf.Tensor], Any]:
    """Encode a list of inputs with a copy of a cell, and decode from its last state. See `rnn_decoder`."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    loop_function: Callable[[tf.Tensor, int], tf.Tensor] | None = None,
    dtype: tf.DType = tf.float32,
    scope: Any = None,
) -> tuple[list[tf.Tensor], Any]:
    """Encode and decode with the same cell and the same variables. See `rnn_decoder`."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        shared = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=shared)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=shared)


def sequence_loss_by_example(
    logits: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., tf.Tensor] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """
    Return the weighted cross-entropy [N] of each sequence.

    Args:
        logits: for each time step, [N, classes].
        targets: for each time step, the classes [N].
        weights: for each time step, float weights [N].
        average_across_timesteps: divide by the sum of the weights.
        softmax_loss_function: `f(labels=, logits=)`, instead of the sparse cross-entropy.
        name: a name scope.

    Raises:
        ValueError: the lists have different lengths.
    """
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            "sequence_loss_by_example: the lists have different lengths (expected one entry per time step, got "
            f"{len(logits)} logits, {len(targets)} targets and {len(weights)} weights)."
        )
    loss_function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for logit, target, weight in zip(logits, targets, weights):
            labels = target if softmax_loss_function else tf.reshape(target, [-1])
            losses.append(loss_function(labels=labels, logits=logit) * weight)
        total = tf.add_n(losses)
        return total / (tf.add_n(list(weights)) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., tf.Tensor] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Return the sum of `sequence_loss_by_example`, divided by N if `average_across_batch`."""
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        cost = tf.reduce_sum(losses)
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype) if average_across_batch else cost

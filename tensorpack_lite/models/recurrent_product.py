"""
The products of recurrent steps: their inputs, and their state or a part of it, times matrices that all steps share.

Steps that follow each other in the graph are cut into pieces of eight:

- The inputs of a piece are multiplied at once, by another core than the one that computes the steps of the piece before.
- The gradient of the matrix for the state is the sum of one product for each step. As TensorFlow computes it, each of these is as
  large as the matrix. Here it is one for each piece: dW = H' dZ, where the rows of H are the left operands of its steps, and those
  of dZ the gradients of their inputs, to which the products are added.

With longer pieces, a core waits for the first one, and for the gradients of the last one. In a trial by hand with batches of 16 to
256, a step with one piece for all steps took 1.1 times as long as one with pieces of eight.
"""

from __future__ import annotations

from functools import partial
from typing import Callable

from ..compat import tfv1 as tf
from ..tfutils.gradient_override import with_gradient
from ..tfutils.precision import multiply, to_compute_dtype, to_float32

Product = Callable[[tf.Tensor], tf.Tensor]
_PIECE = 8  # steps


class Unstacked:
    """
    The inputs of steps that follow each other in the graph.

    Args:
        steps: [N, M] for each step, in the order of time.
    """

    def __init__(self, steps: list[tf.Tensor]) -> None:
        self.steps = steps


def cut(inputs: tf.Tensor) -> list[tf.Tensor]:
    """Return the pieces of the inputs [T, N, D], where T is known: eight steps each, the last one the rest."""
    num_steps = inputs.shape.as_list()[0]
    return tf.split(inputs, [min(_PIECE, num_steps - start) for start in range(0, num_steps, _PIECE)])  # type: ignore[no-any-return]


def multiply_last_axis(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """
    Multiply the last axis of a tensor by a matrix.

    Args:
        x: [..., K] float32, or the dtype of all variables.
        matrix: [K, M], likewise. It is cast here, so that the gradients of several products with one matrix are added up in
            float32.
    """
    product = tf.matmul if x.shape.ndims == 2 else partial(tf.tensordot, axes=1)
    return to_float32(multiply(product, to_compute_dtype(x), to_compute_dtype(matrix)))


def multiply_in_loop(pieces: list[tf.Tensor], matrix: tf.Tensor) -> tuple[tf.Tensor, Product]:
    """
    Return the inputs of steps in a loop, [T, N, M], and their product.

    Args, Returns: as in `multiply_unrolled`, but there is one piece, of all steps.
    """
    (inputs,) = pieces
    return inputs, lambda x: multiply_last_axis(x, matrix)


def multiply_unrolled(
    pieces: list[tf.Tensor], matrix: tf.Tensor, *, backward: bool, training: bool
) -> tuple[Unstacked, Product]:
    """
    Return the inputs of steps that follow each other in the graph, and their product.

    Args:
        pieces: the inputs, from `cut`, each [steps, N, M]. The products are added to them, and to nothing else.
        matrix: [K, M] float32, or the dtype of all variables.
        backward: whether the last step is the first to be computed.
        training: whether the gradient is computed in pieces. If not, there are no operations for it in the graph.

    Returns:
        The inputs, whose gradients also give that of the matrix; and the product, a function [N, K] -> [N, M] that each step
        must call once.
    """
    if not training:
        steps = [step for piece in pieces for step in tf.unstack(piece)]
        return Unstacked(steps), lambda x: multiply_last_axis(x, matrix)
    factors: list[tf.Tensor] = []  # of the steps, in the order of their computation
    narrow = to_compute_dtype(matrix)
    by_transposed = partial(tf.matmul, transpose_b=True)
    transposed_by = partial(tf.matmul, transpose_a=True)

    def with_matrix(piece: tf.Tensor, start: int) -> tf.Tensor:
        def gradients(of_piece: tf.Tensor) -> list[tf.Tensor]:
            in_time = factors[::-1] if backward else factors
            left = tf.concat(in_time[start : start + _PIECE], 0)
            right = tf.reshape(tf.cast(of_piece, narrow.dtype), [-1, matrix.shape.as_list()[1]])
            return [of_piece, tf.cast(multiply(transposed_by, left, right), matrix.dtype)]

        return with_gradient([piece], [piece, matrix], gradients)[0]

    def product(x: tf.Tensor) -> tf.Tensor:
        factors.append(to_compute_dtype(x))
        result = with_gradient(
            [multiply(tf.matmul, factors[-1], narrow)],
            [factors[-1]],
            lambda of_result: [multiply(by_transposed, of_result, narrow)],
        )
        return to_float32(result[0])

    steps = []
    for number, piece in enumerate(pieces):
        steps += tf.unstack(with_matrix(piece, number * _PIECE))
    return Unstacked(steps), product

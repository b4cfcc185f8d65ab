"""Wrappers of cells of `tf.contrib.rnn`."""

from __future__ import annotations

import math
from typing import Any, Callable

from ...compat import tfv1 as tf
from ...utils.checks import check_positive
from ._lookup import import_source
from ._rnn_cells import linear

_CELLS: Any = import_source("tf.nn.rnn_cell")


class _Wrapper(_CELLS.RNNCell):
    """A cell with the sizes of another one."""

    def __init__(self, cell: Any, reuse: bool | None = None) -> None:
        super().__init__(_reuse=reuse)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the initial state of the wrapped cell."""
        return self._cell.zero_state(batch_size, dtype)


class InputProjectionWrapper(_Wrapper):
    """
    A linear layer before a cell.

    Args:
        cell: the cell.
        num_proj: the size of the cell's input.
        activation: a function for the result of the layer, or None.
        input_size: ignored.
        reuse: reuse existing variables.
    """

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Callable[[Any], Any] | None = None,
        input_size: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell, reuse)
        self._size, self._activation = num_proj, activation

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[Any, Any]:
        """Return the output and the next state."""
        projected = linear(inputs, self._size)
        return self._cell(self._activation(projected) if self._activation else projected, state)


class OutputProjectionWrapper(_Wrapper):
    """
    A linear layer after a cell.

    Args:
        cell: the cell.
        output_size: the size of the result.
        activation: a function for the result, or None.
        reuse: reuse existing variables.
    """

    def __init__(
        self,
        cell: Any,
        output_size: int,
        activation: Callable[[Any], Any] | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell, reuse)
        self._size, self._activation = output_size, activation

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[Any, Any]:
        """Return the output and the next state."""
        output, state = self._cell(inputs, state)
        projected = linear(output, self._size)
        return (self._activation(projected) if self._activation else projected), state


class EmbeddingWrapper(_Wrapper):
    """
    A lookup of ids in an embedding matrix before a cell.

    Args:
        cell: the cell.
        embedding_classes: the number of ids.
        embedding_size: the size of the cell's input.
        initializer: the initializer. None means that of the scope, or uniform values of variance 1.
        reuse: reuse existing variables.

    Variables: `embedding`, of shape [embedding_classes, embedding_size].
    """

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell, reuse)
        self._shape = [embedding_classes, embedding_size]
        self._initializer = initializer

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[Any, Any]:
        """Return the output and the next state."""
        uniform = tf.random_uniform_initializer(-math.sqrt(3), math.sqrt(3))
        initializer = self._initializer or tf.get_variable_scope().initializer or uniform
        dtype = tf.nest.flatten(state)[0].dtype
        with tf.device("/cpu:0"):
            embedding = tf.get_variable("embedding", self._shape, dtype, initializer=initializer)
            embedded = tf.nn.embedding_lookup(embedding, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


class HighwayWrapper(_Wrapper):
    """
    A gated sum of the input and the output of a cell (https://arxiv.org/abs/1505.00387).

    Args:
        cell: a cell whose output has the shape of its input.
        couple_carry_transform_gates: use 1 minus the carry gate as the transform gate.
        carry_bias_init: initial bias of the carry gate, and minus that of the transform gate.
    """

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._coupled, self._bias = couple_carry_transform_gates, carry_bias_init

    def __call__(self, inputs: tf.Tensor, state: Any, scope: Any = None) -> tuple[Any, Any]:
        output, state = self._cell(inputs, state, scope=scope)
        return tf.nest.map_structure(self._mix, inputs, output), state

    def _mix(self, inputs: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        carry = self._gate("carry", inputs, self._bias)
        transform = 1 - carry if self._coupled else self._gate("transform", inputs, -self._bias)
        return inputs * carry + output * transform

    def _gate(self, name: str, inputs: tf.Tensor, bias: float) -> tf.Tensor:
        size = inputs.shape.as_list()[1]
        weights = tf.get_variable(f"{name}_w", [size, size])
        biases = tf.get_variable(f"{name}_b", [size], initializer=tf.constant_initializer(bias))
        return tf.sigmoid(tf.nn.xw_plus_b(inputs, weights, biases))


class AttentionCellWrapper(_Wrapper):
    """
    A cell with attention over its own last outputs (https://arxiv.org/abs/1409.0473).

    Args:
        cell: the cell.
        attn_length: the number of outputs that are kept.
        attn_size: the size of the result. None means the cell's output size.
        attn_vec_size: the size of the hidden layer of the attention. None means `attn_size`.
        input_size: the size of the cell's input. None means that of the inputs.
        state_is_tuple: the state is a tuple (cell state, attention, outputs), otherwise one concatenated tensor.
        reuse: reuse existing variables.

    Raises:
        ValueError: `attn_length` is not positive.
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell, reuse)
        check_positive("AttentionCellWrapper: attn_length", attn_length)
        self._length, self._size = attn_length, attn_size or cell.output_size
        self._hidden, self._input_size = attn_vec_size or self._size, input_size
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        return self._size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return an initial state of zeros."""
        return _CELLS.RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[Any, Any]:
        """Return the output and the next state."""
        if not self._state_is_tuple:
            state = tf.split(state, [self._cell.state_size, self._size, self._size * self._length], axis=1)
        state, attention, outputs = state
        outputs = tf.reshape(outputs, [-1, self._length, self._size])
        inputs = linear([inputs, attention], self._input_size or inputs.shape.as_list()[1])
        output, state = self._cell(inputs, state)
        attention = self._attend(tf.concat(tf.nest.flatten(state), 1), outputs)
        with tf.variable_scope("attn_output_projection"):
            output = linear([output, attention], self._size)
        outputs = tf.concat([outputs[:, 1:], output[:, None]], 1)
        new_state = (state, attention, tf.reshape(outputs, [-1, self._length * self._size]))
        return output, new_state if self._state_is_tuple else tf.concat(new_state, 1)

    def _attend(self, query: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the weighted mean of the last outputs, [batch, attn_size]."""
        with tf.variable_scope("attention"):
            weights = tf.get_variable("attn_w", [1, 1, self._size, self._hidden])
            vector = tf.get_variable("attn_v", [self._hidden])
            keys = tf.nn.conv2d(outputs[:, :, None], weights, [1, 1, 1, 1], "SAME")
            query = linear(query, self._hidden)[:, None, None]
        alignment = tf.nn.softmax(tf.reduce_sum(vector * tf.tanh(keys + query), [2, 3]))
        return tf.reduce_sum(alignment[:, :, None] * outputs, 1)

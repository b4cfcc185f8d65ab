"""Cells of `tf.contrib.rnn`. `tf.nn.rnn_cell.RNNCell` describes the interface."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ...compat import tfv1 as tf
from ...tfutils.random import dropout
from ._lookup import import_source

_CELLS: Any = import_source("tf.nn.rnn_cell")
LayerRNNCell = _CELLS.BasicRNNCell.__mro__[1]
LSTMStateTuple = _CELLS.LSTMStateTuple


def linear(inputs: Any, size: int, use_bias: bool = True) -> tf.Tensor:
    """
    Multiply tensors, concatenated on axis 1, with a matrix, and add a bias.

    Variables: `kernel` and `bias`, in the current variable scope.
    """
    x = tf.concat(inputs, 1) if isinstance(inputs, (list, tuple)) else inputs
    kernel = tf.get_variable("kernel", [x.shape.as_list()[1], size], dtype=x.dtype)
    if not use_bias:
        return tf.matmul(x, kernel)
    with tf.variable_scope(tf.get_variable_scope()) as scope:
        scope.set_partitioner(None)
        bias = tf.get_variable("bias", [size], dtype=x.dtype, initializer=tf.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


class LSTMBlockCell(_CELLS.LSTMCell):
    """
    An LSTM cell with the variables of TensorFlow 1's fused kernel, computed by single operations.

    Args:
        num_units, forget_bias, reuse, dtype, name: see `tf.nn.rnn_cell.LSTMCell`.
        cell_clip: limit of the absolute value of the cell state; None or a negative number means no limit.
        use_peephole: add diagonal connections from the cell state to the gates.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: bool | None = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes=use_peephole,
            cell_clip=None if cell_clip is None or cell_clip < 0 else cell_clip,
            forget_bias=forget_bias,
            reuse=reuse,
            name=name,
            dtype=dtype,
        )


class GRUBlockCellV2(_CELLS.GRUCell):
    """
    A GRU cell with the variables of TensorFlow 1's fused kernel, computed by single operations.

    Args:
        num_units: the number of units. `cell_size` is its older name.
        reuse, name: see `tf.nn.rnn_cell.GRUCell`.

    Raises:
        ValueError: both or none of `num_units` and `cell_size` are given.
    """

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: bool | None = None,
        name: str = "gru_cell",
    ) -> None:
        if (num_units is None) == (cell_size is None):
            raise ValueError(
                f"{type(self).__name__}: expected either num_units or cell_size, got {num_units} and {cell_size}."
            )
        super().__init__(num_units if cell_size is None else cell_size, reuse=reuse, name=name)


class GRUBlockCell(GRUBlockCellV2):
    """`GRUBlockCellV2` with the older names of the variables: `w_ru`, `b_ru`, `w_c` and `b_c`."""

    def build(self, inputs_shape: Any) -> None:
        """Create the variables."""
        depth, units = inputs_shape[-1], self._num_units
        depth = int(getattr(depth, "value", depth))
        self._gate_kernel = self.add_variable("w_ru", [depth + units, 2 * units])
        self._gate_bias = self.add_variable("b_ru", [2 * units], initializer=tf.ones_initializer())
        self._candidate_kernel = self.add_variable("w_c", [depth + units, units])
        self._candidate_bias = self.add_variable("b_c", [units], initializer=tf.zeros_initializer())
        self.built = True


class _Cell(_CELLS.RNNCell):
    """A cell whose state and output have the shapes that `__init__` set."""

    _state_shape: Any
    _output_shape: Any

    @property
    def state_size(self) -> Any:
        return self._state_shape

    @property
    def output_size(self) -> Any:
        return self._output_shape


class UGRNNCell(_Cell):
    """
    The update gate RNN (https://arxiv.org/abs/1611.09913).

    Args:
        num_units: the size of the state and of the output.
        initializer: initializer of the weights.
        forget_bias: added to the gate.
        activation: the activation of the candidate.
        reuse: reuse existing variables.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Callable[[Any], Any] = tf.tanh,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._state_shape = self._output_shape = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the output and the next state."""
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gate, candidate = tf.split(linear([inputs, state], 2 * self._state_shape), 2, axis=1)
        gate = tf.sigmoid(gate + self._forget_bias)
        output = gate * state + (1.0 - gate) * self._activation(candidate)
        return output, output


class LayerNormBasicLSTMCell(_Cell):
    """
    An LSTM cell with layer normalization and recurrent dropout (https://arxiv.org/abs/1607.06450, 1603.05118).

    Args:
        num_units: the size of both states and of the output.
        forget_bias: added to the forget gate.
        input_size: ignored.
        activation: the activation of the states.
        layer_norm: normalize the gates and the cell state.
        norm_gain, norm_shift: initial values of the normalization.
        dropout_keep_prob: the fraction of new information that is kept, a number or a tensor.
        dropout_prob_seed: the seed of the dropout.
        reuse: reuse existing variables.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: int | None = None,
        activation: Callable[[Any], Any] = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = self._output_shape = num_units
        self._state_shape = LSTMStateTuple(num_units, num_units)
        self._activation, self._forget_bias = activation, forget_bias
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """Return the output and the next state."""
        c, h = state
        gates = linear([inputs, h], 4 * self._num_units, use_bias=not self._layer_norm)
        i, j, f, o = tf.split(gates, 4, axis=1)
        if self._layer_norm:
            i, j = self._norm(i, "input"), self._norm(j, "transform")
            f, o = self._norm(f, "forget"), self._norm(o, "output")
        new = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            new = dropout(new, rate=1 - self._keep_prob, seed=self._seed)
        c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * new
        if self._layer_norm:
            c = self._norm(c, "state")
        h = self._activation(c) * tf.sigmoid(o)
        return h, LSTMStateTuple(c, h)

    def _norm(self, x: tf.Tensor, scope: str) -> tf.Tensor:
        shape = [self._num_units]
        with tf.variable_scope(scope):
            gamma = tf.get_variable("gamma", shape, x.dtype, initializer=tf.constant_initializer(self._gain))
            beta = tf.get_variable("beta", shape, x.dtype, initializer=tf.constant_initializer(self._shift))
        mean, variance = tf.nn.moments(x, [1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


class NASCell(_Cell):
    """
    The cell found by neural architecture search (https://arxiv.org/abs/1611.01578).

    Args:
        num_units: the size of the cell state.
        num_proj: the size of the output, if it is projected.
        use_bias: add a bias to the recurrent part.
        reuse: reuse existing variables.
        kwargs: see `tf.nn.rnn_cell.RNNCell`.
    """

    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_bias: bool = False,
        reuse: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units, self._num_proj, self._use_bias = num_units, num_proj, use_bias
        self._output_shape = num_proj or num_units
        self._state_shape = LSTMStateTuple(num_units, self._output_shape)

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """Return the output and the next state."""
        c, m = state
        size = 8 * self._num_units
        recurrent = tf.matmul(m, tf.get_variable("recurrent_kernel", [self._output_shape, size], m.dtype))
        new = tf.matmul(inputs, tf.get_variable("kernel", [inputs.shape.as_list()[1], size], m.dtype))
        if self._use_bias:
            bias = tf.get_variable("bias", [size], m.dtype, initializer=tf.zeros_initializer())
            recurrent = tf.nn.bias_add(recurrent, bias)
        a, b = tf.split(recurrent, 8, axis=1), tf.split(new, 8, axis=1)
        first = tf.tanh(tf.sigmoid(b[0] + a[0]) * tf.nn.relu(b[1] + a[1]))
        second = tf.tanh(tf.sigmoid(b[2] + a[2]) + tf.nn.relu(b[3] * a[3]))
        third = tf.tanh(tf.tanh(b[4] + a[4]) * tf.sigmoid(b[5] + a[5]))
        fourth = tf.sigmoid(tf.tanh(b[6] + a[6]) + tf.sigmoid(b[7] + a[7]))
        c = tf.tanh(first + c) * second
        m = tf.tanh(c * tf.tanh(third + fourth))
        if self._num_proj is not None:
            shape = [self._num_units, self._num_proj]
            m = tf.matmul(m, tf.get_variable("projection_weights", shape, m.dtype))
        return m, LSTMStateTuple(c, m)


class IndRNNCell(_Cell):
    """
    The independently recurrent cell (https://arxiv.org/abs/1803.04831).

    Args:
        num_units: the size of the state and of the output.
        activation: the activation; None means tanh.
        reuse, name, dtype: see `tf.nn.rnn_cell.RNNCell`.
    """

    def __init__(
        self,
        num_units: int,
        activation: Callable[[Any], Any] | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._state_shape = self._output_shape = num_units
        self._activation = activation or tf.tanh

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the output and the next state."""
        units, dtype = self._state_shape, inputs.dtype
        weights = tf.get_variable("kernel_w", [inputs.shape.as_list()[1], units], dtype)
        uniform = tf.random_uniform_initializer(-1, 1, dtype=dtype)
        recurrent = tf.get_variable("kernel_u", [1, units], dtype, initializer=uniform)
        bias = tf.get_variable("bias", [units], dtype, initializer=tf.zeros_initializer())
        output = self._activation(tf.nn.bias_add(tf.matmul(inputs, weights) + state * recurrent, bias))
        return output, output


class ConvLSTMCell(_Cell):
    """
    An LSTM cell whose states are images and whose products are convolutions (https://arxiv.org/abs/1506.04214).

    Args:
        conv_ndims: the number of spatial axes: 1, 2 or 3.
        input_shape: shape of one input, e.g. [height, width, channels].
        output_channels: channels of the output.
        kernel_shape: shape of the kernel, e.g. [3, 3].
        use_bias: add a bias.
        skip_connection: append the input to the output.
        forget_bias: added to the forget gate.
        initializers: ignored, as in TensorFlow 1.
        name: the name of the layer.

    Raises:
        ValueError: `input_shape` does not have `conv_ndims + 1` elements.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(
                f"ConvLSTMCell: input_shape must have {conv_ndims + 1} elements for conv_ndims={conv_ndims}, "
                f"got {list(input_shape)}."
            )
        *space, channels = input_shape
        self._channels, self._kernel_shape = output_channels, list(kernel_shape)
        self._use_bias, self._skip, self._forget_bias = use_bias, skip_connection, forget_bias
        state = tf.TensorShape([*space, output_channels])
        self._state_shape = LSTMStateTuple(state, state)
        self._output_shape = tf.TensorShape([*space, output_channels + (channels if skip_connection else 0)])

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """Return the output and the next state."""
        c, h = state
        i, j, f, o = tf.split(self._convolve(tf.concat([inputs, h], -1)), 4, axis=-1)
        c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        if self._skip:
            h = tf.concat([h, inputs], axis=-1)
        return h, LSTMStateTuple(c, h)

    def _convolve(self, x: tf.Tensor) -> tf.Tensor:
        size = 4 * self._channels
        kernel = tf.get_variable("kernel", [*self._kernel_shape, x.shape.as_list()[-1], size], x.dtype)
        result = tf.nn.convolution(x, kernel, padding="SAME")
        if not self._use_bias:
            return result
        return result + tf.get_variable("biases", [size], x.dtype, initializer=tf.zeros_initializer())


class Conv1DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` with one spatial axis. The arguments are those after `conv_ndims`."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` with two spatial axes. The arguments are those after `conv_ndims`."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` with three spatial axes. The arguments are those after `conv_ndims`."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)

"""Recurrent cells: one step in time, with the variables of the cells in `tf.nn.rnn_cell`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Tuple

from ..compat import tfv1 as tf
from ..compat.variables import get_variable
from ..tfutils.early_read import shared_read
from .recurrent_product import Product, multiply_last_axis

Step = Callable[[Any, Any], Any]
MultiplySteps = Callable[[List[tf.Tensor], tf.Tensor], Tuple[Any, Product]]


class LSTMStateTuple(NamedTuple):
    """State of an LSTM: the memory `c` [N, units] and the output `h` [N, units], in this order as in TensorFlow 1."""

    c: tf.Tensor
    h: tf.Tensor


@dataclass(eq=False)
class RecurrentCell:
    """
    Base class for cells.

    Args:
        units: size of the output.
        kernel_initializer: None means the initializer of the variable scope, or Glorot's uniform distribution.
        kernel_regularizer: kernel -> scalar, collected in REGULARIZATION_LOSSES.

    Attributes:
        layer: name of the layer, for messages.
        scope: name of the variable scope that holds the variables of the cell.
    """

    units: int
    kernel_initializer: Callable[..., tf.Tensor] | None = None
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None

    layer = ""
    scope = ""

    def make_state(self, make_part: Callable[[], Any]) -> Any:
        """Return a state, calling `make_part` for each part."""
        raise NotImplementedError

    def output_of(self, state: Any) -> tf.Tensor:
        """Return the output, which is part of a state."""
        raise NotImplementedError

    def build(self, pieces: list[tf.Tensor], multiply_steps: MultiplySteps) -> tuple[Any, Step, dict[str, tf.Variable]]:
        """
        Create the variables, and compute what does not depend on the state, for all steps of a piece at once.

        Args:
            pieces: the inputs, one piece or several, each [steps, N, D].
            multiply_steps: takes pieces [steps, N, M] and a matrix [K, M]. Returns the inputs of all steps, and the product by
                which a step multiplies [N, K] by the matrix, once; see `recurrent_product`.

        Returns:
            The inputs of the steps, each part [T, N, C] or `Unstacked`; the step, a function (state, inputs with parts [N, C]) ->
            next state that creates no variables; and the variables by name.
        """
        raise NotImplementedError

    def _make_layer(
        self, inputs: tf.Tensor, size: int, bias: float, prefix: str = ""
    ) -> tuple[tf.Variable, tf.Variable]:
        """Create the kernel [D + units, size] and bias [size] of a linear map of the inputs and the previous output."""
        dtype = inputs.dtype.base_dtype
        kernel = get_variable(
            f"{prefix}kernel",
            [inputs.shape.as_list()[2] + self.units, size],
            dtype=dtype,
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        initializer = tf.constant_initializer(bias)
        return kernel, get_variable(f"{prefix}bias", [size], dtype=dtype, initializer=initializer)

    def _split(self, kernel: tf.Variable) -> list[tf.Tensor]:
        """Split a kernel into the rows for the inputs and those for the previous output."""
        value = shared_read(kernel)
        return tf.split(value, [kernel.shape.as_list()[0] - self.units, self.units])


@dataclass(eq=False)
class LSTMCell(RecurrentCell):
    """
    Long short-term memory as in `tf.nn.rnn_cell.LSTMCell`, without peepholes and projection.

    Args:
        units, kernel_initializer, kernel_regularizer: as in RecurrentCell.
        forget_bias: added to the input of the forget gate, in addition to the variable `bias`.
    """

    forget_bias: float = 1.0

    layer = "LSTM"
    scope = "lstm_cell"

    def make_state(self, make_part: Callable[[], Any]) -> LSTMStateTuple:
        """Return a memory and an output."""
        return LSTMStateTuple(make_part(), make_part())

    def output_of(self, state: LSTMStateTuple) -> tf.Tensor:
        """Return `h`."""
        return state.h

    def build(self, pieces: list[tf.Tensor], multiply_steps: MultiplySteps) -> tuple[Any, Step, dict[str, tf.Variable]]:
        """Create `kernel` and `bias`. The inputs of the steps are those of the gates i, j, f and o."""
        kernel, bias = self._make_layer(pieces[0], 4 * self.units, 0.0)
        from_input, from_output = self._split(kernel)
        ones = [1.0] * self.units
        offset = [gate * unit for gate in (0.0, 0.0, self.forget_bias, 0.0) for unit in ones]
        total_bias = shared_read(bias) + tf.constant(offset, bias.dtype.base_dtype)
        gates, product = multiply_steps(
            [multiply_last_axis(piece, from_input) + total_bias for piece in pieces], from_output
        )

        def step(state: LSTMStateTuple, gates: tf.Tensor) -> LSTMStateTuple:
            gates += product(state.h)
            i, j, f, o = tf.split(gates, 4, axis=1)
            c = tf.sigmoid(f) * state.c + tf.sigmoid(i) * tf.tanh(j)
            return LSTMStateTuple(c, tf.sigmoid(o) * tf.tanh(c))

        return gates, step, {"kernel": kernel, "bias": bias}


class GRUCell(RecurrentCell):
    """Gated recurrent unit as in `tf.nn.rnn_cell.GRUCell`: the reset gate acts before the matrix of the candidate."""

    layer = "GRU"
    scope = "gru_cell"

    def make_state(self, make_part: Callable[[], Any]) -> Any:
        """Return a single part."""
        return make_part()

    def output_of(self, state: Any) -> tf.Tensor:
        """Return the state."""
        return state

    def build(self, pieces: list[tf.Tensor], multiply_steps: MultiplySteps) -> tuple[Any, Step, dict[str, tf.Variable]]:
        """Create two kernels and biases. The inputs of the steps are those of the gates r and u and of the candidate."""
        units = self.units
        gates_kernel, gates_bias = self._make_layer(pieces[0], 2 * units, 1.0, "gates/")
        candidate_kernel, candidate_bias = self._make_layer(pieces[0], units, 0.0, "candidate/")
        gates_from_input, gates_from_output = self._split(gates_kernel)
        candidate_from_input, candidate_from_output = self._split(candidate_kernel)
        kernel = tf.concat([gates_from_input, candidate_from_input], 1)
        bias = tf.concat([shared_read(gates_bias), shared_read(candidate_bias)], 0)
        both = [tf.split(multiply_last_axis(piece, kernel) + bias, [2 * units, units], axis=2) for piece in pieces]
        gates, gates_product = multiply_steps([piece for piece, _ in both], gates_from_output)
        candidate, candidate_product = multiply_steps([piece for _, piece in both], candidate_from_output)

        def step(state: Any, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            gates, candidate = inputs
            reset, update = tf.split(tf.sigmoid(gates + gates_product(state)), 2, axis=1)
            candidate = tf.tanh(candidate + candidate_product(reset * state))
            return update * state + (1 - update) * candidate

        variables = {
            "gates_kernel": gates_kernel,
            "gates_bias": gates_bias,
            "candidate_kernel": candidate_kernel,
            "candidate_bias": candidate_bias,
        }
        return (gates, candidate), step, variables

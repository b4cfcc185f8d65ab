"""
Recurrent layers, with the variables and results of `tf.nn.dynamic_rnn` and its relatives, which TensorFlow 2.16 removed.

The layers read their variables and multiply the inputs with the kernel before the loop over time, for all steps at once.
"""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf
from .arguments import convert_to_tflayer_args
from .checks import layer_title
from .recurrent_cells import GRUCell, LSTMCell, LSTMStateTuple, RecurrentCell
from .registry import layer_register
from .shape_utils import StaticDynamicShape
from .variables import VariableHolder

__all__ = ["GRU", "LSTM", "LSTMStateTuple"]

_ARGUMENTS = ["units", "num_layers", "bidirectional"]


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=_ARGUMENTS, name_mapping={"num_units": "units"})
def LSTM(
    inputs: Any,
    units: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    *,
    sequence_length: Any = None,
    mask: Any = None,
    initial_state: Any = None,
    time_major: bool = False,
    forget_bias: float = 1.0,
    kernel_initializer: Any = None,
    kernel_regularizer: Any = None,
) -> tuple[Any, Any]:
    """
    Run long short-term memory over sequences, called `LSTM(name, inputs, units, ...)`.

    With [i, j, f, o] = [x, h] kernel + bias, a step computes c = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j) and
    h = sigmoid(o) tanh(c), where [x, h] are the input of the step and the output of the step before.

    Shapes: [N, T, D] -> [N, T, units], or [N, T, 2 * units] if bidirectional.

    Args:
        inputs: [N, T, D] of any floating dtype; N and T may be unknown. Variables have its dtype.
        units: size of the output and of the memory. `num_units` is another name for it.
        num_layers: how many layers to stack: each takes the outputs of the one before it.
        bidirectional: run a second cell from the end of the sequences to their beginning in each layer, and concatenate the
            outputs of both, those of the forward cell first.
        sequence_length: [N] integers, the number of steps before the padding. None: there is no padding.
        mask: [N, T], false or 0 where a step is padding. With `sequence_length` as well, padding is what either of them says.
        initial_state: a state in the form that the layer returns, made of tensors or arrays; a list or tuple may stand for each
            tuple in it. None means zeros.
        time_major: inputs, mask and outputs are [T, N, ...]. This saves the layer two transpositions.
        forget_bias: added to f. It is not part of the variable `bias`.
        kernel_initializer: None means the initializer of the variable scope, or Glorot's uniform distribution.
        kernel_regularizer: kernel -> scalar, collected in REGULARIZATION_LOSSES.

    Returns:
        A pair `outputs, state`. `outputs` is a tensor named `<name>/output`, with `.variables`. It is 0 at padding, where the
        state stays as it was. `state` is an `LSTMStateTuple` with `.c` and `.h`, each [N, units]. With more than one layer it
        is a tuple of them, one per layer. If bidirectional, it is a pair (forward, backward) of these.

    Raises:
        ValueError: the inputs have the wrong rank or dtype or an unknown D; `units` or `num_layers` is not positive;
            `sequence_length`, `mask` or `initial_state` does not fit the inputs.

    Variables: `lstm_cell/kernel` [D + units, 4 * units] and `lstm_cell/bias` [4 * units], trained. Their prefix is that of the
        function in TensorFlow 1 which does the same, with the name of the layer as its `scope`. With several layers it is
        `multi_rnn_cell/cell_<i>/`, as of `dynamic_rnn` over a `MultiRNNCell`; if bidirectional `fw/` and `bw/`, as of
        `bidirectional_dynamic_rnn`; for both `cell_<i>/bidirectional_rnn/fw/` and `bw/`, as of
        `stack_bidirectional_dynamic_rnn`. So `LSTM("rnn", ...)` loads the checkpoint of a `tf.nn.dynamic_rnn` with an
        `LSTMCell` and without `scope`. `outputs.variables` has `kernel` and `bias`, with prefixes such as `cell_0_fw_`.

    Example:
        >>> outputs, state = LSTM("rnn", embedded, 128, sequence_length=length)
        >>> logits = FullyConnected("scores", state.h, 10)

    Source: Hochreiter, Schmidhuber 1997, "Long short-term memory"; Gers et al. 2000 for the forget gate.
    """
    cell = LSTMCell(
        units, forget_bias, kernel_initializer=kernel_initializer, kernel_regularizer=kernel_regularizer
    )
    return _run_layers(
        "LSTM", cell, inputs, num_layers, bidirectional, sequence_length, mask, initial_state, time_major
    )


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=_ARGUMENTS, name_mapping={"num_units": "units"})
def GRU(
    inputs: Any,
    units: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    *,
    sequence_length: Any = None,
    mask: Any = None,
    initial_state: Any = None,
    time_major: bool = False,
    kernel_initializer: Any = None,
    kernel_regularizer: Any = None,
) -> tuple[Any, Any]:
    """
    Run gated recurrent units over sequences, called `GRU(name, inputs, units, ...)`.

    With [r, u] = sigmoid([x, h] gates/kernel + gates/bias), a step computes the candidate
    c = tanh([x, r h] candidate/kernel + candidate/bias) and h = u h + (1 - u) c.

    Shapes: [N, T, D] -> [N, T, units], or [N, T, 2 * units] if bidirectional.

    Args:
        inputs, units, num_layers, bidirectional, sequence_length, mask, initial_state, time_major: as in LSTM.
        kernel_initializer, kernel_regularizer: as in LSTM, for both kernels.

    Returns:
        A pair `outputs, state` as of LSTM, where the state of a cell is a tensor [N, units].

    Raises:
        ValueError: as in LSTM.

    Variables: `gru_cell/gates/kernel` [D + units, 2 * units] and `gru_cell/gates/bias`, which starts at 1;
        `gru_cell/candidate/kernel` [D + units, units] and `gru_cell/candidate/bias`. All are trained. Prefixes are those of
        LSTM. `outputs.variables` has `gates_kernel`, `gates_bias`, `candidate_kernel` and `candidate_bias`.

    Note: cuDNN and PyTorch apply r after the matrix of the candidate, so their weights do not fit.

    Source: Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder".
    """
    cell = GRUCell(units, kernel_initializer=kernel_initializer, kernel_regularizer=kernel_regularizer)
    return _run_layers(
        "GRU", cell, inputs, num_layers, bidirectional, sequence_length, mask, initial_state, time_major
    )


def _run_layers(
    layer: str,
    cell: RecurrentCell,
    inputs: Any,
    num_layers: int,
    bidirectional: bool,
    sequence_length: Any,
    mask: Any,
    initial_state: Any,
    time_major: bool,
) -> tuple[Any, Any]:
    """Run all cells of a layer, one loop over time for each; arguments as in LSTM."""
    x = _require_sequences(layer, inputs)
    if not cell.units >= 1 or cell.units != int(cell.units):
        raise ValueError(f"{layer_title(layer)}: units is {cell.units} (expected a positive integer).")
    if num_layers < 1:
        raise ValueError(f"{layer_title(layer)}: num_layers is {num_layers} (expected at least 1).")
    valid = _find_valid_steps(layer, x, sequence_length, mask, time_major)
    x = x if time_major else tf.transpose(x, [1, 0, 2])
    x, states = _make_initial_states(layer, cell, x, 1 + bool(bidirectional), num_layers, initial_state)
    variables = {}
    for number in range(num_layers):
        outputs = []
        for backward, of_direction in enumerate(states):
            scope = _scope_of_cell(number, num_layers, bidirectional, backward)
            with tf.variable_scope("/".join([*scope, cell.scope])):
                output, of_direction[number], of_cell = _run_cell(
                    cell, x, of_direction[number], valid, bool(backward)
                )
            outputs.append(output)
            prefix = "".join(f"{part}_" for part in scope if "rnn" not in part)
            variables.update((prefix + name, variable) for name, variable in of_cell.items())
        x = tf.concat(outputs, 2) if bidirectional else outputs[0]
    outputs = tf.identity(x if time_major else tf.transpose(x, [1, 0, 2]), name="output")
    outputs.variables = VariableHolder(**variables)
    return outputs, _pack(states)


def _scope_of_cell(number: int, num_layers: int, bidirectional: bool, backward: int) -> list[str]:
    """Name the scopes around a cell as TensorFlow 1 does."""
    scope = []
    if num_layers > 1:
        cell = f"cell_{number}"
        scope = [cell, "bidirectional_rnn"] if bidirectional else ["multi_rnn_cell", cell]
    return [*scope, "bw" if backward else "fw"] if bidirectional else scope


def _run_cell(
    cell: RecurrentCell, inputs: Any, state: Any, valid: Any, backward: bool
) -> tuple[Any, Any, dict[str, Any]]:
    """
    Run one cell along the first axis of its inputs.

    Args:
        inputs: [T, N, D].
        state: the first state.
        valid: [T, N] bool, false at padding, or None.
        backward: whether to start at the last step.

    Returns:
        The outputs [T, N, units], the last state, and the variables by name.
    """
    inputs, step, variables = cell.build(inputs)

    def step_or_keep(state: Any, inputs_and_valid: Any) -> Any:
        inputs, valid = inputs_and_valid
        following = step(state, inputs)
        return tf.nest.map_structure(lambda new, old: tf.where(valid, new, old), following, state)

    if valid is None:
        states = tf.scan(step, inputs, state, reverse=backward)
    else:
        states = tf.scan(step_or_keep, (inputs, valid), state, reverse=backward)
    outputs = cell.output_of(states)
    if valid is not None:
        outputs *= tf.expand_dims(tf.cast(valid, outputs.dtype), 2)
    last = 0 if backward else -1
    return outputs, tf.nest.map_structure(lambda part: part[last], states), variables


def _require_sequences(layer: str, inputs: Any) -> Any:
    inputs = tf.convert_to_tensor(inputs)
    if inputs.shape.ndims != 3 or inputs.shape.as_list()[2] is None:
        raise ValueError(
            f"{layer_title(layer)}: input has shape {inputs.shape} (expected three axes: datapoints, steps, and features of "
            "known size). Use x.set_shape(...) if the size is only unknown to TensorFlow."
        )
    if not inputs.dtype.is_floating:
        raise ValueError(
            f"{layer_title(layer)}: input has dtype {inputs.dtype.name} (expected a floating dtype). Look up an embedding of "
            "integers with tf.nn.embedding_lookup, or use tf.cast."
        )
    return inputs


def _find_valid_steps(layer: str, inputs: Any, sequence_length: Any, mask: Any, time_major: bool) -> Any:
    """Return a mask of the steps before the padding, [T, N] bool, or None if all sequences are complete."""
    valid = []
    if sequence_length is not None:
        sequence_length = tf.convert_to_tensor(sequence_length)
        batch = inputs.shape[1:2] if time_major else inputs.shape[:1]
        _require_shape(layer, "sequence_length", sequence_length, batch)
        if not sequence_length.dtype.is_integer:
            raise ValueError(
                f"{layer_title(layer)}: sequence_length has dtype {sequence_length.dtype.name} (expected integers)."
            )
        count = StaticDynamicShape(inputs).get_dynamic(0 if time_major else 1)
        valid.append(tf.transpose(tf.sequence_mask(sequence_length, count)))
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        _require_shape(layer, "mask", mask, inputs.shape[:2])
        valid.append(mask if time_major else tf.transpose(mask))
    return None if not valid else tf.reduce_all(tf.stack(valid), 0) if len(valid) > 1 else valid[0]


def _make_initial_states(
    layer: str, cell: RecurrentCell, inputs: Any, directions: int, num_layers: int, given: Any
) -> tuple[Any, list[list[Any]]]:
    """Return the inputs [T, N, D], and `states[direction][layer]`; all of them agree on what is known of N."""

    def make_states(make_part: Callable[[], Any]) -> list[list[Any]]:
        return [[cell.make_state(make_part) for _ in range(num_layers)] for _ in range(directions)]

    if given is None:
        zeros = tf.zeros([StaticDynamicShape(inputs).get_dynamic(1), cell.units], inputs.dtype)
        return inputs, make_states(lambda: zeros)
    form = _pack(make_states(lambda: f"[N, {cell.units}]"))
    try:
        tf.nest.assert_same_structure(form, given, check_types=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{layer_title(layer)}: initial_state is {given!r} (expected the form of the state that the layer returns, "
            f"{form!r})."
        ) from error
    parts = [tf.cast(part, inputs.dtype) for part in tf.nest.flatten(given)]
    batch = inputs.shape[1:2]
    for part in parts:
        _require_shape(layer, "a part of initial_state", part, batch.concatenate([cell.units]))
        batch = batch.merge_with(part.shape[:1])
    inputs = tf.ensure_shape(inputs, inputs.shape[:1].concatenate(batch).concatenate(inputs.shape[2:]))
    shaped = iter([tf.ensure_shape(part, batch.concatenate([cell.units])) for part in parts])
    return inputs, make_states(lambda: next(shaped))


def _require_shape(layer: str, what: str, tensor: Any, shape: Any) -> None:
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(f"{layer_title(layer)}: {what} has shape {tensor.shape} (expected {shape}).")


def _pack(states: list[list[Any]]) -> Any:
    """Give the states of all cells, `states[direction][layer]`, the form that users see."""
    by_direction = [layers[0] if len(layers) == 1 else tuple(layers) for layers in states]
    return by_direction[0] if len(by_direction) == 1 else tuple(by_direction)

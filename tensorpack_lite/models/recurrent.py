"""
Recurrent layers with the variables and results of `tf.nn.dynamic_rnn` and similar functions, which TensorFlow
2.16 removed.

The layers read their variables before the first step. Few steps, if their number is known, follow each other in the graph;
otherwise they are a loop, before which the inputs of all steps are multiplied by the kernel.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from ..compat import tfv1 as tf
from ..tfutils.precision import to_float32
from ..tfutils.tower.context import get_current_tower_context
from .arguments import convert_to_tflayer_args
from .checks import layer_title, refuse_tape_around_loop, require_integer, require_sequences, require_shape
from .outputs import name_output
from .recurrent_cells import GRUCell, LSTMCell, RecurrentCell, Step
from .recurrent_cells import LSTMStateTuple as LSTMStateTuple
from .recurrent_product import Unstacked, cut, multiply_in_loop, multiply_unrolled
from .registry import layer_register
from .shape_utils import StaticDynamicShape

_ARGUMENTS = ["units", "num_layers", "bidirectional"]
_MOST_UNROLLED = 64  # with more steps, building the graph takes seconds


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=_ARGUMENTS, name_mapping={"num_units": "units"})
def LSTM(
    inputs: tf.Tensor,
    units: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    *,
    sequence_length: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
    initial_state: Any = None,
    time_major: bool = False,
    unroll: bool | None = None,
    forget_bias: float = 1.0,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tuple[tf.Tensor, Any]:
    """
    Run long short-term memory over sequences, called `LSTM(name, inputs, units, ...)`.

    With [i, j, f, o] = [x, h] kernel + bias, a step computes c = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j) and
    h = sigmoid(o) tanh(c), where [x, h] are the input of the step and the output of the step before.

    Shapes: [N, T, D] -> [N, T, units], or [N, T, 2 * units] if bidirectional.

    Args:
        inputs: [N, T, D] of any floating dtype; N and T may be unknown. Variables have its dtype.
        units: the size of the output and of the memory; any integral number. Another name is `num_units`.
        num_layers: the number of stacked layers. Each one takes the outputs of the one below.
        bidirectional: whether each layer also runs a second cell from the end of the sequences to their
            beginning. The outputs of both cells are concatenated, those of the forward cell first.
        sequence_length: [N] integers, the number of steps before the padding. None: the sequences have no padding.
        mask: [N, T], false or 0 where a step is padding. With `sequence_length`, a step is valid if both say so.
        initial_state: a state in the form that the layer returns, with tensors or arrays, and with tuples or
            lists. None means zeros.
        time_major: whether inputs, mask and outputs are [T, N, ...], which saves two transpositions.
        unroll: whether the steps follow each other in the graph, instead of being a loop. The results are the same. On a CPU, a
            training step then takes 0.3 to 0.9 of the time with a loop, and the first one starts 20 ms later for
            each step of a cell; see docs/recurrent.md. None: if T is known and at most 64.
        forget_bias: added to f, in addition to the variable `bias`.
        kernel_initializer: None means the initializer of the variable scope, or Glorot's uniform distribution.
        kernel_regularizer: kernel -> scalar, collected in REGULARIZATION_LOSSES.

    Returns:
        A pair `outputs, state`. `outputs` is a tensor named `<name>/output`, with `.variables`. Padding has
        output 0 and does not change the state, whatever its values are, even NaN. `state` is an `LSTMStateTuple`
        with `.c` and `.h`, each [N, units]; with several layers, a tuple with one such tuple per layer; if
        bidirectional, a pair (forward, backward) of these.

    Raises:
        ValueError: the inputs have the wrong rank or dtype or an unknown D; `units` or `num_layers` is not a
            positive integer; `sequence_length`, `mask` or `initial_state` does not fit the inputs; `unroll` is true
            and T is unknown; T is 0.
        TypeError: `units` or `num_layers` is not a number.
        RuntimeError: on TensorFlow 2, a gradient tape is recording a loop of TensorFlow 1, inside which tapes do not see.

    Variables: `lstm_cell/kernel` [D + units, 4 * units] and `lstm_cell/bias` [4 * units], trained. The prefix
        is that of the equivalent function of TensorFlow 1, with the name of the layer as `scope`: for several
        layers `multi_rnn_cell/cell_<i>/`, as in `dynamic_rnn` with a `MultiRNNCell`; if bidirectional `fw/`
        and `bw/`, as in `bidirectional_dynamic_rnn`; for both `cell_<i>/bidirectional_rnn/fw/` and `bw/`, as
        in `stack_bidirectional_dynamic_rnn`. So `LSTM("rnn", ...)` loads the checkpoint of a
        `tf.nn.dynamic_rnn` with an `LSTMCell` and without `scope`. `outputs.variables` has `kernel` and
        `bias`, with prefixes such as `cell_0_fw_`.

    Example:
        >>> outputs, state = LSTM("rnn", embedded, 128, sequence_length=length)
        >>> logits = FullyConnected("scores", state.h, 10)

    Source: Hochreiter, Schmidhuber 1997, "Long short-term memory"; Gers et al. 2000 for the forget gate.
    """
    cell = LSTMCell(require_integer("LSTM", "units", units), kernel_initializer, kernel_regularizer, forget_bias)
    return _run_layers(
        cell, inputs, num_layers, bidirectional, sequence_length, mask, initial_state, time_major, unroll
    )


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=_ARGUMENTS, name_mapping={"num_units": "units"})
def GRU(
    inputs: tf.Tensor,
    units: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    *,
    sequence_length: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
    initial_state: Any = None,
    time_major: bool = False,
    unroll: bool | None = None,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tuple[tf.Tensor, Any]:
    """
    Run gated recurrent units over sequences, called `GRU(name, inputs, units, ...)`.

    With [r, u] = sigmoid([x, h] gates/kernel + gates/bias), a step computes the candidate
    c = tanh([x, r h] candidate/kernel + candidate/bias) and h = u h + (1 - u) c.

    Shapes: [N, T, D] -> [N, T, units], or [N, T, 2 * units] if bidirectional.

    Args:
        inputs, units, num_layers, bidirectional, sequence_length, mask, initial_state, time_major, unroll: as in LSTM.
        kernel_initializer, kernel_regularizer: as in LSTM, for both kernels.

    Returns:
        A pair `outputs, state` as in LSTM, where the state of a cell is a tensor [N, units].

    Raises:
        ValueError, TypeError, RuntimeError: as in LSTM.

    Variables: `gru_cell/gates/kernel` [D + units, 2 * units] and `gru_cell/gates/bias`, which starts at 1;
        `gru_cell/candidate/kernel` [D + units, units] and `gru_cell/candidate/bias`. All are trained, and have the
        same prefixes as in LSTM. `outputs.variables` has `gates_kernel`, `gates_bias`, `candidate_kernel` and
        `candidate_bias`.

    Note: cuDNN and PyTorch apply r after the matrix of the candidate, so their weights are not compatible.

    Source: Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder".
    """
    cell = GRUCell(require_integer("GRU", "units", units), kernel_initializer, kernel_regularizer)
    return _run_layers(
        cell, inputs, num_layers, bidirectional, sequence_length, mask, initial_state, time_major, unroll
    )


def _run_layers(
    cell: RecurrentCell,
    inputs: tf.Tensor,
    num_layers: int,
    bidirectional: bool,
    sequence_length: tf.Tensor | None,
    mask: tf.Tensor | None,
    initial_state: Any,
    time_major: bool,
    unroll: bool | None,
) -> tuple[tf.Tensor, Any]:
    """Run all cells of a layer, one after the other; arguments as in LSTM."""
    layer = cell.layer
    x = require_sequences(layer, to_float32(tf.convert_to_tensor(inputs)))
    run_steps = _unrolled if _is_unrolled(layer, x.shape.as_list()[0 if time_major else 1], unroll) else _scan
    if run_steps is _scan:
        refuse_tape_around_loop(layer)
    num_layers = require_integer(layer, "num_layers", num_layers)
    valid = _find_valid_steps(layer, x, sequence_length, mask, time_major)
    x = x if time_major else tf.transpose(x, [1, 0, 2])
    if valid is not None:  # NaN in the padding would become NaN in the gradient of the kernel: 0 * NaN
        x = tf.where_v2(tf.expand_dims(valid, 2), x, tf.zeros([], x.dtype))
    x, states = _make_initial_states(cell, x, 1 + bool(bidirectional), num_layers, initial_state)
    variables: dict[str, Any] = {}
    for number in range(num_layers):
        outputs = []
        for backward, of_direction in enumerate(states):
            scope = _scope_of_cell(number, num_layers, bidirectional, backward)
            with tf.variable_scope("/".join([*scope, cell.scope])):
                output, of_direction[number], of_cell = _run_cell(
                    cell, x, of_direction[number], valid, bool(backward), run_steps
                )
            outputs.append(output)
            prefix = "".join(f"{part}_" for part in scope if "rnn" not in part)
            variables.update((prefix + name, variable) for name, variable in of_cell.items())
        x = tf.concat(outputs, 2) if bidirectional else outputs[0]
    return name_output(x if time_major else tf.transpose(x, [1, 0, 2]), **variables), _pack(states)


def _scope_of_cell(number: int, num_layers: int, bidirectional: bool, backward: int) -> list[str]:
    """Return the scopes around a cell, named as in TensorFlow 1."""
    scope = []
    if num_layers > 1:
        cell = f"cell_{number}"
        scope = [cell, "bidirectional_rnn"] if bidirectional else ["multi_rnn_cell", cell]
    return [*scope, "bw" if backward else "fw"] if bidirectional else scope


def _run_cell(
    cell: RecurrentCell,
    inputs: tf.Tensor,
    state: Any,
    valid: tf.Tensor | None,
    backward: bool,
    run_steps: Callable[[Step, object, Any, bool], object],
) -> tuple[tf.Tensor, Any, dict[str, tf.Variable]]:
    """
    Run one cell along the first axis of its inputs.

    Args:
        inputs: [T, N, D].
        state: the initial state.
        valid: [T, N] bool, false at padding, or None.
        backward: whether to start at the last step.
        run_steps: `_scan` or `_unrolled`.

    Returns:
        The outputs [T, N, units], the last state, and the variables by name.
    """
    if run_steps is _scan:
        inputs, step, variables = cell.build([inputs], multiply_in_loop)
    else:
        context = get_current_tower_context()
        training = context is None or context.is_training
        multiply_steps = partial(multiply_unrolled, backward=backward, training=training)
        inputs, step, variables = cell.build(cut(inputs), multiply_steps)

    def step_or_keep(state: Any, inputs_and_valid: tuple[tf.Tensor, tf.Tensor]) -> Any:
        inputs, valid = inputs_and_valid
        following = step(state, inputs)
        return tf.nest.map_structure(lambda new, old: tf.where(valid, new, old), following, state)

    if valid is None:
        states = run_steps(step, inputs, state, backward)
    else:
        states = run_steps(step_or_keep, (inputs, valid), state, backward)
    outputs = cell.output_of(states)
    if valid is not None:
        outputs *= tf.expand_dims(tf.cast(valid, outputs.dtype), 2)
    last = 0 if backward else -1
    return outputs, tf.nest.map_structure(lambda part: part[last], states), variables


def _is_unrolled(layer: str, num_steps: int | None, unroll: bool | None) -> bool:
    """Return whether the steps follow each other in the graph; `num_steps` is None if it is unknown."""
    title = layer_title(layer)
    if num_steps == 0:
        raise ValueError(f"{title}: the input has no steps (expected at least one).")
    if num_steps is None:
        if unroll:
            raise ValueError(
                f"{title}: unroll=True needs a known number of steps (got an unknown one). Use x.set_shape(...), or unroll=None."
            )
        return False
    return num_steps <= _MOST_UNROLLED if unroll is None else bool(unroll)


def _scan(step: Step, inputs: object, state: object, backward: bool) -> Any:
    """Return the states after all steps, [T, ...], from a loop."""
    return tf.scan(step, inputs, state, reverse=backward)


def _unrolled(step: Step, inputs: object, state: Any, backward: bool) -> Any:
    """Return the same as `_scan`, from steps that follow each other in the graph."""
    parts = [part.steps if isinstance(part, Unstacked) else tf.unstack(part) for part in tf.nest.flatten(inputs)]
    of_steps = list(zip(*parts))
    states = []
    for of_step in reversed(of_steps) if backward else of_steps:
        state = step(state, tf.nest.pack_sequence_as(inputs, of_step))
        states.append(state)
    states = states[::-1] if backward else states
    return tf.nest.map_structure(lambda *parts: tf.stack(parts), *states)


def _find_valid_steps(
    layer: str, inputs: tf.Tensor, sequence_length: tf.Tensor | None, mask: tf.Tensor | None, time_major: bool
) -> tf.Tensor | None:
    """Return a mask of the steps before the padding, [T, N] bool, or None if all sequences are complete."""
    valid = []
    if sequence_length is not None:
        sequence_length = tf.convert_to_tensor(sequence_length)
        batch = inputs.shape[1:2] if time_major else inputs.shape[:1]
        require_shape(layer, "sequence_length", sequence_length, batch)
        if not sequence_length.dtype.is_integer:
            raise ValueError(
                f"{layer_title(layer)}: sequence_length has the wrong dtype (expected integers, got "
                f"{sequence_length.dtype.name})."
            )
        count = StaticDynamicShape(inputs).get_dynamic(0 if time_major else 1)
        valid.append(tf.transpose(tf.sequence_mask(sequence_length, count)))
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        require_shape(layer, "mask", mask, inputs.shape[:2])
        valid.append(mask if time_major else tf.transpose(mask))
    return None if not valid else tf.reduce_all(tf.stack(valid), 0) if len(valid) > 1 else valid[0]


def _make_initial_states(
    cell: RecurrentCell, inputs: tf.Tensor, directions: int, num_layers: int, initial_state: Any
) -> tuple[tf.Tensor, list[list[Any]]]:
    """Return the inputs [T, N, D] and `states[direction][layer]`. If N is known for one of them, it is known for all."""

    def make_states(make_part: Callable[[], object]) -> list[list[Any]]:
        return [[cell.make_state(make_part) for _ in range(num_layers)] for _ in range(directions)]

    if initial_state is None:
        zeros = tf.zeros([StaticDynamicShape(inputs).get_dynamic(1), cell.units], inputs.dtype)
        return inputs, make_states(lambda: zeros)
    form = _pack(make_states(lambda: f"[N, {cell.units}]"))
    try:
        tf.nest.assert_same_structure(form, initial_state, check_types=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{layer_title(cell.layer)}: initial_state has the wrong form (expected that of the returned state, {form!r}, got "
            f"{initial_state!r})."
        ) from error
    parts = [tf.cast(part, inputs.dtype) for part in tf.nest.flatten(initial_state)]
    batch = inputs.shape[1:2]
    for part in parts:
        require_shape(cell.layer, "a part of initial_state", part, batch.concatenate([cell.units]))
        batch = batch.merge_with(part.shape[:1])
    inputs = tf.ensure_shape(inputs, inputs.shape[:1].concatenate(batch).concatenate(inputs.shape[2:]))
    shaped = iter([tf.ensure_shape(part, batch.concatenate([cell.units])) for part in parts])
    return inputs, make_states(lambda: next(shaped))


def _pack(states: list[list[Any]]) -> Any:
    """Return the states of all cells, `states[direction][layer]`, in the form that users see."""
    by_direction = [layers[0] if len(layers) == 1 else tuple(layers) for layers in states]
    return by_direction[0] if len(by_direction) == 1 else tuple(by_direction)

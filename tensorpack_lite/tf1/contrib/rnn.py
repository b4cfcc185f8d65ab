"""`tf.contrib.rnn`: the cells and functions of `tf.nn`, and further cells and wrappers."""

from __future__ import annotations

from typing import Any, Callable

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=(
        "tf.nn.rnn_cell",
        "tensorpack_lite.tf1.contrib._rnn_cells",
        "tensorpack_lite.tf1.contrib._rnn_wrappers",
        "tensorpack_lite.tf1.contrib._rnn_fused",
        "tf.nn",
    ),
    same=("ops", "core_rnn_cell", "rnn_cell", "rnn", "lstm_ops", "gru_ops", "fused_rnn_cell"),
)


def transpose_batch_time(x: tf.Tensor) -> tf.Tensor:
    """Swap the first two axes of a tensor."""
    result = tf.transpose(x, tf.concat([[1, 0], tf.range(2, tf.rank(x))], 0))
    if x.shape.ndims is not None:
        first, second, *rest = x.shape.as_list()
        result.set_shape([second, first, *rest])
    return result


def best_effort_input_batch_size(flat_input: list[tf.Tensor]) -> Any:
    """Return the static size of axis 1 of the first tensor that has one, or a scalar tensor with this size."""
    for tensor in flat_input:
        size = tensor.shape.as_list()[1] if tensor.shape.ndims else None
        if size is not None:
            return size
    return tf.shape(flat_input[0])[1]


def stack_bidirectional_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: list[tf.Tensor],
    initial_states_fw: list[Any] | None = None,
    initial_states_bw: list[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[tf.Tensor], tuple[Any, ...], tuple[Any, ...]]:
    """
    Build several layers of `tf.nn.static_bidirectional_rnn`, each on the concatenated outputs of the one before.

    Args:
        cells_fw, cells_bw: one cell for each layer.
        inputs: a list of [batch, depth], one for each time step.
        initial_states_fw, initial_states_bw: one state for each layer, or None for zeros.
        dtype, sequence_length: see `tf.nn.static_bidirectional_rnn`.
        scope: the variable scope. The default is "stack_bidirectional_rnn".

    Returns:
        The outputs, and the final states of the layers in both directions.

    Raises:
        ValueError: there are no cells, or different numbers of them.
    """
    settings = {"sequence_length": sequence_length, "dtype": dtype}

    def build(cells: Any, inputs: Any, states: Any, cell_scope: Any) -> tuple[Any, Any, Any]:
        return tf.nn.static_bidirectional_rnn(*cells, inputs, *states, scope=cell_scope, **settings)

    states = (initial_states_fw, initial_states_bw)
    return _stack("stack_bidirectional_rnn", build, cells_fw, cells_bw, inputs, states, scope)


def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: tf.Tensor,
    initial_states_fw: list[Any] | None = None,
    initial_states_bw: list[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[tf.Tensor, tuple[Any, ...], tuple[Any, ...]]:
    """
    Build several layers of `tf.nn.bidirectional_dynamic_rnn`, each on the concatenated outputs of the one before.

    Args: as for `stack_bidirectional_rnn`, but `inputs` is a tensor [batch, time, depth], or [time, batch, depth] with
        `time_major`.

    Returns:
        The outputs, and the final states of the layers in both directions.

    Raises:
        ValueError: there are no cells, or different numbers of them.
    """
    settings = (dtype, parallel_iterations, swap_memory, time_major)

    def build(cells: Any, inputs: Any, states: Any, cell_scope: Any) -> tuple[Any, Any, Any]:
        outputs, finals = tf.nn.bidirectional_dynamic_rnn(*cells, inputs, sequence_length, *states, *settings)
        return (tf.concat(outputs, 2), *finals)

    states = (initial_states_fw, initial_states_bw)
    return _stack("stack_bidirectional_dynamic_rnn", build, cells_fw, cells_bw, inputs, states, scope)


def _stack(
    caller: str,
    build: Callable[..., tuple[Any, Any, Any]],
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    states: tuple[Any, Any],
    scope: Any,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Call `build(cells, inputs, states, scope)`, which returns outputs and both final states, for each layer."""
    if not cells_fw or len(cells_fw) != len(cells_bw):
        raise ValueError(
            f"{caller}: expected as many cells in both directions, got {len(cells_fw)} and {len(cells_bw)}."
        )
    finals = []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, cells in enumerate(zip(cells_fw, cells_bw)):
            with tf.variable_scope(f"cell_{i}") as cell_scope:
                first = [given[i] if given else None for given in states]
                inputs, *both = build(cells, inputs, first, cell_scope)
            finals.append(both)
    finals_fw, finals_bw = zip(*finals)
    return inputs, finals_fw, finals_bw

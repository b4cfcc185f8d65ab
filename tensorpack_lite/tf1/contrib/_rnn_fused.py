"""Fused cells of `tf.contrib.rnn`, which process a whole sequence [time, batch, depth] at once."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf
from ._lookup import import_source


class FusedRNNCell:
    """The interface of fused cells."""

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """
        Process a sequence.

        Args:
            inputs: [time, batch, depth], or a list of [batch, depth].
            initial_state: the state, or None for zeros of `dtype`.
            dtype: the type of the state; required without `initial_state`.
            sequence_length: [batch], or None if all sequences are complete.
            scope: the variable scope.

        Returns:
            The outputs, in the form of `inputs`, and the final state.
        """
        return self._process(inputs, initial_state, dtype, sequence_length, scope)

    def _process(self, inputs: Any, state: Any, dtype: Any, lengths: Any, scope: Any) -> tuple[Any, Any]:
        raise NotImplementedError


class FusedRNNCellAdaptor(FusedRNNCell):
    """
    A fused cell made of an ordinary one.

    Args:
        cell: a cell.
        use_dynamic_rnn: use `tf.nn.dynamic_rnn` for tensors, otherwise `tf.nn.static_rnn`.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell, self._dynamic = cell, use_dynamic_rnn

    def _process(self, inputs: Any, state: Any, dtype: Any, lengths: Any, scope: Any) -> tuple[Any, Any]:
        is_list = isinstance(inputs, list)
        settings = {"sequence_length": lengths, "initial_state": state, "dtype": dtype, "scope": scope}
        if self._dynamic:
            whole = tf.stack(inputs) if is_list else inputs
            outputs, state = tf.nn.dynamic_rnn(self._cell, whole, time_major=True, **settings)
            return (tf.unstack(outputs) if is_list else outputs), state
        steps = inputs if is_list else tf.unstack(inputs)
        outputs, state = tf.nn.static_rnn(self._cell, steps, **settings)
        return (outputs if is_list else tf.stack(outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """
    A fused cell that processes the sequence in reverse.

    Args:
        cell: a fused cell.
    """

    def __init__(self, cell: FusedRNNCell) -> None:
        self._cell = cell

    def _process(self, inputs: Any, state: Any, dtype: Any, lengths: Any, scope: Any) -> tuple[Any, Any]:
        outputs, state = self._cell(_reverse(inputs, lengths), state, dtype, lengths, scope)
        return _reverse(outputs, lengths), state


def _reverse(sequence: Any, lengths: Any) -> Any:
    if isinstance(sequence, list):
        return sequence[::-1]
    if lengths is None:
        return tf.reverse(sequence, [0])
    return tf.reverse_sequence(sequence, lengths, seq_axis=0, batch_axis=1)


class LSTMBlockFusedCell(FusedRNNCell):
    """
    An LSTM over a whole sequence, by TensorFlow's kernel `BlockLSTM`.

    Args:
        num_units: the size of both states and of the output.
        forget_bias: added to the forget gate.
        cell_clip: limit of the absolute value of the cell state; None means no limit.
        use_peephole: add diagonal connections from the cell state to the gates.
        reuse: reuse existing variables.
        dtype: ignored; the type is that of the inputs.
        name: the variable scope.

    Variables: `<name>/kernel`, `<name>/bias`, and `w_i_diag`, `w_f_diag`, `w_o_diag` with peepholes.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: bool | None = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self.num_units = num_units
        self._forget_bias, self._clip = forget_bias, -1.0 if cell_clip is None else cell_clip
        self._use_peephole, self._reuse, self._name = use_peephole, reuse, name
        self._scope: Any = None  # set by the first call; later calls share its variables

    def _process(self, inputs: Any, state: Any, dtype: Any, lengths: Any, scope: Any) -> tuple[Any, Any]:
        x = tf.stack(inputs) if isinstance(inputs, list) else inputs
        if state is None:
            state = (tf.zeros([tf.shape(x)[1], self.num_units], x.dtype),) * 2
        if lengths is not None:
            mask = tf.transpose(tf.sequence_mask(lengths, tf.shape(x)[0]))[:, :, None]
            x = tf.where_v2(mask, x, tf.zeros([], x.dtype))
        states, outputs = self._run(x, state, lengths, scope)
        if lengths is None:
            final = (states[-1], outputs[-1])
        else:
            outputs *= tf.cast(mask, outputs.dtype)
            pairs = zip(state, (states, outputs))
            final = tuple(_at(tf.concat([first[None], rest], 0), lengths) for first, rest in pairs)
        state = import_source("tf.nn.rnn_cell").LSTMStateTuple(*final)
        return (tf.unstack(outputs) if isinstance(inputs, list) else outputs), state

    def _run(self, x: tf.Tensor, state: Any, lengths: Any, scope: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the cell states and the outputs of all steps."""
        units, depth = self.num_units, x.shape.as_list()[2]
        reuse = True if self._scope else self._reuse
        with tf.variable_scope(self._scope or scope or self._name, reuse=reuse) as self._scope:
            kernel = tf.get_variable("kernel", [depth + units, 4 * units], x.dtype)
            bias = tf.get_variable("bias", [4 * units], x.dtype, initializer=tf.zeros_initializer())
            peepholes = {f"wc{gate}": tf.zeros([units], x.dtype) for gate in "ifo"}
            if self._use_peephole:
                peepholes = {f"wc{gate}": tf.get_variable(f"w_{gate}_diag", [units], x.dtype) for gate in "ifo"}
        length = tf.shape(x)[0] if lengths is None else tf.reduce_max(lengths)
        result = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(length, tf.int64),
            x=x,
            cs_prev=state[0],
            h_prev=state[1],
            w=kernel,
            b=bias,
            **peepholes,
            forget_bias=self._forget_bias,
            cell_clip=self._clip,
            use_peephole=self._use_peephole,
        )
        return result.cs, result.h


def _at(sequence: tf.Tensor, lengths: Any) -> tf.Tensor:
    """Return, for each row of the batch, the element at its length."""
    lengths = tf.convert_to_tensor(lengths)
    rows = tf.range(tf.shape(lengths)[0], dtype=lengths.dtype)
    return tf.gather_nd(sequence, tf.stack([lengths, rows], axis=1))

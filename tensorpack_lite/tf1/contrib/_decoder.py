"""Decoders of `tf.contrib.seq2seq`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...compat import tfv1 as tf
from ...utils.checks import check_type
from ._helpers import Helper, swap_first_axes


class Decoder:
    """
    Base class of decoders.

    Attributes:
        batch_size: the size of the batch.
        output_size, output_dtype: nested structures with the shape (without the batch) and type of one step's outputs.
        tracks_own_finished: `step` returns all sequences that are finished, not only the new ones.
    """

    tracks_own_finished = False

    @property
    def batch_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        raise NotImplementedError

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any, Any]:
        """Return which sequences are finished at the start, the first inputs and the initial state."""
        raise NotImplementedError

    def step(
        self, time: tf.Tensor, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, tf.Tensor]:
        """Return the outputs, the next state, the next inputs, and which sequences are finished."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: tf.Tensor) -> tuple[Any, Any]:
        """Return the outputs and the state after the last step, which are time-major."""
        return outputs, final_state


class BasicDecoderOutput(NamedTuple):
    """The outputs of `BasicDecoder`: `rnn_output` [batch, time, depth] and `sample_id` [batch, time]."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """
    A decoder that samples from the outputs of a cell.

    Args:
        cell: an RNNCell.
        helper: a `Helper`.
        initial_state: the state of the cell at the start.
        output_layer: a layer that is applied to each output, such as `tf.layers.Dense`, or None.

    Raises:
        TypeError: `helper` is not a Helper.
    """

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None) -> None:
        check_type("BasicDecoder: helper", helper, Helper)
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> BasicDecoderOutput:
        size = tf.TensorShape(self._cell.output_size)
        if self._output_layer is not None:
            whole = tf.TensorShape([None]).concatenate(size)
            size = tf.TensorShape(self._output_layer.compute_output_shape(whole))[1:]
        return BasicDecoderOutput(size, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(dtype, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any, Any]:
        return (*self._helper.initialize(), self._initial_state)

    def step(
        self, time: tf.Tensor, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, tf.Tensor]:
        with tf.name_scope(name, "BasicDecoderStep", [time]):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            samples = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, inputs, state = self._helper.next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=samples
            )
        return BasicDecoderOutput(outputs, samples), state, inputs, finished


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, tf.Tensor]:
    """
    Run a decoder until all sequences are finished.

    Args:
        decoder: a `Decoder`.
        output_time_major: return outputs of shape [time, batch, ...].
        impute_finished: outputs of finished sequences are zero, and their states are kept.
        maximum_iterations: the largest number of steps, or None.
        parallel_iterations, swap_memory: see `tf.while_loop`.
        scope: the variable scope. The default is "decoder".

    Returns:
        The outputs, [batch, time, ...], the final state, and the lengths of the sequences, [batch].

    Raises:
        TypeError: `decoder` is not a Decoder.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"dynamic_decode: expected a Decoder, got {type(decoder).__name__}.")
    with tf.variable_scope(scope, "decoder"):
        finished, inputs, state = decoder.initialize()
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, tf.less_equal(maximum_iterations, 0))
        batch = tf.TensorShape([tf.get_static_value(tf.convert_to_tensor(decoder.batch_size))])
        sizes = _flatten_sizes(decoder.output_size, decoder.output_dtype)
        arrays = [
            tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=batch.concatenate(size))
            for size, dtype in zip(sizes, tf.nest.flatten(decoder.output_dtype))
        ]

        def body(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> tuple:
            outputs, next_state, inputs, now = decoder.step(time, inputs, state)
            now = now if decoder.tracks_own_finished else tf.logical_or(now, finished)
            if impute_finished:
                zeros = tf.nest.map_structure(tf.zeros_like, outputs)
                outputs = _keep_finished(finished, outputs, zeros)
                next_state = _keep_finished(finished, next_state, state)
            written = [array.write(time, one) for array, one in zip(arrays, tf.nest.flatten(outputs))]
            lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
            return time + 1, written, next_state, inputs, now, lengths

        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: tf.logical_not(tf.reduce_all(finished)),
            body,
            (tf.constant(0), arrays, state, inputs, finished, tf.zeros_like(finished, tf.int32)),
            parallel_iterations=parallel_iterations,
            maximum_iterations=maximum_iterations,
            swap_memory=swap_memory,
        )
        outputs = tf.nest.pack_sequence_as(decoder.output_dtype, [array.stack() for array in arrays])
        outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = tf.nest.map_structure(swap_first_axes, outputs)
        return outputs, state, lengths


def _flatten_sizes(sizes: Any, dtypes: Any) -> list[Any]:
    """Flatten sizes to the structure of the dtypes, because a TensorShape may itself count as a sequence."""
    if isinstance(dtypes, (list, tuple)):
        return [flat for size, dtype in zip(sizes, dtypes) for flat in _flatten_sizes(size, dtype)]
    return [tf.TensorShape(sizes)]


def _keep_finished(finished: tf.Tensor, new: Any, old: Any) -> Any:
    """Replace the rows of finished sequences by old values. TensorArrays and scalars are always new."""

    def choose(new: Any, old: Any) -> Any:
        if isinstance(new, tf.TensorArray) or new.shape.ndims == 0:
            return new
        new.set_shape(old.shape)
        return tf.where(finished, old, new)

    flat = [choose(*pair) for pair in zip(tf.nest.flatten(new), tf.nest.flatten(old))]
    return tf.nest.pack_sequence_as(new, flat)

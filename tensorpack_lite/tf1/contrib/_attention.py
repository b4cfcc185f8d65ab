"""Attention of `tf.contrib.seq2seq`."""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

from ...compat import tfv1 as tf
from ._lookup import import_source

_CELLS: Any = import_source("tf.nn.rnn_cell")


class AttentionMechanism:
    """
    Base class of attention mechanisms.

    Args:
        memory: [batch, time, depth], the outputs of the encoder.
        memory_layer: a layer that makes the keys from the memory.
        query_layer: a layer that is applied to the query, or None.
        probability_fn: scores -> weights. None means softmax.
        memory_sequence_length: [batch]; steps after it have no weight. None means that all steps count.
        score_mask_value: the score of these steps. None means minus infinity.
        name: the name scope.

    Attributes:
        keys, values: the memory, after and before the layer; zero after the end of each sequence.
        batch_size, alignments_size: the first two axes of the keys.
    """

    def __init__(
        self,
        memory: Any,
        memory_layer: Any,
        query_layer: Any = None,
        probability_fn: Callable[[Any], Any] | None = None,
        memory_sequence_length: Any = None,
        score_mask_value: float | None = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.memory_layer, self.query_layer, self.dtype = memory_layer, query_layer, memory_layer.dtype
        self._lengths = memory_sequence_length
        self._mask_value = -math.inf if score_mask_value is None else score_mask_value
        self._probability_fn = probability_fn or tf.nn.softmax
        with tf.name_scope(name, "BaseAttentionMechanismInit"):
            memory = tf.convert_to_tensor(memory, name="memory")
            if self._lengths is not None:
                mask = tf.sequence_mask(self._lengths, tf.shape(memory)[1])
                mask = tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (memory.shape.ndims - 2)], 0))
                memory = tf.where_v2(mask, memory, tf.zeros([], memory.dtype))
            self.values, self.keys = memory, memory_layer(memory)
            if custom_key_value_fn is not None:
                self.keys, self.values = custom_key_value_fn(self.keys, self.values)
            static = self.keys.shape.as_list()
            self.batch_size = static[0] or tf.shape(self.keys)[0]
            self.alignments_size = static[1] or tf.shape(self.keys)[1]

    @property
    def state_size(self) -> Any:
        return self.alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> tf.Tensor:
        """Return weights of zero, [batch, time]."""
        return _zeros(batch_size, self.alignments_size, dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> tf.Tensor:
        """Return the state at the start, [batch, time]."""
        return self.initial_alignments(batch_size, dtype)

    def __call__(self, query: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """Return the weights, [batch, time], and the next state."""
        weights = self._probability_fn(self._mask(self._score(query)))
        return weights, weights

    def _score(self, query: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def _mask(self, score: tf.Tensor) -> tf.Tensor:
        if self._lengths is None:
            return score
        mask = tf.sequence_mask(self._lengths, tf.shape(score)[1])
        return tf.where(mask, score, tf.fill(tf.shape(score), tf.cast(self._mask_value, score.dtype)))


class LuongAttention(AttentionMechanism):
    """
    Multiplicative attention (https://arxiv.org/abs/1508.04025).

    Args:
        num_units: the depth of the query and of the keys.
        scale: multiply the scores by a variable, `attention_g`.
        dtype: the type of the keys' layer. The default is float32.
        memory, memory_sequence_length, probability_fn, score_mask_value, custom_key_value_fn, name: see
            `AttentionMechanism`.

    Variables: `memory_layer/kernel`.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str = "LuongAttention",
    ) -> None:
        super().__init__(
            memory,
            _dense(num_units, "memory_layer", dtype),
            None,
            probability_fn,
            memory_sequence_length,
            score_mask_value,
            custom_key_value_fn,
            name,
        )
        self._scale = scale

    def _score(self, query: tf.Tensor) -> tf.Tensor:
        depths = [query.shape.as_list()[-1], self.keys.shape.as_list()[-1]]
        if depths[0] != depths[1]:
            raise ValueError(
                f"LuongAttention: expected a query of depth {depths[1]}, which is num_units, got depth {depths[0]}."
            )
        with tf.variable_scope(None, "luong_attention", [query]):
            score = tf.squeeze(tf.matmul(query[:, None], self.keys, transpose_b=True), [1])
            if self._scale:
                ones = tf.ones_initializer()
                score *= tf.get_variable("attention_g", [], query.dtype, initializer=ones)
            return score


class BahdanauAttention(AttentionMechanism):
    """
    Additive attention (https://arxiv.org/abs/1409.0473).

    Args:
        num_units: the depth of the hidden layer.
        normalize: normalize the weight vector, and add a bias (https://arxiv.org/abs/1602.07868).
        dtype: the type of the layers. The default is float32.
        memory, memory_sequence_length, probability_fn, score_mask_value, custom_key_value_fn, name: see
            `AttentionMechanism`.

    Variables: `memory_layer/kernel`, `query_layer/kernel`, `bahdanau_attention/attention_v`.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str = "BahdanauAttention",
    ) -> None:
        super().__init__(
            memory,
            _dense(num_units, "memory_layer", dtype),
            _dense(num_units, "query_layer", dtype),
            probability_fn,
            memory_sequence_length,
            score_mask_value,
            custom_key_value_fn,
            name,
        )
        self._num_units, self._normalize = num_units, normalize

    def _score(self, query: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            hidden = self.keys + self.query_layer(query)[:, None]
            units, dtype = self._num_units, query.dtype
            vector = tf.get_variable("attention_v", [units], dtype)
            if self._normalize:
                gain = tf.constant_initializer(math.sqrt(1.0 / units))
                length = tf.get_variable("attention_g", [], dtype, initializer=gain)
                hidden += tf.get_variable("attention_b", [units], dtype, initializer=tf.zeros_initializer())
                vector = length * vector * tf.rsqrt(tf.reduce_sum(tf.square(vector)))
            return tf.reduce_sum(vector * tf.tanh(hidden), [2])


class AttentionWrapperState(NamedTuple):
    """The state of an AttentionWrapper."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """Return a copy with other values for some members, with the static shapes of the old ones."""

        def like(old: Any, new: Any) -> Any:
            return tf.ensure_shape(new, old.shape) if isinstance(new, tf.Tensor) else new

        return tf.nest.map_structure(like, self, self._replace(**kwargs))


class AttentionWrapper(_CELLS.RNNCell):
    """
    A cell with attention over a memory.

    Args:
        cell: the cell.
        attention_mechanism: an `AttentionMechanism`, or a list of them.
        attention_layer_size: the size of a layer on the output and the context, or None for the context itself; a list
            for a list of mechanisms.
        alignment_history: keep the weights of all steps, in TensorArrays.
        cell_input_fn: (inputs, attention) -> inputs of the cell. The default concatenates them.
        output_attention: the output is the attention, otherwise the output of the cell.
        initial_cell_state: the state of the cell that `zero_state` returns. None means the cell's own.
        name, dtype: see `tf.nn.rnn_cell.RNNCell`.
        attention_layer: a layer, or a list of layers, instead of `attention_layer_size`.

    Raises:
        TypeError: a mechanism is not an AttentionMechanism.
        ValueError: both `attention_layer_size` and `attention_layer` are given, or not one for each mechanism.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        for one in self._mechanisms:
            if not isinstance(one, AttentionMechanism):
                kind = type(one).__name__
                raise TypeError(f"AttentionWrapper: expected an AttentionMechanism, got {kind}.")
        self._cell, self._initial_cell_state = cell, initial_cell_state
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._output_attention, self._history = output_attention, alignment_history
        self._layers_of_attention = self._make_layers(attention_layer_size, attention_layer)
        self._attention_size = sum(map(self._depth, self._layers_of_attention, self._mechanisms))

    def _make_layers(self, sizes: Any, layers: Any) -> list[Any]:
        """Return the layer of each mechanism, or None."""
        if sizes is not None and layers is not None:
            raise ValueError("AttentionWrapper: expected attention_layer_size or attention_layer, got both.")
        given = sizes if layers is None else layers
        if given is None:
            return [None] * len(self._mechanisms)
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(given) != len(self._mechanisms):
            raise ValueError(
                f"AttentionWrapper: expected one layer for each of the {len(self._mechanisms)} mechanisms, got {len(given)}."
            )
        if layers is not None:
            return given
        return [_dense(size, "attention_layer", one.dtype) for size, one in zip(given, self._mechanisms)]

    def _depth(self, layer: Any, mechanism: AttentionMechanism) -> int:
        depth = mechanism.values.shape.as_list()[-1]
        if layer is None:
            return depth
        shape = layer.compute_output_shape(tf.TensorShape([None, self._cell.output_size + depth]))
        return tf.TensorShape(shape).as_list()[-1]

    def _each(self, values: Any) -> Any:
        """Return a tuple for a list of mechanisms, otherwise the only value."""
        values = tuple(values)
        return values if self._is_multi else values[0]

    @property
    def output_size(self) -> Any:
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        sizes = [one.alignments_size for one in self._mechanisms]
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_size,
            time=tf.TensorShape([]),
            alignments=self._each(sizes),
            alignment_history=self._each(size if self._history else () for size in sizes),
            attention_state=self._each(one.state_size for one in self._mechanisms),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """Return the state at the start."""
        with tf.name_scope(f"{type(self).__name__}ZeroState"):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            alignments = [one.initial_alignments(batch_size, dtype) for one in self._mechanisms]
            return AttentionWrapperState(
                cell_state=tf.nest.map_structure(tf.identity, cell_state),
                attention=_zeros(batch_size, self._attention_size, dtype),
                time=tf.zeros([], tf.int32),
                alignments=self._each(alignments),
                alignment_history=self._each(self._new_history(one) for one in alignments),
                attention_state=self._each(one.initial_state(batch_size, dtype) for one in self._mechanisms),
            )

    def _new_history(self, alignment: tf.Tensor) -> Any:
        shape = alignment.shape
        return tf.TensorArray(alignment.dtype, 0, True, element_shape=shape) if self._history else ()

    def call(self, inputs: tf.Tensor, state: AttentionWrapperState) -> tuple[tf.Tensor, Any]:
        """Return the output and the next state."""
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        old_states = state.attention_state if self._is_multi else [state.attention_state]
        histories = state.alignment_history if self._is_multi else [state.alignment_history]
        attentions, alignments, states = [], [], []
        for mechanism, layer, old in zip(self._mechanisms, self._layers_of_attention, old_states):
            alignment, new = mechanism(output, state=old)
            context = tf.squeeze(tf.matmul(alignment[:, None], mechanism.values), [1])
            attentions.append(context if layer is None else layer(tf.concat([output, context], 1)))
            alignments.append(alignment)
            states.append(new)
        if self._history:
            histories = [one.write(state.time, new) for one, new in zip(histories, alignments)]
        attention = tf.concat(attentions, 1)
        next_state = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._each(alignments),
            alignment_history=self._each(histories),
            attention_state=self._each(states),
        )
        return (attention if self._output_attention else output), next_state


def _dense(units: int, name: str, dtype: Any) -> Any:
    return tf.layers.Dense(units, name=name, use_bias=False, dtype=dtype or tf.float32)


def _zeros(batch_size: Any, size: Any, dtype: Any) -> tf.Tensor:
    zeros = tf.zeros([batch_size, size], dtype)
    zeros.set_shape([tf.get_static_value(one) if isinstance(one, tf.Tensor) else one for one in (batch_size, size)])
    return zeros

"""Helpers of `tf.contrib.seq2seq`: where a decoder takes its next input from."""

from __future__ import annotations

from typing import Any, Callable

from ...compat import tfv1 as tf


class Helper:
    """
    Base class of helpers.

    Attributes:
        batch_size: the size of the batch, an int or a scalar tensor.
        sample_ids_shape: the shape of one sample.
        sample_ids_dtype: the type of a sample.
    """

    batch_size: Any = None
    sample_ids_shape: tf.TensorShape = tf.TensorShape([])
    sample_ids_dtype: Any = tf.int32

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
        """Return which sequences are finished at the start, [batch], and the first inputs."""
        raise NotImplementedError

    def sample(self, time: tf.Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return the samples, [batch], of a step's outputs."""
        raise NotImplementedError

    def next_inputs(
        self, time: tf.Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[tf.Tensor, Any, Any]:
        """Return which sequences are finished, [batch], the next inputs and the next state."""
        raise NotImplementedError


class TrainingHelper(Helper):
    """
    A helper that reads the inputs from a tensor (teacher forcing).

    Args:
        inputs: [batch, time, depth], or a nested structure of such tensors.
        sequence_length: [batch].
        time_major: the first two axes of the inputs are swapped.
        name: the name scope.

    Raises:
        ValueError: `sequence_length` is not a vector.
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        with tf.name_scope(name, "TrainingHelper", [inputs, sequence_length]):
            self.inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
            self.sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self.sequence_length.shape.ndims != 1:
                raise ValueError(
                    f"TrainingHelper: sequence_length: expected a vector, got shape {self.sequence_length.shape}."
                )
            steps = self.inputs if time_major else tf.nest.map_structure(swap_first_axes, self.inputs)
            self._arrays = [
                tf.TensorArray(one.dtype, tf.shape(one)[0], element_shape=one.shape[1:]).unstack(one)
                for one in tf.nest.flatten(steps)
            ]
            self._zeros = tf.nest.map_structure(lambda tensor: tf.zeros_like(tensor[0]), steps)
            self.batch_size = tf.size(self.sequence_length)

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
        return self._read(0)

    def sample(self, time: tf.Tensor, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(
        self, time: tf.Tensor, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> tuple[tf.Tensor, Any, Any]:
        finished, inputs = self._read(time + 1)
        return finished, inputs, state

    def _read(self, time: Any) -> tuple[tf.Tensor, Any]:
        """Return which sequences have ended at a time, and the inputs of this time, or zeros if all have ended."""
        finished = time >= self.sequence_length
        inputs = tf.cond(
            tf.reduce_all(finished),
            lambda: tf.nest.flatten(self._zeros),
            lambda: [array.read(time) for array in self._arrays],
        )
        return finished, tf.nest.pack_sequence_as(self._zeros, tf.nest.flatten(inputs))


def swap_first_axes(tensor: tf.Tensor) -> tf.Tensor:
    """Make a batch-major tensor time-major, and the other way round."""
    return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.ndims)])


class GreedyEmbeddingHelper(Helper):
    """
    A helper that feeds the embedding of the most probable token.

    Args:
        embedding: the embedding matrix, or a function from ids to embeddings.
        start_tokens: [batch] of ids.
        end_token: the id that ends a sequence.

    Raises:
        ValueError: `start_tokens` is not a vector, or `end_token` not a scalar.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embed: Callable[[Any], Any] = (
            embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
        )
        self._start = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        self._end = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        if self._start.shape.ndims != 1 or self._end.shape.ndims != 0:
            raise ValueError(
                f"{type(self).__name__}: expected a vector of start_tokens and a scalar end_token, "
                f"got shapes {self._start.shape} and {self._end.shape}."
            )
        self.batch_size = tf.size(self._start)

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
        return tf.zeros([self.batch_size], tf.bool), self._embed(self._start)

    def sample(self, time: tf.Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(
        self, time: tf.Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[tf.Tensor, Any, Any]:
        return tf.equal(sample_ids, self._end), self._embed(sample_ids), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """
    A helper that feeds the embedding of a token drawn from the outputs, which are logits.

    Args:
        embedding, start_tokens, end_token: see `GreedyEmbeddingHelper`.
        softmax_temperature: divides the logits, or None.
        seed: the seed of the sampling.
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: tf.Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        logits = outputs if self._temperature is None else outputs / self._temperature
        return tf.random.categorical(logits, 1, seed=self._seed, dtype=tf.int32)[:, 0]


class InferenceHelper(Helper):
    """
    A helper whose functions compute samples, ends and inputs.

    Args:
        sample_fn: outputs -> samples.
        sample_shape, sample_dtype: shape and type of one sample.
        start_inputs: the first inputs, [batch, ...].
        end_fn: samples -> which sequences are finished, [batch].
        next_inputs_fn: samples -> inputs. None means the samples.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample, self._end, self._next = sample_fn, end_fn, next_inputs_fn or (lambda ids: ids)
        self.sample_ids_shape, self.sample_ids_dtype = tf.TensorShape(sample_shape), sample_dtype
        self._start = tf.convert_to_tensor(start_inputs)
        self.batch_size = tf.shape(self._start)[0]

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
        return tf.zeros([self.batch_size], tf.bool), self._start

    def sample(self, time: tf.Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample(outputs)

    def next_inputs(
        self, time: tf.Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[tf.Tensor, Any, Any]:
        return self._end(sample_ids), self._next(sample_ids), state


class CustomHelper(Helper):
    """
    A helper made of three functions with the arguments of `Helper`'s methods.

    Args:
        initialize_fn: see `Helper.initialize`.
        sample_fn: see `Helper.sample`.
        next_inputs_fn: see `Helper.next_inputs`.
        sample_ids_shape, sample_ids_dtype: shape and type of one sample. The default is an int32 scalar.
    """

    def __init__(
        self,
        initialize_fn: Callable[[], Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize, self._sample, self._next = initialize_fn, sample_fn, next_inputs_fn
        self.sample_ids_shape = tf.TensorShape(sample_ids_shape or [])
        self.sample_ids_dtype = sample_ids_dtype or tf.int32

    def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
        finished, inputs = self._initialize()
        self.batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: tf.Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: tf.Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[tf.Tensor, Any, Any]:
        return self._next(time=time, outputs=outputs, state=state, sample_ids=sample_ids)

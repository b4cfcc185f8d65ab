"""
Random operations that repeat exactly when a training is resumed.

TensorFlow's random operations keep their state in the kernel, where it can be neither saved nor restored. After
`make_exact`, the functions of this module use stateless operations instead: their numbers depend only on the entropy
of the training, the name of the operation, the tower, and `global_step`. Without `make_exact`, they create the same
operations as `tf.random.uniform`, `tf.nn.dropout` etc.
"""

from __future__ import annotations

import hashlib
import os
from numbers import Real
from typing import Any, Sequence

from ..compat import TF_VERSION
from ..compat import tfv1 as tf
from ..compat.private import at_top_level, inside_function, inside_xla, op_determinism_enabled
from ..utils.argtools import graph_memoized
from ..utils.checks import check_at_least, check_fraction, check_type
from .common import get_global_step_var
from .dependency import operations_of_fetches
from .early_read import read_before_update
from .nodes import find_nodes
from .symbolic_functions import widen
from .tower.context import get_current_tower_context

__all__ = ["dropout", "normal", "truncated_normal", "uniform"]

# TensorFlow 2 otherwise chooses the algorithm by the device. TensorFlow 1.15 only has this one, with the same
# numbers.
_ALGORITHM: dict[str, Any] = {"alg": "philox"} if TF_VERSION >= (2, 0) else {}


# Switching the mode on ----------------------------------------------------------------------------------------------
def make_exact(entropy: int | None = None, rank: int = 0) -> None:
    """
    Make the random operations of the default graph exact: a resumed training draws the same numbers as an
        uninterrupted one.

    Call it before the graph is built. The trainer saves `exact_entropy()` in its checkpoints and passes it here when
    it resumes.

    Args:
        entropy: the number from which all streams are derived, >= 0. None: the graph's seed if it has one when the
            first operation is created, otherwise a fresh number from the operating system.
        rank: the number of this process in a distributed training. Each rank draws different numbers.

    Raises:
        TypeError: `entropy` or `rank` is not an integer.
        ValueError: `entropy` or `rank` is negative.
        RuntimeError: the graph already has exact random operations.
    """
    for name, number in (("entropy", entropy), ("rank", rank)):
        if number is not None:
            check_at_least(f"make_exact: {name}", check_type(f"make_exact: {name}", number, int), 0)
    streams = _streams_of_graph()
    if streams.step is not None:
        raise RuntimeError(
            "make_exact: the graph already has exact random operations. Call make_exact once, before the graph is built."
        )
    streams.is_exact, streams.entropy, streams.rank = True, entropy, rank


def exact_entropy() -> int | None:
    """
    Return the entropy of the default graph, which a checkpoint must save.

    Returns:
        The number to pass to `make_exact` when the training resumes. None if the mode is off.
    """
    streams = _streams_of_graph()
    return streams.find_entropy() if streams.is_exact else None


# Random operations --------------------------------------------------------------------------------------------------
def uniform(
    shape: tf.Tensor | Sequence[int],
    minval: float | tf.Tensor = 0,
    maxval: float | tf.Tensor | None = None,
    dtype: tf.DType = tf.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    counter: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """
    Draw from a uniform distribution, like `tf.random.uniform`.

    In exact mode, all draws of one operation at the same `global_step` are equal, and each operation, tower and rank
    has a separate stream. The following draw like TensorFlow's operations even in exact mode, and are therefore not
    exact:

    - inference towers, because the runs of a validation share one `global_step`;
    - the bodies of loops and conditions, unless `counter` is given;
    - other functions, such as those of `tf.data`, and computations that XLA compiles.

    Args:
        shape: a list of integers or an integer tensor.
        minval, maxval: the range [minval, maxval). `maxval` defaults to 1 for floating dtypes.
        dtype: a floating dtype, int32 or int64.
        seed: the seed of this operation.
        name: the name of the operation.
        counter: a scalar integer that differs between the draws of this operation within one step, e.g. the counter
            of a `tf.while_loop`. Inside a condition that runs once per step, pass 0. Ignored without exact mode.

    Returns:
        A tensor of the given shape and dtype.
    """
    return _draw("uniform", shape, minval, maxval, dtype, seed, name, counter)


def normal(
    shape: tf.Tensor | Sequence[int],
    mean: float | tf.Tensor = 0.0,
    stddev: float | tf.Tensor = 1.0,
    dtype: tf.DType = tf.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    counter: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """
    Draw from a normal distribution, like `tf.random.normal`. For exact mode, see `uniform`.

    Args:
        shape, seed, name, counter: as in `uniform`.
        mean, stddev: numbers, or tensors that broadcast with the result.
        dtype: a floating dtype.

    Returns:
        A tensor of the given shape and dtype.
    """
    return _draw("normal", shape, mean, stddev, dtype, seed, name, counter)


def truncated_normal(
    shape: tf.Tensor | Sequence[int],
    mean: float | tf.Tensor = 0.0,
    stddev: float | tf.Tensor = 1.0,
    dtype: tf.DType = tf.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    counter: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """
    Draw from a normal distribution without values more than two standard deviations from the mean.

    It is like `tf.random.truncated_normal`. For exact mode, see `uniform`.

    Args:
        shape, mean, stddev, dtype, seed, name, counter: as in `normal`. `stddev` is that of the full distribution.

    Returns:
        A tensor of the given shape and dtype.
    """
    return _draw("truncated_normal", shape, mean, stddev, dtype, seed, name, counter)


def _draw(
    kind: str, shape: Any, first: Any, second: Any, dtype: tf.DType, seed: Any, name: Any, counter: Any
) -> tf.Tensor:
    """Create the operation `tf.random.<kind>`, or in exact mode the stateless one."""
    streams = _exact_streams(counter)
    if streams is None:
        return getattr(tf.random, kind)(shape, first, second, dtype, seed, name)
    with tf.name_scope(name, kind if kind == "truncated_normal" else f"random_{kind}") as scope:
        draw = getattr(tf.random, f"stateless_{kind}")
        return draw(shape, streams.key(seed, counter), first, second, dtype, name=scope, **_ALGORITHM)


def dropout(
    x: tf.Tensor,
    keep_prob: float | tf.Tensor | None = None,
    noise_shape: Sequence[int | None] | tf.Tensor | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: float | tf.Tensor | None = None,
    *,
    counter: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """
    Set random values to zero and scale up the others so that the mean stays the same, like `tf.nn.dropout`.

    It drops in training and in inference; `models.Dropout` is a layer that drops in training only. For exact mode,
    see `uniform`.

    Args:
        x: a tensor of any floating dtype.
        keep_prob: the probability to keep a value. `rate = 1 - keep_prob`.
        noise_shape: a shape that broadcasts with that of x. Values along an axis of size 1 are dropped together.
        seed, name, counter: as in `uniform`.
        rate: the probability to drop a value, in [0, 1), a number or a scalar tensor.

    Returns:
        A tensor like x.

    Raises:
        ValueError: not exactly one of `keep_prob` and `rate` is given, or the rate is outside of [0, 1).
    """
    x = tf.convert_to_tensor(x)
    if (rate is None) == (keep_prob is None):
        raise ValueError(
            f"dropout: expected either rate or keep_prob, got rate={rate} and keep_prob={keep_prob}. Pass rate, the "
            "probability to drop."
        )
    drop_rate: Any = rate if keep_prob is None else 1 - keep_prob
    if x.dtype.base_dtype in (tf.float16, tf.bfloat16):  # which have no rate of 0.001
        rate, wide = drop_rate if isinstance(drop_rate, Real) else tf.cast(drop_rate, tf.float32), widen(x)
        dropped = dropout(wide, None, noise_shape, seed, None, rate, counter=counter)
        return x if dropped is wide else tf.cast(dropped, x.dtype.base_dtype, name=name)
    streams = _exact_streams(counter)
    if streams is None:
        return tf.nn.dropout(x, rate=drop_rate, noise_shape=noise_shape, seed=seed, name=name)
    with tf.name_scope(name, "dropout"):
        if not isinstance(drop_rate, Real):
            drop_rate = tf.cast(drop_rate, x.dtype.base_dtype)
        elif check_fraction("dropout: rate", drop_rate) == 0:
            return x
        key = streams.key(seed, counter)
        noise = tf.random.stateless_uniform(_noise_shape(x, noise_shape), key, dtype=x.dtype.base_dtype, **_ALGORITHM)
        # On TensorFlow 1.15, tf.where_v2 takes three times as long as a multiplication.
        kept = tf.cast(noise >= drop_rate, x.dtype.base_dtype)
        return tf.multiply(x * (1 / (1 - drop_rate)), kept)


def _noise_shape(x: tf.Tensor, noise_shape: Any) -> Any:
    """Return the shape of the mask. None means the size of x, as a whole or for one axis."""
    if noise_shape is None:
        return tf.shape(x)
    if isinstance(noise_shape, tf.Tensor):
        return noise_shape
    sizes = noise_shape.as_list() if isinstance(noise_shape, tf.TensorShape) else list(noise_shape)
    return [tf.shape(x)[axis] if size is None else size for axis, size in enumerate(sizes)]


# Streams ------------------------------------------------------------------------------------------------------------
class _Streams:
    """Random streams of a graph: whether they are exact, and what their keys are derived from."""

    is_exact = False
    entropy: int | None = None
    rank = 0
    step: tf.Tensor | None = None
    """[0, global_step] before the increment, int64. All operations share it."""

    def find_entropy(self) -> int:
        if self.entropy is None:
            seed = tf.get_default_graph().seed
            self.entropy = int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else int(seed)
        return self.entropy

    def key(self, seed: int | None, counter: int | tf.Tensor | None) -> tf.Tensor:
        """Return the seed of a stateless operation, `[number of the stream + counter, another one + global_step]`."""
        # Outside of loops and conditions, where names are unique and reads of global_step precede its increment.
        with tf.init_scope(), tf.device("/cpu:0"):
            if self.step is None:
                with tf.name_scope(None), tf.name_scope("exact_random"):
                    step = tf.cast(read_before_update(get_global_step_var()), tf.int64)
                    self.step = tf.stack([tf.constant(0, tf.int64), step])
            name = tf.get_default_graph().unique_name("stream", mark_as_used=False)
            key = tf.add(tf.constant(self._stream(name, seed), tf.int64, name="stream"), self.step)
        if counter is None:
            return key
        with tf.device("/cpu:0"):
            return key + tf.stack([tf.cast(counter, tf.int64), tf.constant(0, tf.int64)])

    def _stream(self, name: str, seed: int | None) -> list[int]:
        """Return two numbers of 62 bits, so that adding counters does not overflow."""
        tower = get_current_tower_context()
        index = getattr(tower, "index", None)
        if index is not None and tower.name and name.startswith(tower.name + "/"):
            # the same stream for "tower0/dropout" as for a single tower's "dropout"
            name = name[len(tower.name) + 1 :]
        text = repr((self.find_entropy(), self.rank, index, name, seed))
        digest = hashlib.sha256(text.encode()).digest()
        return [int.from_bytes(digest[start : start + 8], "little") >> 2 for start in (0, 8)]


@graph_memoized
def _streams() -> _Streams:
    return _Streams()


def _streams_of_graph() -> _Streams:
    """Return the streams of the default graph, or of the graph around a function, loop or condition."""
    with tf.init_scope():
        return _streams()


def _exact_streams(counter: int | tf.Tensor | None) -> _Streams | None:
    """Return the streams of the graph; None where an operation must be TensorFlow's stateful one."""
    streams = _streams_of_graph()
    if not streams.is_exact:
        return None
    tower, graph = get_current_tower_context(), tf.get_default_graph()
    if (tower is not None and not tower.is_training) or inside_function(graph) or inside_xla(graph):
        return None
    return streams if counter is not None or at_top_level(graph) else None


# Inexact operations --------------------------------------------------------------------------------------------------
def find_stateful_random_ops(fetches: object) -> list[str]:
    """
    List the random operations with an internal state that `sess.run(fetches)` executes.

    They draw other numbers after a resumption, and make the training inexact. Initializers are not executed in a
    step.

    Args:
        fetches: anything that `sess.run` accepts, e.g. `trainer.train_op`.

    Returns:
        Sorted names. An operation in a function, e.g. in the body of a loop of TensorFlow 2, has the name of the
        operation that calls the function as prefix. The functions of `tf.data` are omitted.
    """
    nodes = find_nodes(operations_of_fetches(fetches), _is_random)
    # CudnnRNN has this attribute
    return sorted(name for name, node in nodes if "dropout" not in node.attr or node.attr["dropout"].f > 0)


def _is_random(definition: Any) -> bool:
    return definition.is_stateful and any(attr.name == "seed" for attr in definition.attr)


def determinism_switches() -> list[str]:
    """
    List the switches for deterministic kernels that are set. Without them, two runs on GPUs may differ in the last
    digits.

    Returns:
        A list that may contain `"TF_DETERMINISTIC_OPS"`, an environment variable, and
        `"enable_op_determinism"`, the function `tf.config.experimental.enable_op_determinism` of TensorFlow 2.9 and
        later.
    """
    variable = os.environ.get("TF_DETERMINISTIC_OPS", "").lower() in ("1", "true")
    found = {"TF_DETERMINISTIC_OPS": variable, "enable_op_determinism": op_determinism_enabled()}
    return [name for name, is_set in found.items() if is_set]

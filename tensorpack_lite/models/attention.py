"""Attention: each position of a sequence takes a weighted mean over the positions of the same or another sequence."""

from __future__ import annotations

from functools import partial, reduce
from typing import Callable

from ..compat import tfv1 as tf
from ..compat.variables import get_variable
from ..tfutils.precision import multiply, read_as, to_compute_dtype, to_float32, variable_dtype
from ..tfutils.random import dropout as drop
from ..tfutils.symbolic_functions import widen
from ..utils.checks import check_fraction
from .arguments import convert_to_tflayer_args
from .checks import find_training, layer_title, require_integer, require_sequences, require_shape, warn_if_called_twice
from .outputs import bias_and_activate, name_output
from .registry import layer_register
from .shape_utils import StaticDynamicShape

_LAYER = "MultiHeadAttention"


@layer_register(log_shape=True)
@convert_to_tflayer_args(
    args_names=["num_heads", "key_dim"], name_mapping={"use_causal_mask": "causal", "is_causal": "causal"}
)
def MultiHeadAttention(
    inputs: tf.Tensor,
    num_heads: int,
    key_dim: int | None = None,
    *,
    value: tf.Tensor | None = None,
    key: tf.Tensor | None = None,
    key_mask: tf.Tensor | None = None,
    attention_mask: tf.Tensor | None = None,
    causal: bool = False,
    score_bias: tf.Tensor | None = None,
    dropout: float = 0.0,
    training: bool | None = None,
    use_bias: bool = True,
    value_dim: int | None = None,
    units: int | None = None,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """
    Let sequences attend to themselves, or to `value`, called `MultiHeadAttention(name, inputs, num_heads, ...)`.

    In each head, y = softmax(q k' / sqrt(key_dim) + score_bias) v, where q, k and v are linear maps of the inputs, of `key` and of
    `value`. The outputs are a linear map of the heads' concatenated y.

    Shapes: [N, T, D] -> [N, T, units].

    Args:
        inputs: [N, T, D], the queries, of any floating dtype; N and T may be unknown. Variables have their dtype.
        num_heads: the number of heads.
        key_dim: the size of the queries and keys of a head. None: D / num_heads.
        value: [N, S, D_value], the sequences that are attended to (cross attention). None: the inputs (self-attention).
        key: [N, S, D_key], from which the keys are computed. None: `value`.
        key_mask: [N, S], bool or integers, false or 0 where `value` and `key`, or the inputs in self-attention, are
            padding. Padding counts as zeros and is not attended to, whatever its values are, even NaN.
        attention_mask: [N or 1, T or 1, S] or [N or 1, num_heads or 1, T or 1, S], bool or integers, true where a query may
            attend to a key.
        causal: whether a query attends only to keys up to its own position. If there are more keys than queries, the last
            of both are at the same position, so `value` may start with positions of earlier calls. Other names are
            `use_causal_mask` and `is_causal`.
        score_bias: a finite tensor that broadcasts with the scores [N, num_heads, T, S], such as a bias for relative positions.
        dropout: the probability to drop a weight in training, in [0, 1).
        training: whether to drop weights. None: given by the TowerContext.
        use_bias: whether the linear maps add a bias.
        value_dim: the size of the values of a head. None: `key_dim`.
        units: the size of the outputs. None: D.
        kernel_initializer: None means the initializer of the variable scope, or Glorot's uniform distribution.
        kernel_regularizer: kernel -> scalar, collected in REGULARIZATION_LOSSES.

    Returns:
        A tensor named `<name>/output`, with `.variables`, e.g. `.variables.query_W`. It is 0 where all keys are masked in all heads.

    Raises:
        ValueError: an input has the wrong shape or dtype, or an unknown size of the last axis; a size is not a positive integer;
            D is not divisible by `num_heads`, and `key_dim` is None; `dropout` is outside of [0, 1); `key` is given without `value`;
            with `causal`, there are fewer keys than queries.
        TypeError: a size is not a number.
        RuntimeError: `dropout` is not 0, `training` is None, and the call is outside of a TowerContext.

    Variables: `query/W` [D, num_heads * key_dim], `key/W` [D_key, num_heads * key_dim], `value/W`
        [D_value, num_heads * value_dim] and `out/W` [num_heads * value_dim, units], each with `b`, all trained.

    Example:
        >>> y = MultiHeadAttention("attention", x, 4, causal=True, dropout=0.1)         # x: [N, T, D]
        >>> y = MultiHeadAttention("cross", x, 4, value=memory, key_mask=tf.sequence_mask(length))

    Note: masks are true where PyTorch's `key_padding_mask` and `attn_mask` are false. With `causal`, Keras and PyTorch align the first
        query and key instead of the last ones.

    Source: Vaswani et al. 2017, "Attention is all you need".
    """
    if key is not None and value is None:
        raise ValueError(f"{layer_title(_LAYER)}: key is given without value. Pass both, or only value.")
    query, is_self = _require_sequences("the input", inputs), value is None
    value = query if value is None else _require_beside("value", value, query)
    key = value if key is None else _require_beside("key", key, value, same_length=True)
    num_heads = require_integer(_LAYER, "num_heads", num_heads)
    key_dim = _divide(query, num_heads) if key_dim is None else require_integer(_LAYER, "key_dim", key_dim)
    value_dim = key_dim if value_dim is None else require_integer(_LAYER, "value_dim", value_dim)
    units = query.shape.as_list()[2] if units is None else require_integer(_LAYER, "units", units)
    allowed = _find_allowed(query, value, num_heads, key_mask, attention_mask, causal)
    if key_mask is not None:  # NaN in the padding would become NaN in the gradients of the kernels: 0 * NaN
        query = _hide(query, key_mask) if is_self else query
        value, key = (query, query) if is_self else (_hide(value, key_mask), _hide(key, key_mask))
    linear = _Linear(use_bias, kernel_initializer, kernel_regularizer)
    heads = [
        _split(linear(name, tensor, num_heads * size), num_heads)
        for name, tensor, size in (("query", query, key_dim), ("key", key, key_dim), ("value", value, value_dim))
    ]
    attended = _attend(heads, allowed, score_bias, partial(_drop, rate=dropout, training=training))
    outputs = linear("out", _merge(attended), units)
    if allowed is not None:
        outputs = tf.where_v2(tf.reduce_any(allowed, [1, 3])[:, :, None], outputs, tf.zeros([], outputs.dtype))
    return name_output(outputs, **linear.variables)


def _attend(
    heads: list[tf.Tensor],
    allowed: tf.Tensor | None,
    score_bias: tf.Tensor | None,
    drop_weights: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """
    Return the weighted means of the values, [N, H, T, size].

    Args:
        heads: queries, keys and values, [N, H, T or S, size].
        allowed: bool, rank 4, broadcasts with [N, H, T, S], or None.
        score_bias: as in MultiHeadAttention.
        drop_weights: weights -> weights.
    """
    query, key, value = heads
    query *= query.shape.as_list()[3] ** -0.5  # before the product, which might overflow in float16
    query, key, value = (to_compute_dtype(tensor) for tensor in (query, key, value))
    scores = widen(multiply(partial(tf.matmul, transpose_b=True), query, key))
    if score_bias is not None:
        scores += tf.cast(score_bias, scores.dtype)
    if allowed is not None:
        scores = tf.where_v2(allowed, scores, tf.constant(scores.dtype.min, scores.dtype))
    weights = tf.cast(drop_weights(tf.nn.softmax(scores)), value.dtype)
    attended = to_float32(multiply(tf.matmul, weights, value))
    if allowed is None:
        return attended
    # where no key is allowed, the weights are equal
    return tf.where_v2(tf.reduce_any(allowed, 3, keepdims=True), attended, tf.zeros([], attended.dtype))


def _drop(weights: tf.Tensor, rate: float, training: bool | None) -> tf.Tensor:
    rate = check_fraction(f"{layer_title(_LAYER)}: dropout", rate)
    if rate == 0 or not find_training(_LAYER, training):
        return weights
    warn_if_called_twice(_LAYER, "the second dropout mask differs from the first, and the gradients are wrong")
    return drop(weights, rate=rate)


class _Linear:
    """
    Linear maps of the last axis, each with its own variables.

    Args:
        use_bias, kernel_initializer, kernel_regularizer: as in MultiHeadAttention.

    Attributes:
        variables: the variables of all maps so far by name.
    """

    def __init__(
        self,
        use_bias: bool,
        kernel_initializer: Callable[..., tf.Tensor] | None,
        kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None,
    ) -> None:
        self._use_bias = use_bias
        self._options = {"initializer": kernel_initializer, "regularizer": kernel_regularizer}
        self.variables: dict[str, tf.Variable] = {}

    def __call__(self, scope: str, x: tf.Tensor, units: int) -> tf.Tensor:
        """Return x W + b, [N, T, units], with the variables `<scope>/W` and `<scope>/b`."""
        *sizes, size = StaticDynamicShape(x).get_dynamic()
        matrix = tf.reshape(to_compute_dtype(x), [-1, size])
        with tf.variable_scope(scope):
            kernel = get_variable("W", [size, units], dtype=variable_dtype(matrix), **self._options)
            product = to_float32(multiply(tf.matmul, matrix, read_as(kernel, matrix.dtype)))
            y = bias_and_activate(product, kernel, "channels_last", None, self._use_bias, None, None, None)
        self.variables[f"{scope}_W"] = kernel
        if self._use_bias:
            self.variables[f"{scope}_b"] = y.variables.b
        return tf.reshape(y, [*sizes, units])


# Shapes ---------------------------------------------------------------------------------------------------------------


def _split(x: tf.Tensor, num_heads: int) -> tf.Tensor:
    """Return the heads of [N, T, H * size]: [N, H, T, size]."""
    *sizes, size = StaticDynamicShape(x).get_dynamic()
    return tf.transpose(tf.reshape(x, [*sizes, num_heads, size // num_heads]), [0, 2, 1, 3])


def _merge(x: tf.Tensor) -> tf.Tensor:
    """Return the inverse of `_split`."""
    batch, num_heads, length, size = StaticDynamicShape(x).get_dynamic()
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, num_heads * size])


def _hide(x: tf.Tensor, key_mask: tf.Tensor) -> tf.Tensor:
    """Return [N, S, D] with zeros in the padding."""
    return tf.where_v2(tf.cast(key_mask, tf.bool)[:, :, None], x, tf.zeros([], x.dtype))


def _find_allowed(
    query: tf.Tensor,
    value: tf.Tensor,
    num_heads: int,
    key_mask: tf.Tensor | None,
    attention_mask: tf.Tensor | None,
    causal: bool,
) -> tf.Tensor | None:
    """Return where queries may attend to keys: bool, rank 4, broadcasts with [N, H, T, S]. None means everywhere."""
    batch, length, _ = query.shape.as_list()
    num_keys = value.shape.as_list()[1]
    masks = []
    if key_mask is not None:
        mask = _require_mask("key_mask", key_mask, [batch, num_keys])
        masks.append(mask[:, None, None])
    if attention_mask is not None:
        mask = _require_mask("attention_mask", attention_mask, [batch, num_heads, length, num_keys])
        masks.append(mask[:, None] if mask.shape.ndims == 3 else mask)
    if causal:
        if None not in (length, num_keys) and num_keys < length:
            raise ValueError(
                f"{layer_title(_LAYER)}: causal needs at least as many keys as queries (got {num_keys} keys and {length} queries), "
                "because the last ones are at the same position. Use attention_mask for another order."
            )
        queries, keys = (tf.range(StaticDynamicShape(tensor).get_dynamic(1)) for tensor in (query, value))
        ahead = tf.size(keys) - tf.size(queries)
        masks.append((keys <= queries[:, None] + ahead)[None, None])
    return reduce(tf.logical_and, masks) if masks else None


def _require_mask(name: str, mask: tf.Tensor, expected: list[int | None]) -> tf.Tensor:
    """Return a mask as bool. It has the expected shape, or, if that has rank 4, one that broadcasts to it, maybe without axis 1."""
    mask = tf.convert_to_tensor(mask)
    if not (mask.dtype.is_bool or mask.dtype.is_integer):
        raise ValueError(
            f"{layer_title(_LAYER)}: {name} has the wrong dtype (expected bool or integers, got {mask.dtype.name}). Use "
            "mask > 0, or score_bias for numbers that are added to the scores."
        )
    sizes = expected if mask.shape.ndims != 3 else [expected[0], *expected[2:]]
    may_be_one = len(expected) == 4
    fits = mask.shape.ndims == len(sizes) and all(
        None in (size, own) or own == size or (may_be_one and own == 1)
        for own, size in zip(mask.shape.as_list(), sizes)
    )
    if not fits:
        forms = "[N, T, S] or [N, num_heads, T, S]" if may_be_one else "[N, S]"
        raise ValueError(
            f"{layer_title(_LAYER)}: {name} has the wrong shape (expected {forms}, here {expected}, got {mask.shape}). A mask [T, S] "
            "is attention_mask=mask[None], a mask of padding [N, S] is key_mask."
        )
    return tf.cast(mask, tf.bool)


def _require_beside(what: str, tensor: tf.Tensor, other: tf.Tensor, same_length: bool = False) -> tf.Tensor:
    """Return sequences whose N and dtype are those of other sequences, and T if `same_length`."""
    tensor = _require_sequences(what, tensor)
    if tensor.dtype != other.dtype:
        raise ValueError(
            f"{layer_title(_LAYER)}: {what} has the wrong dtype (expected {other.dtype.name}, got {tensor.dtype.name})."
        )
    shape = other.shape[: 2 if same_length else 1].concatenate([None] * (1 if same_length else 2))
    require_shape(_LAYER, what, tensor, shape)
    return tensor


def _require_sequences(what: str, tensor: tf.Tensor) -> tf.Tensor:
    """Return sequences [N, T, D] in the dtype to compute in."""
    return require_sequences(_LAYER, to_compute_dtype(tf.convert_to_tensor(tensor)), what)


def _divide(query: tf.Tensor, num_heads: int) -> int:
    """Return the size of a head by default."""
    size = query.shape.as_list()[2]
    if size % num_heads:
        raise ValueError(
            f"{layer_title(_LAYER)}: the input has {size} features (expected a multiple of the {num_heads} heads). Pass key_dim."
        )
    return int(size // num_heads)

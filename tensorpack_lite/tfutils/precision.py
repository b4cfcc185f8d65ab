"""
Mixed precision: layers compute in 16 bits; variables, costs and optimizers stay in float32.

Inside `precision_scope`, layers cast their inputs and the values of their variables:

- Convolutions, `FullyConnected`, `LSTM`, `GRU` and `MultiHeadAttention` multiply in 16 bits. Where TensorFlow's kernels
  would also add up in 16 bits, which CPUs do, the factors are rounded to 16 bits, and the product is computed in float32.
- Layers that return images return 16 bits. `FullyConnected`, `GlobalAvgPooling`, `LSTM`, `GRU` and `MultiHeadAttention` return
  float32, so that costs, which are computed from them, are float32.
- Normalization, and all other sums in layers and coefficients made from parameters, are computed in float32, whatever the dtype
  of inputs and outputs is.
- Variables are float32, also those that a model requests in 16 bits. The layers read them through a cast.

All casts are operations of the graph. A trainer calls the same function for training, validation and prediction, so a scope
around the body of that function is enough.
"""

from __future__ import annotations

import functools
import re
import threading
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, ContextManager, Iterator

from ..compat import TF_VERSION, ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..compat.onednn import has_bfloat16_products
from ..utils import logger
from ..utils.argtools import graph_memoized
from ..utils.checks import check_choice
from ..utils.gpu import get_num_gpu
from .early_read import shared_read
from .loss_scale import scale_loss
from .symbolic_functions import compute_in_float32
from .tower.context import get_current_tower_context
from .varreplace import custom_getter_scope

_DTYPES = {"float32": tf.float32, "mixed_float16": tf.float16, "mixed_bfloat16": tf.bfloat16}
_HALF = (tf.float16, tf.bfloat16)


class _Current(threading.local):
    """The dtype in which the layers of this thread compute; None means that of their inputs."""

    dtype: tf.DType | None = None


_current = _Current()


def check_precision(who: str, precision: str) -> str:
    """
    Return the name of a precision that the installed TensorFlow supports.

    Args:
        who: the class or function that has the argument, for the error.
        precision: "float32", "mixed_float16" or "mixed_bfloat16".

    Raises:
        ValueError: the name is unknown.
        RuntimeError: the name is "mixed_bfloat16", and TensorFlow is 1.15.
    """
    check_choice(f"{who}: precision", precision, list(_DTYPES))
    if precision == "mixed_bfloat16" and TF_VERSION < (2, 0):
        raise RuntimeError(
            f"{who}: precision 'mixed_bfloat16' needs TensorFlow 2, because TensorFlow {tensorflow.__version__} has no "
            "convolutions and matrix products in bfloat16. Use 'mixed_float16'."
        )
    return precision


@contextmanager
def precision_scope(precision: str) -> Iterator[None]:
    """
    Context manager and decorator: let layers compute in a precision.

    Args:
        precision: "mixed_float16", "mixed_bfloat16", or "float32", which keeps a part of a model in float32. Outside of
            other scopes, "float32" changes nothing.

    Raises:
        ValueError, RuntimeError: see `check_precision`.
        TypeError, ValueError: from TensorFlow, about tensors of different dtypes, with advice.

    Example:
        >>> tower_func = TowerFunc(precision_scope("mixed_bfloat16")(build), signature)   # e.g. in a trainer for a GAN
        >>> with precision_scope("float32"):                    # in a model
        ...     image = Conv2D("last", x, 3, 1)

    Note: "mixed_float16" also needs `DynamicLossScaleOptimizer`. `with_precision` adds it.
    """
    ensure_graph_mode()
    check_precision("precision_scope", precision)
    dtype, outer = _DTYPES[precision], _current.dtype
    if outer is None and precision == "float32":
        yield
        return
    _current.dtype = dtype
    try:
        with _storage_in_float32(dtype), _record(dtype), _explain_mismatch(precision):
            yield
    finally:
        _current.dtype = outer


def with_precision(
    precision: str, get_cost_fn: Callable[..., tf.Tensor], get_opt_fn: Callable[[], tf.train.Optimizer]
) -> tuple[Callable[..., tf.Tensor], Callable[[], tf.train.Optimizer]]:
    """
    Return the functions for `SingleCostTrainer.setup_graph`, or another trainer, in a precision.

    Args:
        precision: "float32", "mixed_float16" or "mixed_bfloat16".
        get_cost_fn: a function that takes the input tensors, builds the model and returns a scalar cost.
        get_opt_fn: a function that returns an optimizer.

    Returns:
        Two functions: `get_cost_fn` under `precision_scope`, whose cost is float32; and `get_opt_fn`, whose optimizer
        has for "mixed_float16" a `DynamicLossScaleOptimizer` inside its gradient processors, unless it has one already.
        For "float32", the same functions.

    Raises:
        ValueError, RuntimeError: see `check_precision`.

    Example:
        >>> build, optimizer = with_precision("mixed_float16", model.build_graph, model.get_optimizer)
        >>> trainer.setup_graph(signature, source, build, optimizer)
    """
    check_precision("with_precision", precision)
    if precision == "float32":
        return get_cost_fn, get_opt_fn

    @functools.wraps(get_cost_fn)
    def get_cost(*inputs: tf.Tensor) -> tf.Tensor:
        graph = tf.get_default_graph()
        before = len(graph.get_operations())
        with precision_scope(precision):
            cost = get_cost_fn(*inputs)
        _log_casts(precision, graph.get_operations()[before:])
        return tf.cast(cost, tf.float32) if isinstance(cost, tf.Tensor) and cost.dtype in _HALF else cost

    if precision != "mixed_float16":
        return get_cost, get_opt_fn
    return get_cost, lambda: scale_loss(get_opt_fn())


# For layers -------------------------------------------------------------------------------------------------------


def to_compute_dtype(tensor: tf.Tensor) -> tf.Tensor:
    """Cast a tensor of 16 or 32 bits to the dtype of the scope. Outside of scopes, return it unchanged."""
    return tensor if _current.dtype is None else _cast(tensor, _current.dtype)


def to_float32(tensor: tf.Tensor) -> tf.Tensor:
    """Cast a tensor of 16 bits to float32. Outside of scopes, return it unchanged."""
    return tensor if _current.dtype is None else _cast(tensor, tf.float32)


def variable_dtype(tensor: tf.Tensor) -> tf.DType:
    """Return the dtype of the variables of a layer with these inputs: theirs, but float32 for 16 bits in a scope."""
    dtype = tensor.dtype.base_dtype
    return tf.float32 if _current.dtype is not None and dtype in _HALF else dtype


def read_as(variable: tf.Variable, dtype: tf.DType) -> tf.Tensor:
    """Return the value of a variable by `shared_read`, cast in a scope."""
    value = shared_read(variable)
    return value if _current.dtype is None else _cast(value, dtype.base_dtype)


def multiply(product: Callable[..., tf.Tensor], *factors: tf.Tensor) -> tf.Tensor:
    """
    Return a product whose terms are added up in float32, in the dtype of its factors.

    Args:
        product: a function such as `tf.matmul`.
        *factors: the factors, all of the same dtype.
    """
    if _adds_up_in_float32(factors[0].dtype.base_dtype):
        return product(*factors)
    with _keep_in_float32():
        return compute_in_float32(product, *factors)


def may_overflow() -> bool:
    """Return whether the layers compute in float16, so that training continues after a value that is not finite."""
    return _current.dtype == tf.float16


def in_float32_part() -> bool:
    """Return whether the current scope is "float32" inside another one."""
    return _current.dtype == tf.float32


# For lint ---------------------------------------------------------------------------------------------------------


class PrecisionRecord:
    """
    Record of the scopes of one graph.

    Attributes:
        dtypes: the dtypes of 16 bits in which layers compute; empty if the graph has no such scope.
        kept: the names of the operations that were built under "float32" inside another scope, or that compute in float32
            because no kernel of this machine adds up 16 bits in float32.
    """

    def __init__(self) -> None:
        self.dtypes: set[tf.DType] = set()
        self.kept: set[str] = set()


@graph_memoized
def precision_record() -> PrecisionRecord:
    """Return the record of the default graph."""
    return PrecisionRecord()


def _cast(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    own = tensor.dtype.base_dtype
    return tensor if own == dtype or own not in (tf.float32, *_HALF) else tf.cast(tensor, dtype)


# Parts of a scope -------------------------------------------------------------------------------------------------


def _storage_in_float32(dtype: tf.DType) -> ContextManager[None]:
    return nullcontext() if dtype == tf.float32 else custom_getter_scope(_store_in_float32)


def _store_in_float32(getter: Callable[..., tf.Tensor], *args: object, **kwargs: Any) -> tf.Tensor:
    """Custom getter: a trainable variable that is requested in 16 bits is stored in float32, and cast when it is read."""
    dtype = kwargs.get("dtype")
    if dtype is None or tf.as_dtype(dtype) not in _HALF or kwargs.get("trainable") is False:
        return getter(*args, **kwargs)
    variable = getter(*args, **{**kwargs, "dtype": tf.float32})
    return tf.cast(shared_read(variable), dtype)


@contextmanager
def _record(dtype: tf.DType) -> Iterator[None]:
    """Record the dtype of a scope, or the operations of a part that is float32 on purpose."""
    if dtype != tf.float32:
        precision_record().dtypes.add(dtype)
        yield
        return
    with _keep_in_float32():
        yield


@contextmanager
def _keep_in_float32() -> Iterator[None]:
    """Record that the operations built inside are float32 on purpose."""
    graph, record = tf.get_default_graph(), precision_record()
    before = len(graph.get_operations())
    yield
    record.kept.update(op.name for op in graph.get_operations()[before:])


def _adds_up_in_float32(dtype: tf.DType) -> bool:
    """Return whether the kernels of products for a dtype add up in float32, or more precisely."""
    if dtype not in _HALF or get_num_gpu() > 0:
        return True
    return dtype == tf.bfloat16 and TF_VERSION >= (2, 9) and has_bfloat16_products()


@contextmanager
def _explain_mismatch(precision: str) -> Iterator[None]:
    """Add advice to TensorFlow's errors about an operation on tensors of 16 and 32 bits."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        if "float32" not in text or not re.search("float16|half", text) or "precision_scope" in text:
            raise
        raise type(error)(
            f"{text}\nWith precision '{precision}', layers that return images return {_DTYPES[precision].name}, and tensors "
            "from elsewhere are float32. Cast one of them, e.g. tf.cast(x, tf.float32), or build this part of the model "
            'under `with precision_scope("float32"):`.'
        ) from error


def _log_casts(precision: str, operations: list[tf.Operation]) -> None:
    """Log how many operations of the first training tower compute in 16 bits, and how many cast."""
    tower = get_current_tower_context()
    if tower is None or not tower.is_main_training_tower:
        return
    half = [op for op in operations if any(tensor.dtype in _HALF for tensor in (*op.inputs, *op.outputs))]
    casts = sum(op.type == "Cast" for op in half)
    logger.info(
        f"Precision {precision}: {len(half) - casts} operations of the model compute in {_DTYPES[precision].name}, with "
        f"{casts} casts."
    )

"""
Functions whose order of arguments TensorFlow 1.0 changed.

A call in the order of TensorFlow 0.x is recognized if TensorFlow 1 refuses it. So are calls of the costs of `tf.nn` without
keywords, and a dimension before a list of tensors. Elsewhere the types of the arguments decide.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Mapping, Optional, Tuple

import numpy as np

from ..compat import tfv1 as tf
from .removed.said import say

_Call = Optional[Tuple[Tuple[Any, ...], Mapping[str, Any]]]  # arguments for the function of today
_INTEGERS = (int, np.integer)


def _renamed(kwargs: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in kwargs.items()}


def _is_integer(value: Any) -> bool:
    return bool(tf.convert_to_tensor(value).dtype.is_integer)


def _cost(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
    """Convert (logits, labels, name). Labels, if only they are integers, may be first."""
    if not args and "targets" not in kwargs:
        return None
    known = _renamed(kwargs, targets="labels")
    names = [name for name in ("logits", "labels", "name") if name not in known]
    if len(args) > 1 and "logits" in names[:1] and _is_integer(args[0]) and not _is_integer(args[1]):
        names[:2] = ["labels", "logits"]
    return args[len(names) :], {**known, **dict(zip(names, args))}


def _candidates(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
    """Convert (weights, biases, inputs, labels, ...)."""
    if len(args) < 4 or _is_integer(args[2]) or not _is_integer(args[3]):
        return None
    return (*args[:2], args[3], args[2], *args[4:]), kwargs


def _ctc(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
    """Convert (inputs, labels, sequence_length, ...)."""
    if len(args) < 2 or not isinstance(args[1], (tf.SparseTensor, tf.SparseTensorValue)):
        return None
    return (args[1], args[0], *args[2:]), kwargs


def _concat(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
    """Convert (concat_dim, values, name)."""
    if "concat_dim" in kwargs:
        return args, _renamed(kwargs, concat_dim="axis")
    if not args or not isinstance(args[0], _INTEGERS):
        return None
    return (), {"axis": args[0], **dict(zip(("values", "name"), args[1:])), **kwargs}


def _split(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
    """Convert (split_dim, num_split, value, name)."""
    if not (args and isinstance(args[0], _INTEGERS)) and not {"split_dim", "num_split"} & set(kwargs):
        return None
    names = ("axis", "num_or_size_splits", "value", "name")
    known = _renamed(kwargs, split_dim="axis", num_split="num_or_size_splits")
    return (), {**dict(zip(names, args)), **known}


# {name below `tf`: a function that converts the arguments of a call in the old order, and returns None for others}
ORDERS: Mapping[str, Callable[[Tuple[Any, ...], Mapping[str, Any]], _Call]] = {
    "concat": _concat,
    "split": _split,
    "nn.ctc_loss": _ctc,
    "nn.nce_loss": _candidates,
    "nn.sampled_softmax_loss": _candidates,
    "nn.sigmoid_cross_entropy_with_logits": _cost,
    "nn.softmax_cross_entropy_with_logits": _cost,
    "nn.sparse_softmax_cross_entropy_with_logits": _cost,
}


def with_both_orders(path: str) -> Callable[..., Any]:
    """
    Return a function of TensorFlow that also accepts its arguments in the order of TensorFlow 0.x.

    Args:
        path: its dotted name below `tf`, a key of `ORDERS`.
    """
    plain: Callable[..., Any] = operator.attrgetter(path)(tf)

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        old = ORDERS[path](args, kwargs)
        if old is None:
            return plain(*args, **kwargs)
        name = f"tf.{path}"
        say(name, f"{name} takes its arguments in the order of TensorFlow 0.x here.")
        return plain(*old[0], **old[1])

    return call

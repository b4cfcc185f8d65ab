"""
Names of variables that mean their values.

Variables made in a tower are resource variables, whose tensor `name:0` is a handle. In TensorFlow 1, for
which old scripts were written, `name:0` is the value. The library's own look-ups return the value.
TensorFlow's return the handle, unless `install` was called, as `tensorpack-lite run` does.

No look-up creates an operation: the value is the read that was created with the variable. So names also work
in a finalized graph.
"""

from __future__ import annotations

import functools
import itertools
import re
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator

from tensorflow.python.client import session as _session

from . import TF_VERSION, tensorflow
from . import tfv1 as tf
from .replacement import replace

# TensorFlow's errors about a tensor of dtype resource. Tried on 1.15, 2.15, 2.21.
_ABOUT_A_HANDLE = re.compile(r"\b(dtype|type|DataType) resource\b|types \[.*\bresource\b")


def value_of(tensor: tf.Tensor | tf.Operation) -> tf.Tensor | tf.Operation:
    """
    Return the value of a variable for the handle of a resource variable. Other tensors and operations are
    returned unchanged.

    A handle whose variable was created without a read, by `tf.raw_ops` for example, is returned unchanged too.
    """
    op = getattr(tensor, "op", None)  # an Operation does not have this attribute
    if op is None or op.type != "VarHandleOp":
        return tensor
    try:
        return tensor.graph.get_tensor_by_name(f"{op.name}/Read/ReadVariableOp:0")
    except KeyError:
        return tensor


def refuse_feed(tensor: tf.Tensor, who: str) -> None:
    """
    Raise an error if a tensor to feed is the handle of a variable.

    A variable of TensorFlow 1 can be fed under its name, and everything that uses it sees the fed value. A
    resource variable is read by many operations, so a feed of one of them would not reach the others.

    Args:
        tensor: the tensor to feed.
        who: the function that feeds it, for the message.

    Raises:
        ValueError: the tensor is a handle.
    """
    if tensor.op.type == "VarHandleOp":
        raise ValueError(
            f"{who}: '{tensor.name}' is a variable, which cannot be fed (expected a placeholder or the output of an operation). "
            "Set it before the run: variable.load(value, session)."
        )


@contextmanager
def explain_handles(who: str) -> Iterator[None]:
    """
    Add the way out to TensorFlow's errors about the handle of a variable that was looked up by name.

    Args:
        who: the code of the user that runs inside, for the message.

    Raises:
        TypeError, ValueError: the error, of the same type, with an explanation. Other errors are not changed.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        is_known = type(error) in (TypeError, ValueError) and _WAY_OUT not in str(error)
        if not (is_known and _ABOUT_A_HANDLE.search(str(error))):
            raise
        raise type(error)(f"{error}\n{who}: {_WAY_OUT}") from error


_WAY_OUT = (
    "the handle of a variable was used where its value was expected. graph.get_tensor_by_name('scope/W:0') returns the handle, "
    "because variables made in a tower are resource variables. "
    "Write: get_tensors_by_names(['scope/W'])[0], from tensorpack_lite.tfutils.common."
)


def install() -> None:
    """
    Make the names of variables mean their values in `tf.Graph.get_tensor_by_name` and `tf.Session.run`, for
    this process.

    `tf.gradients`, `tf.assign`, `tf.assign_add` and `tf.assign_sub` take such a value for the variable, as in
    TensorFlow 1. Feeding it, or its name, raises the error of `refuse_feed`. `tf.Graph.as_graph_element`
    still returns the handle, because TensorFlow restores variables from meta graphs with it. Further calls do
    nothing.

    Why private: `Session.run` looks up names with `as_graph_element`, and TensorFlow does not export the
    function that registers another conversion of fetches. Tried on 1.15, 2.15, 2.21.
    """
    if tf.Graph.get_tensor_by_name is _get_value_by_name:
        return
    replace(tf.Graph, "get_tensor_by_name", _get_value_by_name)
    replace(_session.BaseSession, "run", _run)
    _session.register_session_run_conversion_functions(
        str, _fetch_by_name, lambda name, value: [(name, value)], lambda name: [name]
    )
    modules = (tf, tensorflow) if TF_VERSION < (2, 0) else (tf,)
    for module, name in itertools.product(modules, ("gradients", "assign", "assign_add", "assign_sub")):
        wrap = _with_handles if name == "gradients" else _with_variable
        replace(module, name, wrap(getattr(module, name)))


_get_tensor_by_name = tf.Graph.get_tensor_by_name
_session_run = _session.BaseSession.run


@functools.wraps(_get_tensor_by_name)
def _get_value_by_name(self: tf.Graph, name: str) -> tf.Tensor:
    return value_of(_get_tensor_by_name(self, name))


@functools.wraps(_session_run)
def _run(self: tf.Session, fetches: object, feed_dict: Any = None, *args: object, **kwargs: object) -> Any:
    for tensor in _find(self.graph, feed_dict or ()):
        refuse_feed(_handle_of(tensor), "Session.run")
    return _session_run(self, fetches, feed_dict, *args, **kwargs)


def _find(graph: tf.Graph, keys: Iterable[object]) -> Iterator[tf.Tensor]:
    """Return the tensors among the keys of a feed. TensorFlow reports names that do not exist."""
    for key in keys:
        if isinstance(key, tf.Tensor):
            yield key
        elif isinstance(key, str):
            try:
                yield graph.as_graph_element(key, allow_operation=False)
            except (KeyError, ValueError):
                continue


def _handle_of(tensor: Any) -> Any:
    """Return the handle of the variable whose `value_of` is a tensor. Other objects are returned unchanged."""
    if not isinstance(tensor, tf.Tensor) or tensor.op.type != "ReadVariableOp":
        return tensor
    handle = tensor.op.inputs[0]
    return handle if value_of(handle) is tensor else tensor


def _with_handles(gradients: Callable[..., Any]) -> Callable[..., Any]:
    """Let `tf.gradients` take values of variables. A variable has several reads, and its handle leads to all of them."""

    @functools.wraps(gradients)
    def wrapper(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
        xs = [_handle_of(x) for x in xs] if isinstance(xs, (list, tuple)) else _handle_of(xs)
        return gradients(ys, xs, *args, **kwargs)

    return wrapper


def _with_variable(assign: Callable[..., Any]) -> Callable[..., Any]:
    """Let `tf.assign` and the like take the value of a variable."""

    @functools.wraps(assign)
    def wrapper(ref: Any, *args: Any, **kwargs: Any) -> Any:
        handle = _handle_of(ref)
        if handle is not ref:
            keys = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)
            variables = [variable for key in keys for variable in handle.graph.get_collection(key)]
            ref = next((v for v in variables if getattr(v, "handle", None) is handle), ref)
        return assign(ref, *args, **kwargs)

    return wrapper


def _fetch_by_name(name: str) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return what TensorFlow fetches for a name, and a function of the values. It calls this in the graph of the session."""
    try:
        element = value_of(tf.get_default_graph().as_graph_element(name))
    except (KeyError, ValueError):
        element = name  # TensorFlow raises its own error
    return [element], lambda values: values[0]

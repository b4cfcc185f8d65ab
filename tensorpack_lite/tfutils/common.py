"""Session configuration, global step, and lookup of tensors by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ContextManager, Sequence

from ..compat import TF_VERSION, ensure_graph_mode
from ..compat import tfv1 as tf
from ..compat.value_names import value_of
from ..utils.missing_names import explain_missing_names
from .environment import collect_env_info

__all__ = [
    "collect_env_info", "get_default_sess_config", "get_global_step_value", "get_global_step_var",
    "get_tensors_by_names", "get_tf_version_tuple",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)

tfv1 = tf  # scripts import it from here


def get_tf_version_tuple() -> tuple[int, int]:
    """
    Return the version of the installed TensorFlow.

    Returns:
        `(major, minor)`, e.g. `(2, 21)`.
    """
    return TF_VERSION


def get_default_sess_config(mem_fraction: float = 0.99) -> tf.ConfigProto:
    """
    Return the default session configuration of trainers and predictors.

    Operations whose device does not exist fall back to an existing one (soft placement). GPU memory is allocated as
    needed. Each operation runs on one thread, and as many operations run in parallel as the machine has cores.

    Args:
        mem_fraction: the maximum share of each GPU's memory, 0 to 1.

    Returns:
        A new `ConfigProto`.
    """
    return tf.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=0,
        gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=mem_fraction, allow_growth=True),
    )


def get_global_step_var() -> tf.Variable:
    """
    Return the step counter of the default graph. Create it if it does not exist.

    Returns:
        The variable `global_step`: int64, scalar, not trained, in `GLOBAL_VARIABLES` and `GLOBAL_STEP`. It is at the
        root of the graph, whatever scope the caller is in.

    Note: a tensor that reads it in a training step sees the value from before that step's increment.

    Difference from tensorpack: tensorpack 0.11 does not order the increment and the reads of a step, so a
    reader may see either value. In this library, a reader always sees the value from before the increment.
    """
    ensure_graph_mode()
    existing = tf.train.get_global_step()
    if existing is not None:
        return existing
    with tf.name_scope(None), root_variable_scope():
        return tf.get_variable(
            tf.GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=tf.int64,
            initializer=tf.zeros_initializer(),
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP],
        )


def root_variable_scope() -> ContextManager[tf.VariableScope]:
    """Return a context with the root's variable scope: no name, custom getter, device or reuse; resource variables."""
    root = tf.VariableScope(reuse=False, name="", use_resource=True)
    return tf.variable_scope(root, reuse=False, auxiliary_name_scope=False)


def get_global_step_value() -> int:
    """
    Return the value of the step counter in the default session, the number of completed steps.

    Raises:
        RuntimeError: there is no default session.
    """
    session = require_default_session("get_global_step_value")
    with session.graph.as_default():
        return int(session.run(get_global_step_var()))


def gpu_available_in_session() -> bool:
    """Return whether the default session can place operations on a GPU."""
    devices = require_default_session("gpu_available_in_session").list_devices()
    return any(device.device_type.lower() == "gpu" for device in devices)


def require_default_session(who: str) -> tf.Session:
    """
    Return the default session.

    Args:
        who: the class or function that needs it, for the message.

    Raises:
        RuntimeError: there is no default session.
    """
    session = tf.get_default_session()
    if session is None:
        raise RuntimeError(f"{who}: there is no default session. Call it under `with sess.as_default():`.")
    return session


def get_op_tensor_name(name: str) -> tuple[str, str]:
    """
    Return the names of the operation and the tensor for the name of either.

    Returns:
        `(name of the operation, name of the tensor)`: `("x", "x:0")` for both `"x"` and `"x:0"`.
    """
    op_name, colon, index = name.rpartition(":")
    if colon and op_name and index.isdigit():
        return op_name, name
    return name, f"{name}:0"


def get_tensors_by_names(names: list[str]) -> list[tf.Tensor]:
    """
    Look up tensors in the default graph.

    Args:
        names: names of tensors or operations. An operation means its first output, and a variable of any kind means its
            value.

    Returns:
        A list of tensors.

    Raises:
        KeyError: a tensor does not exist. The message lists similar names.
    """
    graph = tf.get_default_graph()
    return [value_of(find_name(graph, get_op_tensor_name(name)[1])) for name in names]


def get_op_or_tensor_by_name(name: str | Sequence[str]) -> Any:
    """
    Look up operations (`"x"`) and tensors (`"x:0"`) in the default graph.

    Args:
        name: a name or a list of names.

    Returns:
        An `Operation` or a `Tensor` (for a variable's `name:0`, its value), or a list of them for a list of names.

    Raises:
        KeyError: a name does not exist. The message lists similar names.
    """
    if not isinstance(name, str):
        return [get_op_or_tensor_by_name(n) for n in name]
    return value_of(find_name(tf.get_default_graph(), name))


def find_fetch(graph: tf.Graph, name: str) -> tf.Tensor | tf.Operation:
    """
    Return what a name means as a fetch: the tensor, also without an index; or the operation if it has no value.

    Raises:
        KeyError: the name is not in the graph. The message lists the three most similar names.
    """
    element = find_name(graph, name)
    if isinstance(element, tf.Operation) and element.outputs:
        first = value_of(element.outputs[0])
        return element if first.dtype.base_dtype in (tf.resource, tf.variant) else first
    return value_of(element)


def find_name(graph: tf.Graph, name: str) -> tf.Tensor | tf.Operation:
    """
    Return the operation or tensor with exactly the given name.

    Raises:
        KeyError: the name is not in the graph. The message lists the three most similar names and, if none is a likely
            spelling, explains how to name a tensor.
    """
    try:
        return graph.as_graph_element(name)
    except (KeyError, ValueError) as error:
        names, wanted = [op.name for op in graph.get_operations()], get_op_tensor_name(name)[0]
        nearest = difflib.get_close_matches(wanted, names, n=3, cutoff=0.0)
        text = f"'{name}' is not in the graph. The nearest names are: {', '.join(nearest) or 'none'}."
        last = wanted.split("/")[-1]
        if not difflib.get_close_matches(last, {known.split("/")[-1] for known in names}, n=1):
            # a variable of Python in build_graph, whose name TensorFlow does not know
            text += f" To give a tensor of the model this name, write x = tf.identity(x, name='{last}') in the model."
        raise KeyError(text) from error

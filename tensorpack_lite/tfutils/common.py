"""Small questions to a graph or a session: its configuration, its global step, its tensors by name."""

from __future__ import annotations

import difflib
from typing import Any

from ..compat import TF_VERSION, ensure_graph_mode
from ..compat import tfv1 as tf
from .environment import collect_env_info

__all__ = [
    "collect_env_info",
    "find_name",
    "get_default_sess_config",
    "get_global_step_value",
    "get_global_step_var",
    "get_op_or_tensor_by_name",
    "get_op_tensor_name",
    "get_tensors_by_names",
    "get_tf_version_tuple",
    "gpu_available_in_session",
    "value_of",
]


def get_tf_version_tuple() -> tuple[int, int]:
    """
    Give the version of the installed TensorFlow.

    Returns:
        `(major, minor)`, e.g. `(2, 21)`.

    tensorpack: same.
    """
    return TF_VERSION


def get_default_sess_config(mem_fraction: float = 0.99) -> Any:
    """
    Make the session configuration that trainers and predictors use when the user gives none.

    Operations whose device does not exist fall back to one that does (soft placement); GPU memory is taken
    as needed; one thread runs inside an operation and as many as there are cores run operations.

    Args:
        mem_fraction: the share of each GPU's memory that may be taken, 0 to 1.

    Returns:
        A new `ConfigProto`.

    tensorpack: same.
    """
    config = tf.ConfigProto()
    config.allow_soft_placement = True
    config.intra_op_parallelism_threads = 1
    config.inter_op_parallelism_threads = 0
    config.gpu_options.per_process_gpu_memory_fraction = mem_fraction
    config.gpu_options.allow_growth = True
    return config


def get_global_step_var() -> Any:
    """
    Get the step counter of the default graph; create it if there is none.

    Returns:
        The variable `global_step`: int64, scalar, not trained, in `GLOBAL_VARIABLES` and `GLOBAL_STEP`, at the
        root of the graph wherever this is called.

    Note: a tensor that reads it in a training step sees the value from before that step's increment.

    tensorpack: same; there the order of reading and increment is left to chance.
    """
    ensure_graph_mode()
    existing = tf.train.get_global_step()
    if existing is not None:
        return existing
    with tf.name_scope(None), tf.variable_scope(
        _root_variable_scope(), reuse=False, auxiliary_name_scope=False
    ):
        return tf.get_variable(
            tf.GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=tf.int64,
            initializer=tf.zeros_initializer(),
            trainable=False,
            use_resource=True,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP],
        )


def _root_variable_scope() -> Any:
    """Give a variable scope without name, getter, device or reuse: what the code outside every scope has."""
    return tf.VariableScope(reuse=False, name="", use_resource=True)


def get_global_step_value() -> int:
    """
    Read the step counter in the default session.

    Returns:
        The number of steps done.

    Raises:
        RuntimeError: there is no default session.

    tensorpack: same.
    """
    session = tf.get_default_session()
    if session is None:
        raise RuntimeError(
            "get_global_step_value: there is no default session. Call it under `with sess.as_default():`."
        )
    with session.graph.as_default():
        return int(session.run(get_global_step_var()))


def gpu_available_in_session() -> bool:
    """Tell whether the default session can place operations on a GPU."""
    session = tf.get_default_session()
    if session is None:
        raise RuntimeError(
            "gpu_available_in_session: there is no default session. Call it under `with sess.as_default():`."
        )
    return any(device.device_type.lower() == "gpu" for device in session.list_devices())


def get_op_tensor_name(name: str) -> tuple[str, str]:
    """
    Split a name that may be an operation's or a tensor's.

    Returns:
        The operation's name and the tensor's: `"x"` and `"x:0"` for both `"x"` and `"x:0"`.

    tensorpack: same; there an index of two digits is not understood.
    """
    op_name, colon, index = name.rpartition(":")
    if colon and op_name and index.isdigit():
        return op_name, name
    return name, f"{name}:0"


def get_tensors_by_names(names: list[str]) -> list[Any]:
    """
    Look tensors up in the default graph.

    Args:
        names: names of tensors, or of operations, which mean their first output. The name of a variable means
            its value, whichever kind of variable it is.

    Returns:
        A list of tensors.

    Raises:
        KeyError: no such tensor; names the nearest ones.

    tensorpack: same.
    """
    graph = tf.get_default_graph()
    return [value_of(find_name(graph, get_op_tensor_name(name)[1])) for name in names]


def get_op_or_tensor_by_name(name: Any) -> Any:
    """
    Look up operations (`"x"`) and tensors (`"x:0"`) in the default graph.

    Args:
        name: a name or a list of names.

    Returns:
        An `Operation` or a `Tensor` (for a variable's `name:0`, its value); a list for a list.

    Raises:
        KeyError: no such name; names the nearest ones.

    tensorpack: same.
    """
    if not isinstance(name, str):
        return [get_op_or_tensor_by_name(n) for n in name]
    op_name, tensor_name = get_op_tensor_name(name)
    if name == tensor_name:
        return value_of(find_name(tf.get_default_graph(), tensor_name))
    return find_name(tf.get_default_graph(), op_name)


def find_name(graph: Any, name: str) -> Any:
    """
    Get the operation or tensor of that exact name.

    Raises:
        KeyError: it is not in the graph; names the three nearest.
    """
    try:
        return graph.as_graph_element(name)
    except (KeyError, ValueError) as error:
        op_name = get_op_tensor_name(name)[0]
        nearest = difflib.get_close_matches(
            op_name, [op.name for op in graph.get_operations()], n=3, cutoff=0.0
        )
        raise KeyError(
            f"'{name}' is not in the graph. The nearest names are: {', '.join(nearest) or 'none'}."
        ) from error


def value_of(tensor: Any) -> Any:
    """
    Turn the handle of a resource variable into the tensor of its value; leave every other tensor as it is.

    A resource variable's `name:0` is a handle. Scripts that name a variable mean what it holds.
    """
    op = getattr(tensor, "op", None)  # an Operation has none: it stays as it is
    if op is None or op.type != "VarHandleOp":
        return tensor
    return tensor.graph.get_tensor_by_name(f"{op.name}/Read/ReadVariableOp:0")

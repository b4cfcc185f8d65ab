"""
Every name of TensorFlow in use that is not part of its public API, each with the reason and the versions it was tried on.

Nothing else in the library reaches into `tensorflow.python` or calls an underscore method of a TensorFlow object.
"""

from __future__ import annotations

from typing import Any, Sequence

from tensorflow.core.protobuf import config_pb2
from tensorflow.python import tf2 as _tf2

try:  # what Session.run gives for tf.IndexedSlices; TensorFlow exports it nowhere. Tried on 1.15, 2.15, 2.21.
    from tensorflow.python.framework.indexed_slices import IndexedSlicesValue
except ImportError:  # TF 1.15
    from tensorflow.python.framework.ops import IndexedSlicesValue

__all__ = [
    "IndexedSlicesValue",
    "add_control_inputs",
    "explain_error",
    "inside_control_flow",
    "inside_xla",
    "make_callable",
    "unfinalize",
    "v2_behavior_enabled",
]


def v2_behavior_enabled() -> bool:
    """
    Tell whether TensorFlow 2 behaviour is on.

    Why private: TensorFlow has switches for it but no public question. Tried on 1.15, 2.15, 2.21.
    """
    return bool(_tf2.enabled())


def make_callable(
    session: Any,
    fetches: Sequence[Any],
    targets: Sequence[Any] = (),
    feeds: Sequence[Any] = (),
    run_options: Any = None,
) -> Any:
    """
    Prepare one step of a session as a function: the fastest way TensorFlow has to run the same step again.

    Why private: the public `Session.make_callable` falls back to the slow `Session.run` as soon as there
    is a feed or an option, and cannot take targets beside fetches. Tried on 1.15, 2.15, 2.21.

    Args:
        session: an open `tf.Session`.
        fetches: tensors whose values are returned.
        targets: operations that run without a value.
        feeds: tensors fed at each call, in this order.
        run_options: a `RunOptions` for every call, or None.

    Returns:
        A function `f(*arrays, run_metadata=None) -> list of values`, one value a fetch. `arrays` must be
        ndarrays of exactly the dtypes of `feeds`.
    """
    options = config_pb2.CallableOptions()
    options.fetch.extend(tensor.name for tensor in fetches)
    options.target.extend(op.name for op in targets)
    options.feed.extend(tensor.name for tensor in feeds)
    if run_options is not None:
        options.run_options.CopyFrom(run_options)
    return session._make_callable_from_options(options)


def add_control_inputs(op: Any, inputs: Sequence[Any]) -> None:
    """
    Make an operation that exists already wait for `inputs`.

    Why private: `tf.control_dependencies` only acts on operations that are created inside it. Tried on
    1.15, 2.15, 2.21.
    """
    op._add_control_inputs(list(inputs))


def explain_error(session: Any, error: Any) -> Any:
    """
    Give an error that a callable raised the details that `Session.run` adds: the operation, where it was made.

    Why private: `make_callable` reports errors without them. Tried on 1.15, 2.15, 2.21.

    Args:
        session: the session of the callable.
        error: a `tf.errors.OpError`.

    Returns:
        An error of the same type; `error` itself if there is nothing to add.
    """

    def raise_again() -> None:
        raise error

    try:
        session._do_call(raise_again)
    except type(error) as explained:
        return explained
    return error


def inside_control_flow(op: Any) -> bool:
    """
    Tell whether an operation stands inside a condition or a loop, or in XLA's cluster.

    Why private: there is no public way to ask. Tried on 1.15, 2.15, 2.21.
    """
    return op._get_control_flow_context() is not None


def inside_xla(graph: Any) -> bool:
    """
    Tell whether operations created now in a graph belong to a computation that XLA compiles (`tf.xla.experimental.compile`).

    Why private: the control-flow context of a graph has no public question. Tried on 1.15, 2.15, 2.21.
    """
    context = graph._get_control_flow_context()
    while context is not None and not context.IsXLAContext():
        context = context.outer_context
    return context is not None


def unfinalize(graph: Any) -> None:
    """
    Let a finalized graph grow again, once no session uses it.

    Why private: TensorFlow only does so when a MonitoredSession closes, which scripts written for one rely on. Tried on
    1.15, 2.15, 2.21.
    """
    graph._unsafe_unfinalize()

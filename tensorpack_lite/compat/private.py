"""
Every name of TensorFlow in use that is not part of its public API, each with the reason and the versions it was tried on.

Nothing else in the library reaches into `tensorflow.python` or calls an underscore method of a TensorFlow object.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Sequence

import tensorflow as _tensorflow
from tensorflow.core.protobuf import config_pb2
from tensorflow.python import tf2 as _tf2
from tensorflow.python.client import timeline
from tensorflow.python.eager import context as _context
from tensorflow.python.tools import optimize_for_inference_lib as _optimize_for_inference_lib

try:  # what Session.run gives for tf.IndexedSlices; TensorFlow exports it nowhere. Tried on 1.15, 2.15, 2.21.
    from tensorflow.python.framework.indexed_slices import IndexedSlicesValue
except ImportError:  # pragma: no cover (TF 1.15)
    from tensorflow.python.framework.ops import IndexedSlicesValue

__all__ = [
    "IndexedSlicesValue",
    "add_control_inputs",
    "at_top_level",
    "chrome_trace",
    "debug_hook_class",
    "eager_seed",
    "explain_error",
    "inside_control_flow",
    "inside_xla",
    "make_callable",
    "nothing_surrounds",
    "optimize_for_inference",
    "read_made_with",
    "unfinalize",
    "update_input",
    "v2_behavior_enabled",
    "without_finish",
]


def v2_behavior_enabled() -> bool:
    """
    Tell whether TensorFlow 2 behaviour is on.

    Why private: TensorFlow has switches for it but no public question. Tried on 1.15, 2.15, 2.21.
    """
    return bool(_tf2.enabled())


def eager_seed() -> int | None:
    """
    Return the seed that was set while TensorFlow executed eagerly, or None if none was set.

    Why private: TensorFlow has functions that set the seed, but no public function that returns it. Tried on 1.15, 2.15, 2.21.
    """
    return _context.global_seed()  # type: ignore[no-any-return]


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
    if run_options is not None and run_options.debug_options.debug_tensor_watch_opts:
        return _make_debug_callable(session, fetches, targets, feeds, run_options)
    options = config_pb2.CallableOptions()
    options.fetch.extend(tensor.name for tensor in fetches)
    options.target.extend(op.name for op in targets)
    options.feed.extend(tensor.name for tensor in feeds)
    if run_options is not None:
        options.run_options.CopyFrom(run_options)
    return session._make_callable_from_options(options)


def _make_debug_callable(session: Any, fetches: Any, targets: Any, feeds: Any, run_options: Any) -> Any:
    """The same function for a step that tfdbg watches, which TensorFlow's callables refuse."""

    def call(*arrays: Any, run_metadata: Any = None) -> Any:
        wanted = [*fetches, *targets]
        values = session.run(wanted, dict(zip(feeds, arrays)), options=run_options, run_metadata=run_metadata)
        return values[: len(fetches)]

    return call


def chrome_trace(step_stats: Any) -> str:
    """
    Turn the trace of a step into the JSON text that Chrome's trace viewer reads.

    Why private: TensorFlow has the converter, `timeline.Timeline`, but exports it nowhere. Tried on 1.15, 2.15, 2.21.
    """
    return timeline.Timeline(step_stats).generate_chrome_trace_format(show_memory=True)


def debug_hook_class() -> Any:
    """
    Give tfdbg's `LocalCLIDebugHook`, or None where TensorFlow does not have it any more.

    Why private: TensorFlow 2 exports nothing of tfdbg 1, but still has it. Tried on 1.15, 2.15, 2.21.
    """
    try:
        # Imported when it is asked for: it loads curses and more.
        from tensorflow.python.debug.wrappers.hooks import LocalCLIDebugHook
    except ImportError:
        return None
    return LocalCLIDebugHook


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
    return error  # pragma: no cover (what is called always raises)


def at_top_level(graph: Any) -> bool:
    """
    Tell whether operations created now in a graph stand in no condition, loop or function, and not in XLA's cluster.

    Why private: neither the control-flow context of a graph nor the kind of graph that functions, conditions and loops of
    TensorFlow 2 are built in has a public question. Tried on 1.15, 2.15, 2.21.
    """
    return graph._get_control_flow_context() is None and not hasattr(graph, "outer_graph")


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


def nothing_surrounds(graph: Any) -> bool:
    """
    Tell whether operations created now in a graph stand `at_top_level`, and wait for nothing.

    Why private: the control dependencies of a graph have no public question. Tried on 1.15, 2.15, 2.21.
    """
    return at_top_level(graph) and not graph._current_control_dependencies()


def read_made_with(variable: Any) -> Any:
    """
    Give the read that was created together with a resource variable; its copy on the caching device, if it has one.

    Why private: the public ways give a read that is new, or not the copy. Tried on 1.15, 2.15, 2.21.
    """
    return variable._graph_element if variable._cached_value is None else variable._cached_value


def optimize_for_inference(
    graph_def: Any,
    input_nodes: Sequence[str],
    output_nodes: Sequence[str],
    input_types: Sequence[int],
    toco_compatible: bool = False,
) -> Any:
    """
    Take out of a frozen graph what inference does not need, and fold batch normalization into convolutions.

    Why private: TensorFlow has it as a command-line tool only. Tried on 1.15, 2.15, 2.21.

    Args:
        graph_def: without variables.
        input_nodes, output_nodes: names of nodes in it.
        input_types: the `DataType` of each input node.
        toco_compatible: keep to operations that TensorFlow Lite's converter knows.

    Returns:
        A new `GraphDef`.
    """
    optimized = _optimize_for_inference_lib.optimize_for_inference(
        graph_def, list(input_nodes), list(output_nodes), list(input_types), toco_compatible
    )
    # TensorFlow's tool drops the functions of a graph, which hold the bodies of loops and conditions in TensorFlow 2
    optimized.library.CopyFrom(graph_def.library)
    return optimized


def unfinalize(graph: Any) -> None:
    """
    Let a finalized graph grow again, once no session uses it.

    Why private: TensorFlow only does so when a MonitoredSession closes, which scripts written for one rely on. Tried on
    1.15, 2.15, 2.21.
    """
    graph._unsafe_unfinalize()


def update_input(op: Any, index: int, tensor: Any) -> None:
    """
    Give an operation that exists already another input.

    Why private: operations get their inputs when they are created, but towers are built one after the other, and what all
    have in common is known when the last one has been built. Tried on 1.15, 2.15, 2.21.

    Args:
        op: one that no session has run yet.
        index: the number of the input.
        tensor: of the dtype of the present one.
    """
    op._update_input(index, tensor)


@contextmanager
def without_finish(optimizer: Any) -> Iterator[bool]:
    """
    Let `apply_gradients` update its variables only, not what the optimizer advances once a step, such as Adam's beta powers.

    Why private: an optimizer that is applied to several lists of variables in one step would advance once for each list, and
    there is no public switch. Tried on 1.15, 2.15, 2.21.

    Args:
        optimizer: a `tf.train.Optimizer`; one around another one (in `_opt` or `_optimizer`) means both.

    Yields:
        Whether the optimizer has anything to advance.
    """
    usual = _tensorflow.compat.v1.train.Optimizer._finish
    advancing = [one for one in _optimizers_inside(optimizer) if type(one)._finish is not usual]
    for one in advancing:
        one._finish = lambda updates, name: _tensorflow.group(*updates, name=name)
    try:
        yield bool(advancing)
    finally:
        for one in advancing:
            del one._finish


def _optimizers_inside(optimizer: Any) -> list[Any]:
    found = []
    while isinstance(optimizer, _tensorflow.compat.v1.train.Optimizer):
        found.append(optimizer)
        optimizer = getattr(optimizer, "_opt", None) or getattr(optimizer, "_optimizer", None)
    return found

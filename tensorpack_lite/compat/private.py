"""
Uses of TensorFlow's private API, each with its reason and the versions it was tested on.

Apart from `cpu_layout.py` and `session.py`, no other module uses names of `tensorflow.python` or with underscores.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import tensorflow as _tensorflow
from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.core.protobuf import config_pb2
from tensorflow.python import tf2 as _tf2
from tensorflow.python.client import timeline
from tensorflow.python.eager import context as _context
from tensorflow.python.framework import config as _config
from tensorflow.python.framework import function as _function
from tensorflow.python.framework import kernels as _kernels
from tensorflow.python.ops import control_flow_util_v2 as _control_flow
from tensorflow.python.tools import optimize_for_inference_lib as _optimize_for_inference_lib
from tensorflow.python.util import deprecation as _deprecation
from tensorflow.python.util import module_wrapper as _module_wrapper

from . import tfv1 as tf
from .replacement import replace
from .session import PreparedStep, require_own_process

try:  # the value that Session.run returns for tf.IndexedSlices; TensorFlow does not export it. Tried on 1.15, 2.15, 2.21.
    from tensorflow.python.framework.indexed_slices import IndexedSlicesValue as IndexedSlicesValue
except ImportError:  # pragma: no cover (TF 1.15)
    from tensorflow.python.framework.ops import IndexedSlicesValue as IndexedSlicesValue


def v2_behavior_enabled() -> bool:
    """
    Return whether TensorFlow 2 behavior is enabled.

    Why private: TensorFlow can switch it, but has no public function that returns it. Tried on 1.15, 2.15, 2.21.
    """
    return bool(_tf2.enabled())


def behave_like_tf1() -> None:
    """
    Disable TensorFlow 2's behavior, and the warnings that advise a script of TensorFlow 1 to use newer names.

    Why private: these warnings have no public switch. Tried on 1.15, 2.15, 2.21.
    """
    replace(_deprecation, "_PRINT_DEPRECATION_WARNINGS", False)
    replace(_module_wrapper, "_PER_MODULE_WARNING_LIMIT", 0)
    warnings.filterwarnings("ignore", r"`[\w.]+` is deprecated and will be removed", UserWarning)
    tf.disable_v2_behavior()


def eager_seed() -> int | None:
    """
    Return the seed that was set in eager execution, or None.

    Why private: TensorFlow has no public function that returns the seed. Tried on 1.15, 2.15, 2.21.
    """
    return _context.global_seed()


def make_callable(
    session: tf.Session,
    fetches: Sequence[tf.Tensor],
    targets: Sequence[tf.Operation] = (),
    feeds: Sequence[tf.Tensor] = (),
    run_options: tf.RunOptions | None = None,
    is_checked: bool = False,
) -> Callable[..., list[np.ndarray]]:
    """
    Prepare a step of a session as a function, which is TensorFlow's fastest way to repeat a step.

    Why private: the public `Session.make_callable` falls back to the slow `Session.run` if there is a feed or
    an option, and takes either targets or fetches, not both. Tried on 1.15, 2.15, 2.21.

    Args:
        session: an open `tf.Session`.
        fetches: tensors whose values are returned.
        targets: operations that run without a value.
        feeds: tensors fed at each call, in this order.
        run_options: a `RunOptions` for every call, or None.
        is_checked: use `Session.run`, which checks that each fetch has a value. Otherwise a fetch without a value is an
            empty array.

    Returns:
        A function `f(*arrays, run_metadata=None)` that returns a list with one value per fetch. `arrays` must be
        ndarrays with exactly the dtypes of `feeds`.
    """
    is_watched = run_options is not None and run_options.debug_options.debug_tensor_watch_opts
    if is_watched or is_checked:  # tfdbg watches the step, which TensorFlow's callables do not support

        def call(*arrays: np.ndarray, run_metadata: tf.RunMetadata | None = None) -> list[np.ndarray]:
            require_own_process("Session.run")
            values = session.run([*fetches, *targets], dict(zip(feeds, arrays)), run_options, run_metadata)
            return values[: len(fetches)]

        return call
    options = config_pb2.CallableOptions()
    options.fetch.extend(tensor.name for tensor in fetches)
    options.target.extend(op.name for op in targets)
    options.feed.extend(tensor.name for tensor in feeds)
    if run_options is not None:
        options.run_options.CopyFrom(run_options)
    return PreparedStep(session, options)


def chrome_trace(step_stats: object) -> str:
    """
    Convert the trace of a step to the JSON text that Chrome's trace viewer reads.

    Why private: TensorFlow does not export the converter, `timeline.Timeline`. Tried on 1.15, 2.15, 2.21.
    """
    return timeline.Timeline(step_stats).generate_chrome_trace_format(show_memory=True)


def debug_hook_class() -> type[tf.train.SessionRunHook] | None:
    """
    Return tfdbg's `LocalCLIDebugHook`, or None if TensorFlow no longer has it.

    Why private: TensorFlow 2 still contains tfdbg 1, but does not export it. Tried on 1.15, 2.15, 2.21.
    """
    try:
        # Imported on first use, because it loads curses.
        from tensorflow.python.debug.wrappers.hooks import LocalCLIDebugHook
    except ImportError:
        return None
    return LocalCLIDebugHook


def add_control_inputs(op: tf.Operation, inputs: Sequence[tf.Operation]) -> None:
    """
    Make an existing operation wait for `inputs`.

    Why private: `tf.control_dependencies` only acts on operations that are created inside it. Tried on
    1.15, 2.15, 2.21.
    """
    op._add_control_inputs(list(inputs))


def explain_error(session: tf.Session, error: tf.errors.OpError) -> tf.errors.OpError:
    """
    Add the details that `Session.run` adds, the operation and where it was created, to an error of a callable.

    Why private: `make_callable` reports errors without these details. Tried on 1.15, 2.15, 2.21.

    Args:
        session: the session of the callable.
        error: a `tf.errors.OpError`.

    Returns:
        An error of the same type, or `error` itself if there is nothing to add.
    """

    def raise_again() -> None:
        raise error

    try:
        session._do_call(raise_again)
    except type(error) as explained:
        return explained
    return error  # pragma: no cover (raise_again always raises)


def at_top_level(graph: tf.Graph) -> bool:
    """
    Return whether new operations of a graph are outside every condition, loop, function and XLA cluster.

    Why private: TensorFlow has no public function for the control-flow context of a graph, nor for the kind of graph in
    which TensorFlow 2 builds functions, conditions and loops. Tried on 1.15, 2.15, 2.21.
    """
    return graph._get_control_flow_context() is None and not hasattr(graph, "outer_graph")


def inside_control_flow(op: tf.Operation) -> bool:
    """
    Return whether an operation is inside a condition, a loop or an XLA cluster.

    Why private: TensorFlow has no public function for it. Tried on 1.15, 2.15, 2.21.
    """
    return op._get_control_flow_context() is not None


def inside_branch(op: tf.Operation) -> bool:
    """
    Return whether an operation runs only if a branch of TensorFlow 1 is taken, in which it is.

    Why private: TensorFlow has no public function for it. Tried on 1.15, 2.15, 2.21.
    """
    return any(context.IsCondContext() for context in _contexts(op))


def inside_loop_or_xla(op: tf.Operation) -> bool:
    """
    Return whether an operation is inside a loop or an XLA cluster, where it cannot wait for operations outside.

    Why private: TensorFlow has no public function for it. Tried on 1.15, 2.15, 2.21.
    """
    return not all(context.IsCondContext() for context in _contexts(op))


def inside_function(graph: tf.Graph) -> bool:
    """
    Return whether new operations of a graph belong to a function that is not the body of a loop or condition.

    Why private: TensorFlow has no public function for the kind of graph in which it builds functions. Tried
    on 1.15, 2.15, 2.21.
    """
    with graph.as_default():
        return bool(_control_flow.in_defun()) or isinstance(graph, _function._FuncGraph)


def inside_xla(graph: tf.Graph) -> bool:
    """
    Return whether new operations of a graph belong to a computation that `tf.xla.experimental.compile` compiles.

    Why private: TensorFlow has no public function for the control-flow context of a graph. Tried on 1.15, 2.15, 2.21.
    """
    return any(context.IsXLAContext() for context in _contexts(graph))


def _contexts(owner: tf.Graph | tf.Operation) -> Iterator[Any]:
    """Yield the conditions, loops and XLA clusters around an operation or new operations, the innermost first."""
    context = owner._get_control_flow_context()
    while context is not None:
        yield context
        context = context.outer_context


def nothing_surrounds(graph: tf.Graph) -> bool:
    """
    Return whether new operations of a graph are `at_top_level` and have no control dependencies.

    Why private: TensorFlow has no public function for the control dependencies of a graph. Tried on 1.15, 2.15, 2.21.
    """
    return at_top_level(graph) and not graph._current_control_dependencies()


def op_definition(graph: tf.Graph, kind: str) -> OpDef:
    """
    Return the definition of a type of operation, which may be a function of the graph.

    Why private: TensorFlow does not export its registry of operations. Tried on 1.15, 2.15, 2.21.

    Args:
        graph: a graph.
        kind: the type, e.g. "MatMul".
    """
    find = graph.op_def_for_type if hasattr(graph, "op_def_for_type") else graph._get_op_def
    return find(kind)


@lru_cache(maxsize=None)
def has_kernel(kind: str, dtype: tf.DType, device: str) -> bool:
    """
    Return whether TensorFlow has a kernel of an operation for a dtype `T`.

    Why private: TensorFlow has no public function that lists kernels. Tried on 1.15, 2.15, 2.21.

    Args:
        kind: the type of the operation, e.g. "FusedBatchNormV3".
        dtype: the value of the attribute `T`.
        device: "CPU" or "GPU".
    """
    return any(
        constraint.name == "T" and dtype.as_datatype_enum in constraint.allowed_values.list.type
        for kernel in _kernels.get_registered_kernels_for_op(kind).kernel
        if kernel.device_type == device
        for constraint in kernel.constraint
    )


def op_determinism_enabled() -> bool:
    """
    Return whether `tf.config.experimental.enable_op_determinism` was called.

    Why private: TensorFlow has no public function that returns it. Tried on 1.15, which does not have it, 2.15, 2.21.
    """
    return hasattr(_config, "is_op_determinism_enabled") and bool(_config.is_op_determinism_enabled())


def optimize_for_inference(
    graph_def: tf.GraphDef,
    input_nodes: Sequence[str],
    output_nodes: Sequence[str],
    input_types: Sequence[int],
    toco_compatible: bool = False,
) -> tf.GraphDef:
    """
    Remove the nodes that inference does not need from a frozen graph, and fold batch normalization into convolutions.

    Why private: TensorFlow offers it only as a command-line tool. Tried on 1.15, 2.15, 2.21.

    Args:
        graph_def: a `GraphDef` without variables.
        input_nodes, output_nodes: names of its nodes.
        input_types: the `DataType` of each input node.
        toco_compatible: use only operations that TensorFlow Lite's converter supports.

    Returns:
        A new `GraphDef`.
    """
    optimized = _optimize_for_inference_lib.optimize_for_inference(
        graph_def, list(input_nodes), list(output_nodes), list(input_types), toco_compatible
    )
    # TensorFlow's tool drops the functions of a graph, which contain the bodies of TensorFlow 2's loops and conditions.
    optimized.library.CopyFrom(graph_def.library)
    return optimized


def unfinalize(graph: tf.Graph) -> None:
    """
    Allow new operations in a finalized graph that no session uses any more.

    Why private: TensorFlow does this only when a MonitoredSession closes. Scripts written for one rely on it. Tried on
    1.15, 2.15, 2.21.
    """
    graph._unsafe_unfinalize()


def update_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """
    Replace an input of an existing operation.

    Why private: towers are built one after the other, and a value that all of them share is known only when
    the last one has been built. Public functions set inputs only when an operation is created. Tried on 1.15,
    2.15, 2.21.

    Args:
        op: an operation that no session has run yet.
        index: the number of the input.
        tensor: the new input, with the dtype of the old one.
    """
    op._update_input(index, tensor)


@contextmanager
def without_finish(optimizer: tf.train.Optimizer) -> Iterator[bool]:
    """
    Make `apply_gradients` update only its variables, not the state that advances once per step, such as
    Adam's beta powers.

    Why private: an optimizer that is applied to several lists of variables in one step would advance this
    state once for each list, and has no public switch for it. Tried on 1.15, 2.15, 2.21.

    Args:
        optimizer: a `tf.train.Optimizer`. If it wraps another one, in `_opt` or `_optimizer`, both are affected.

    Yields:
        Whether the optimizer has such state.
    """
    usual = tf.train.Optimizer._finish
    advancing = [inner for inner in _optimizers_inside(optimizer) if type(inner)._finish is not usual]
    for inner in advancing:
        replace(inner, "_finish", lambda updates, name: _tensorflow.group(*updates, name=name))
    try:
        yield bool(advancing)
    finally:
        for inner in advancing:
            del inner._finish


def _optimizers_inside(optimizer: tf.train.Optimizer) -> list[tf.train.Optimizer]:
    found = []
    while isinstance(optimizer, tf.train.Optimizer):
        found.append(optimizer)
        optimizer = getattr(optimizer, "_opt", None) or getattr(optimizer, "_optimizer", None)
    return found

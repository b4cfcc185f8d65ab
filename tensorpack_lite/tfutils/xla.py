"""Compilation of a model by XLA."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, ContextManager, TypeVar

from ..compat import ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf

T = TypeVar("T")


def with_xla(function: Callable[..., T]) -> Callable[..., T]:
    """
    Let XLA compile what a function builds, and its gradients.

    Operations that XLA does not know, such as summaries, run as before. The values are the same up to the rounding of a
    different order of operations; random operations may draw other numbers.

    Args:
        function: a function that builds a part of the graph, e.g. a tower function.

    Returns:
        A function with the same arguments and results.

    Raises:
        RuntimeError: TensorFlow was built without XLA.

    Example:
        >>> trainer.setup_graph(signature, source, with_xla(model.build_graph), model.get_optimizer)

    Note: `TrainConfig(xla=True)` also calls `keep_for_xla` for a session config that is not given by the user.

    Note: XLA compiles once for each shape of the inputs: for the first shape in the first step, for others when they come
    again. Batches of the same size avoid further compilations.

    Note: `SingleCostTrainer.XLA_COMPILE` compiles one function for all operations of a tower instead, which fails if XLA does
    not know one of them, and has no summaries and no cost to report.
    """

    @functools.wraps(function)
    def compiled(*args: object, **kwargs: object) -> T:
        ensure_graph_mode()
        with _find_scope()():
            return function(*args, **kwargs)

    _find_scope()
    return compiled


def keep_for_xla(config: tf.ConfigProto) -> None:
    """
    Change a session's config so that all operations stay as they are until XLA compiles them.

    TensorFlow's remapper replaces, for example, a convolution, its bias and its activation by one operation, which XLA
    does not compile.
    """
    options = config.graph_options.rewrite_options
    options.MergeFrom(type(options)(remapping=options.OFF))


def is_compiled_later(graph: tf.Graph, config: tf.ConfigProto | None) -> bool:
    """
    Return whether XLA compiles operations of a graph for a further shape of their inputs only when it comes again.

    The first run with each further shape then uses TensorFlow's own kernels, which round differently. So the results
    depend on how often this process has seen a shape. `XLA_COMPILE` compiles in the first run with each shape.

    Args:
        graph: the graph.
        config: the config of its session; None if it is unknown.
    """
    level = 0 if config is None else config.graph_options.optimizer_options.global_jit_level
    if level > 0 or "tf_xla_auto_jit" in os.environ.get("TF_XLA_FLAGS", ""):
        return True
    return any(node.attr["_XlaCompile"].b for node in graph.as_graph_def().node if "_XlaCompile" in node.attr)


def _find_scope() -> Callable[[], ContextManager[None]]:
    xla: Any = getattr(getattr(tensorflow, "xla", tf.xla), "experimental", None)
    # TensorFlow 1.15 has no such function
    is_built = getattr(tensorflow.test, "is_built_with_xla", lambda: True)
    if not hasattr(xla, "jit_scope") or not is_built():
        raise RuntimeError(
            f"with_xla: TensorFlow {tensorflow.__version__} was built without XLA. Install another build, or leave out xla=True."
        )
    return xla.jit_scope

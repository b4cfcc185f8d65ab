"""`tf.contrib.tfprof.model_analyzer`: counts of parameters and floating-point operations."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, sources=("tf.profiler",), title="tf.contrib.tfprof.model_analyzer")

_COMMON = {
    "max_depth": 10000,
    "min_bytes": 0,
    "min_micros": 0,
    "min_params": 0,
    "min_float_ops": 0,
    "order_by": "name",
    "account_type_regexes": [".*"],
    "start_name_regexes": [".*"],
    "trim_name_regexes": [],
    "show_name_regexes": [".*"],
    "hide_name_regexes": [],
    "account_displayed_op_only": True,
    "output": "stdout",
    "dump_to_file": "",
}

# the number of parameters of each trainable variable
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = {
    **_COMMON,
    "account_type_regexes": ["_trainable_variables"],
    "select": ["params"],
}
# the number of floating-point operations of each operation
FLOAT_OPS_OPTIONS = {**_COMMON, "min_float_ops": 1, "order_by": "float_ops", "select": ["float_ops"]}
# the time and memory of each operation; needs a RunMetadata
PRINT_ALL_TIMING_MEMORY = {**_COMMON, "min_bytes": 1, "min_micros": 1, "select": ["micros", "bytes"]}


def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: dict[str, Any] | None = None,
) -> Any:
    """
    Print the profile of a graph, and return it.

    Args:
        graph: a `tf.Graph`.
        run_meta: the `RunMetadata` of a step, or None.
        op_log: ignored; TensorFlow 2 makes it from the graph.
        tfprof_cmd: "scope", "op", "graph" or "code".
        tfprof_options: one of the options of this module. None means the parameters of trainable variables.

    Returns:
        A GraphNodeProto or MultiGraphNodeProto with `total_parameters`, `total_float_ops` and so on.
    """
    options = tfprof_options or TRAINABLE_VARS_PARAMS_STAT_OPTIONS
    return tf.profiler.profile(graph, run_meta, op_log, tfprof_cmd, options)

"""Conversion of a frozen graph to ONNX by tf2onnx, and the check of the result in onnxruntime."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import numpy as np

from ..compat import tfv1 as tf
from ..utils.optional import load_optional
from .export_check import Expected, find_different

_WHO = "ModelExporter.export_onnx"
_ADVICE = "Choose outputs before these operations in output_names, or use export_serving."


def require_packages() -> None:
    """
    Import the packages.

    Raises:
        ImportError: one is not installed.
    """
    load_optional("onnxruntime", _WHO)
    load_optional("tf2onnx", _WHO)


def convert(graph_def: tf.GraphDef, inputs: Mapping[str, str], outputs: Mapping[str, str], opset: int | None) -> bytes:
    """
    Return an ONNX model.

    Args:
        graph_def: a graph without variables.
        inputs, outputs: names in the model by those of tensors, such as `{"image:0": "image"}`.
        opset: version of the operations; None: that which tf2onnx prefers.

    Raises:
        RuntimeError: tf2onnx fails, or ONNX does not have an operation.
    """
    tf2onnx, defs = load_optional("tf2onnx.convert", _WHO), load_optional("onnx.defs", _WHO)
    try:
        model, _ = tf2onnx.from_graph_def(
            graph_def,
            input_names=list(inputs),
            output_names=list(outputs),
            opset=opset,
            tensors_to_rename={**inputs, **outputs},
        )
        content: bytes = model.SerializeToString()
    except Exception as error:  # tf2onnx raises any type
        raise RuntimeError(f"{_WHO}: tf2onnx cannot convert the model: {error}. {_ADVICE}") from error
    unknown = sorted({f"{node.op_type} ('{node.name}')" for node in _nodes(model.graph) if not _exists(defs, node)})
    if unknown:
        raise RuntimeError(f"{_WHO}: tf2onnx cannot convert {', '.join(unknown)}. {_ADVICE}")
    return content


def check(content: bytes, names: Mapping[str, str], outputs: list[str], expected: Expected) -> None:
    """
    Run an ONNX model in onnxruntime.

    Args:
        content: the model.
        names: names of its inputs by those of tensors.
        outputs: names of its outputs, in the order of `expected`.
        expected: what `export_check.evaluate` returned.

    Raises:
        RuntimeError: onnxruntime cannot load or run it, or its outputs differ.
    """
    runtime = load_optional("onnxruntime", _WHO)
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        if expected.outputs is None:
            return
        known = {place.name for place in session.get_inputs()}
        feeds = {name: expected.feeds[tensor] for tensor, name in names.items() if name in known}
        found = [np.asarray(value) for value in session.run(outputs, feeds)]
    except Exception as error:  # onnxruntime raises any type
        raise RuntimeError(f"{_WHO}: onnxruntime cannot run the converted model: {error}. {_ADVICE}") from error
    difference = find_different(outputs, expected.outputs, found)
    if difference:
        raise RuntimeError(f"{_WHO}: {difference}. Use export_serving, or another version of tf2onnx or of opset.")


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph, and those of its branches and loops."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _exists(defs: Any, node: Any) -> bool:
    return bool(defs.has(node.op_type, node.domain))

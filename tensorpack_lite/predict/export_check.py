"""The check of an exported model: TensorFlow reads it, and it computes what the model computes."""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..tfutils.dependency import operations_needed
from ..utils import logger

# Folding batch normalization, and other algorithms for constant weights, change results by about 1e-4.
_TOLERANCE = 1e-2
# Such changes move a few pixels or labels to the next integer.
_SHARE_OF_INTEGERS = 0.01
_TIMEOUT_MS = 60000
_RANDOM = re.compile(
    "(?!Stateless).*(Random|Multinomial|TruncatedNormal|StandardNormal|StatefulUniform|CandidateSampler|SampleDistorted)"
)

_READS_FILES = re.compile("ReadFile|InitializeTableFromTextFile(V2)?|.*Reader(V2)?|.*Dataset(V\\d)?")

Feeds = Dict[str, np.ndarray]


class Expected(NamedTuple):
    """
    The outputs of a model for one input.

    Attributes:
        feeds: the input, by the names of tensors.
        outputs: the outputs; None if the model does not run on this input, or if its outputs cannot be compared.
    """

    feeds: Feeds
    outputs: list[np.ndarray] | None


def evaluate(who: str, session: tf.Session, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> Expected:
    """
    Run a model on an input of its shape, in which unknown dimensions are 1. Log why if it does not run.

    Args:
        who: the function that exports, for messages.
        session: a session with the variables.
        inputs, outputs: its tensors.
    """
    feeds = {tensor.name: _make_input(tensor) for tensor in inputs}
    nearly = {name: value * 0.9999 if value.dtype.kind == "f" else value for name, value in feeds.items()}
    try:
        with session.graph.as_default():
            session.run(tf.tables_initializer(), options=_run_options())
        names = [tensor.name for tensor in outputs]
        first, second = (session.run(names, feed, options=_run_options()) for feed in (feeds, nearly))
    except (tf.errors.OpError, TypeError, ValueError) as error:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in feeds.items())
        warn_not_compared(who, f"the model does not run on {shapes}: {_get_reason(error)}")
        return Expected(feeds, None)
    if find_different(names, first, second) is not None:
        warn_not_compared(who, "the outputs of the model are random, or depend on rounding.")
        return Expected(feeds, None)
    return Expected(feeds, first)


def check_files(who: str, outputs: Sequence[tf.Tensor], initializers: tf.Operation) -> list[tf.Tensor]:
    """
    Check that an exported model reads only files that are exported with it.

    Args:
        who: the function that exports, for messages.
        outputs: the outputs of the model.
        initializers: the operation that initializes its tables.

    Returns:
        The tensors with the paths of the files to export, which TensorFlow replaces when it runs the initializers.

    Raises:
        RuntimeError: the model reads another existing file.
    """
    assets: list[tf.Tensor] = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
    replaced = {tensor.name for tensor in assets}
    for targets, known in ((outputs, set()), ([initializers], replaced)):
        for operation in operations_needed(targets):
            if _READS_FILES.fullmatch(operation.type) is None:
                continue
            for tensor in operation.inputs:
                path = "" if tensor.name in known else _find_file(tensor)
                if path:
                    raise RuntimeError(
                        f"{who}: '{operation.name}' reads '{path}', which TensorFlow does not export, so the SavedModel would fail "
                        "on another machine. Read the file in Python, and pass its content to tf.constant; or read a vocabulary "
                        "with a table of tf.lookup."
                    )
    return assets


def _find_file(tensor: tf.Tensor) -> str:
    """Return the first path of an existing file in a constant of strings; an empty text if there is none."""
    if tensor.dtype.base_dtype != tf.string or tensor.op.type != "Const":
        return ""
    values = [value.decode(errors="replace") for value in tf.make_ndarray(tensor.op.get_attr("value")).reshape(-1)]
    files = (path for path in values if tf.gfile.Exists(path) and not tf.gfile.IsDirectory(path))
    return next(files, "")


def check_outputs(
    who: str, session: tf.Session, outputs: Sequence[str], feeds: Feeds, expected: Expected, advice: str
) -> None:
    """
    Run an exported model.

    Outputs that need random operations may differ, and the model may be slow: then the log says that it was not compared.

    Args:
        who: the function that exports, for messages.
        session: a session with the exported model.
        outputs: the names of its outputs, in the order of `expected`.
        feeds: the input, by the names of tensors in `session`.
        expected: what `evaluate` returned.
        advice: a sentence for the error.

    Raises:
        RuntimeError: the exported model does not run, or its outputs differ.
    """
    if expected.outputs is None:
        return
    try:
        found = session.run(list(outputs), feeds, options=_run_options())
    except tf.errors.DeadlineExceededError:
        warn_not_compared(who, f"the exported model does not finish within {_TIMEOUT_MS / 1000:g} s.")
        return
    except (tf.errors.OpError, TypeError, ValueError) as error:
        raise RuntimeError(
            f"{who}: the exported model does not run on an input on which the model runs: {_get_reason(error)}. {advice}"
        ) from error
    difference = find_different(outputs, expected.outputs, found)
    if difference is None:
        return
    if _needs_random(session.graph.as_graph_def(), outputs):
        warn_not_compared(who, "the outputs of the model need random operations.")
        return
    raise RuntimeError(f"{who}: {difference}. {advice}")


def warn_not_compared(who: str, reason: str) -> None:
    """Log why an exported model is not compared with the original. `reason` follows "because"."""
    logger.warning(f"{who}: the exported model is not compared with the original on an input, because {reason}")


def _run_options() -> tf.RunOptions:
    return tf.RunOptions(timeout_in_ms=_TIMEOUT_MS)


def _get_reason(error: Exception) -> str:
    """Return the line of a message that has the cause. TensorFlow 2 writes the traceback of the operation before it."""
    headline = r"^Graph execution error:\s+(Detected at node.*?\nNode: [^\n]*\n)?"
    return re.sub(headline, "", str(error).strip(), flags=re.DOTALL).split("\n")[0].rstrip(".")


def _needs_random(graph_def: tf.GraphDef, outputs: Sequence[str]) -> bool:
    """Return whether outputs need operations that draw random numbers, also in functions, e.g. branches and loops."""
    graph_def = tf.graph_util.extract_sub_graph(graph_def, [name.split(":")[0] for name in outputs])
    functions = {function.signature.name: function.node_def for function in graph_def.library.function}
    nodes = list(graph_def.node)
    while nodes:
        node = nodes.pop()
        if _RANDOM.match(node.op):
            return True
        values = node.attr.values()
        called = {node.op, *(value.func.name for value in values)}
        called.update(function.name for value in values for function in value.list.func)
        for name in called & set(functions):
            nodes.extend(functions.pop(name))
    return False


def _make_input(tensor: tf.Tensor) -> np.ndarray:
    """Return random pixels for uint8, numbers from 0 to 1 for floats; otherwise zeros, False or empty strings."""
    shape = [size or 1 for size in tensor.shape.as_list()] if tensor.shape.ndims is not None else []
    dtype = np.dtype(tensor.dtype.base_dtype.as_numpy_dtype)
    if tensor.dtype.base_dtype == tf.string:
        return np.full(shape, b"", dtype)
    rng = np.random.RandomState(0)
    if tensor.dtype.base_dtype == tf.uint8:
        return rng.randint(256, size=shape).astype(dtype)
    if tensor.dtype.base_dtype.is_floating:
        return np.asarray(rng.uniform(size=shape)).astype(dtype)
    return np.zeros(shape, dtype)


def find_different(names: Sequence[str], expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> str | None:
    """Return a description of the first output that differs by more than rounding; None if all are equal."""
    for name, before, after in zip(names, expected, found):
        difference = _compare(np.asarray(before), np.asarray(after))
        if difference:
            return f"the output '{name}' of the exported model differs from that of the model {difference}"
    return None


def _compare(before: np.ndarray, after: np.ndarray) -> str | None:
    """Return the difference between two arrays; None if it is only rounding."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return f"(expected {before.dtype.name} {list(before.shape)}, got {after.dtype.name} {list(after.shape)})"
    differs = _differs(before, after)
    count = int(np.count_nonzero(differs))
    allowed = 0 if before.dtype.kind in "fcV" else int(_SHARE_OF_INTEGERS * before.size)
    if count <= allowed:
        return None
    at = tuple(int(index[0]) for index in np.nonzero(differs)) if before.ndim else ()
    return f"in {count} of {before.size} elements (at {list(at)}: expected {before[at]}, got {after[at]})"


def _differs(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return for each element whether it differs by more than rounding. Integers must be equal."""
    if before.dtype.kind == "V":  # bfloat16
        before, after = before.astype("float32"), after.astype("float32")
    if before.dtype.kind not in "fc":
        return np.asarray(before != after)
    finite = np.abs(before[np.isfinite(before)])
    scale = float(finite.max()) if finite.size else 0.0
    atol = _TOLERANCE * min(scale, 1.0)
    return ~np.isclose(before, after, rtol=_TOLERANCE, atol=atol, equal_nan=True)

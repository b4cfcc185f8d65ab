"""Frequent mistakes in a tower function: TensorFlow's error with advice in the words of this library."""

from __future__ import annotations

import re
import traceback
from contextlib import contextmanager
from typing import Any, Iterator

from ...compat import tfv1 as tf
from ...utils.stacks import Line
from .context import get_current_tower_context

_IMPORT = (
    "If this file has the line `import tensorflow as tf`, replace it with `from tensorpack_lite import tfv1 as tf`: models are "
    "written with TensorFlow 1's functions, whose arguments differ. Or run the script unchanged: `tensorpack-lite run SCRIPT`."
)
_EAGER = (
    "a tensor was created before TensorFlow was switched to graphs, which this library does when a graph is first built, so it cannot "
    "be part of one. Create it inside the model. Outside of a model, add the line `tf.disable_eager_execution()` below `from "
    "tensorpack_lite import tfv1 as tf`."
)
_OTHER_GRAPH = (
    "a tensor of another graph was used: create a new model object (ModelDesc) and a new DataFlow for each training."
)
_FINALIZED = (
    "operations cannot be created any more, because training has begun. Create them earlier: in `_setup_graph` of a callback, which also "
    "calls self.trainer.get_predictor(...) and keeps the result."
)
_NOT_IN_HISTOGRAM = re.compile(r"Nan in summary histogram for: (\S+)")
_LAYERS = {
    "dense": "FullyConnected", "conv2d": "Conv2D", "conv2d_transpose": "Conv2DTranspose",
    "batch_normalization": "BatchNorm", "dropout": "Dropout", "max_pooling2d": "MaxPooling",
    "average_pooling2d": "AvgPooling", }  # fmt: skip
_OLD_ARGUMENTS = "keep_dims|keep_prob|reduction_indices|dimension|seq_dim|batch_dim|squeeze_dims"
_CONDITION = re.compile(r"(?i)using a (symbolic )?`tf.Tensor` as a Python `bool` is not allowed")
_ITERATION = re.compile(r"(?i)iterating over (a symbolic )?`tf.Tensor` is not allowed")
_NOT_IN_KERAS_3 = re.compile(r"`(\w+)` is not available with Keras 3")
_MISSING = re.compile(r"module 'tensorflow([\w.]*)' has no attribute '(\w+)'")
_OF_VERSION_2 = re.compile(
    rf"'predictions' of 'InTopKV2' Op has type|[Gg]ot an unexpected keyword argument '({_OLD_ARGUMENTS})'"
    r"|missing implementation for tf\.summary"
)
_OF_ONE_HOT = re.compile(r"(?<!sparse_)softmax_cross_entropy")
_AGAIN = "that line runs more than once"
_ONLY_TO_SHARE = "Only if both must share their weights, build them under `with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):`."
_CLASH = re.compile(r"Variable (\S+) already exists, disallowed")


@contextmanager
def explain_mistakes(who: str) -> Iterator[None]:
    """
    Add advice to TensorFlow's errors about frequent mistakes.

    These are: a tensor as a condition of `if`, a loop over a tensor, a tensor of eager execution or of another graph,
    operations in a finalized graph, histograms of NaN, class numbers where a cross entropy takes one-hot labels, and functions
    of `import tensorflow as tf`, which has another interface than `tfv1`. Other errors are not changed.

    Args:
        who: the code of the user that runs inside, for the message.

    Raises:
        TypeError, ValueError, AttributeError, RuntimeError: the error, of the same type, with advice.
    """
    try:
        yield
    except Exception as error:  # all others are raised again
        text = str(error)
        replacement = _replacement(text)
        if isinstance(error, TypeError) and replacement:
            raise TypeError(f"{who}: {replacement}").with_traceback(error.__traceback__) from None
        histogram = _NOT_IN_HISTOGRAM.search(text)
        if histogram:
            raise RuntimeError(f"{who}: {_describe_histogram(histogram.group(1))}") from error
        cure = _cure(text) or _cure_of_labels(text, error)
        if cure is None or cure in text:
            raise
        kind: Any = type(error) if type(error) in (TypeError, ValueError, AttributeError) else RuntimeError
        raise kind(f"{text}\n{who}: {cure}") from error


def _describe_histogram(name: str) -> str:
    return (
        f"the tensor of the histogram '{name}' has values that are NaN or infinite. The model has diverged in this step or before. Add "
        "the callback TerminateOnNaN(), which names the step and the operation."
    )


def _replacement(text: str) -> str | None:
    """Return what to say instead of an error whose advice, eager execution and tf.function, is wrong in a graph."""
    if _CONDITION.search(text):
        return (
            "a tensor is used as a condition, in `if`, `while`, `and`, `or` or `not`. It has no value while the graph is built. Use "
            "tf.cond(condition, function, function) to compute one of two things, tf.where(condition, x, y) to choose between "
            "elements, and tf.logical_and, tf.logical_or or tf.logical_not."
        )
    if _ITERATION.search(text):
        return (
            "Python iterates over a tensor. It has no value while the graph is built. Use tf.unstack(x) if the number of elements is "
            "known, otherwise tf.map_fn(function, x)."
        )
    return None


def _cure(text: str) -> str | None:
    keras, missing = _NOT_IN_KERAS_3.search(text), _MISSING.search(text)
    if keras:
        layer = _LAYERS.get(keras.group(1))
        layers = f"{layer}(name, x, ...)" if layer else "the layers"
        return f"use {layers} of tensorpack_lite, or run the script unchanged: `tensorpack-lite run SCRIPT`."
    if missing:
        module: Any = tf
        for name in re.sub(r"^\._api\.v2(\.v2)?", "", missing.group(1)).strip(".").split("."):
            module = getattr(module, name, None) if name else module
        return _IMPORT if hasattr(module, missing.group(2)) else None
    if "capture an EagerTensor" in text:
        return _EAGER
    if "Graph is finalized" in text:
        return _FINALIZED
    if "must be from the same graph as" in text:
        return _OTHER_GRAPH
    return _IMPORT if _OF_VERSION_2.search(text) else None


def _cure_of_labels(text: str, error: Exception) -> str | None:
    """Return the advice if a cross entropy of one-hot labels got class numbers; its error has only two shapes."""
    # TensorFlow 2 hides its own frames, so the line of the user counts as well
    frames = traceback.extract_tb(error.__traceback__)
    if "are incompatible" not in text or not any(_OF_ONE_HOT.search(f"{f.name} {f.line}") for f in frames):
        return None
    return (
        "this cross entropy takes one-hot labels of the shape of the logits. If the labels are class numbers, use "
        "tf.losses.sparse_softmax_cross_entropy(labels, logits), or tf.one_hot(labels, number_of_classes)."
    )


@contextmanager
def explain_name_clash(layer: str, name: str) -> Iterator[None]:
    """
    Replace TensorFlow's error about a variable of a layer that exists already, and its advice to share the weights.

    Args:
        layer: the kind of layer, for the message.
        name: the name of this one.

    Raises:
        ValueError: the error, with the places where both layers are built. A variable that was made before this tower leaves
            TensorFlow's error, because another name would not help.
    """
    try:
        yield
    except ValueError as error:
        clash = _CLASH.search(str(error))
        context = get_current_tower_context()
        made_here = [] if context is None else context.get_collection_in_tower(tf.GraphKeys.GLOBAL_VARIABLES)
        if clash is None or (context is not None and clash.group(1) not in [var.op.name for var in made_here]):
            raise
        raise ValueError(f"{layer}: {_describe_clash(name, clash.group(1))}") from None


def _describe_clash(name: str, variable: str) -> str:
    first, again = _places(variable, traceback.extract_stack())
    example = f"f'{name}{{i}}'" if again == _AGAIN else f"'{name}_2'"
    return (
        f"there are two layers named '{name}', which both need the variable '{variable}': the first is built at {first}, {again}. Give "
        f"each layer its own name, for example {example}. {_ONLY_TO_SHARE}"
    )


def describe_second_variable(variable: str, error: BaseException) -> str:
    """Return the sentence about a variable that `tf.get_variable` is to create a second time in a tower, for its error."""
    first, again = _places(variable, traceback.extract_tb(error.__traceback__))
    return (
        f"the variable '{variable}' exists already: it is created at {first}, {again}. Give the second one another name, or put it "
        f"in another `tf.variable_scope`; a layer is the scope of its variables. {_ONLY_TO_SHARE}"
    )


def _places(variable: str, stack: Any) -> tuple[str, str]:
    """Return where a variable was created, and the words for the place that is to create it again."""
    first = _place(tf.get_default_graph().get_operation_by_name(variable).traceback)
    second = _place(stack)
    return first, _AGAIN if first == second else f"and again at {second}"


def _place(stack: Any) -> str:
    """Return the innermost line of the user's code in a stack, the innermost line last."""
    lines = [Line(frame[0], frame[1], frame[2]) for frame in map(tuple, stack)]
    return next((str(line) for line in reversed(lines) if line.is_of_user), "an unknown place")

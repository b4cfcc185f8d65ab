"""The tower function: the user's model as a function of its inputs, with a record of the towers it has built."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ...compat import tfv1 as tf
from ...compat.value_names import explain_handles
from ...utils.brief_traceback import EndsBriefly
from ...utils.checks import check_callable
from .context import BaseTowerContext, get_current_tower_context
from .error_hints import describe_second_variable, explain_mistakes
from .handle import TowerTensorHandle, TowerTensorHandles


class TowerFunc:
    """
    A function that builds one copy of a model each time it is called under a tower context.

    Rules for the wrapped function:

    - It can be called any number of times.
    - It creates trainable variables with `tf.get_variable`, under names that do not depend on name scopes or
      `is_training`.
    - It does not open scopes whose names start with "tower".
    - Variables that inference needs, but gradients do not update, are in `MODEL_VARIABLES`.

    Args:
        tower_fn: a function with one tensor argument for each entry of the signature. If it is a TowerFunc,
            both share the wrapped function and the list of towers.
        input_signature: a list of `TensorSpec` with distinct names. Optional if `tower_fn` is a TowerFunc.

    Attributes:
        input_signature: as given.
        towers: the towers built so far, a `TowerTensorHandles`.

    Raises:
        TypeError: `tower_fn` is not callable.
        ValueError: a name of the signature is missing, duplicate or invalid. Raised by a call: an inference
            tower of this name exists in the graph, or the graph has variables of an earlier training.
        RuntimeError: it is called outside of a tower context.

    Example:
        >>> tower_func = TowerFunc(build, [tf.TensorSpec([None, 28, 28], tf.float32, "image")])
        >>> with TowerContext("", is_training=True):
        ...     cost = tower_func(image)

    Difference from tensorpack: tensorpack 0.11 accepts several inference towers with the same name in a
    graph, and names of tensors then mean those of the first one. This library raises a ValueError.
    """

    def __init__(self, tower_fn: Callable[..., Any], input_signature: Sequence[tf.TensorSpec] | None = None) -> None:
        check_callable("TowerFunc: tower_fn", tower_fn, "a function that builds the model")
        self._handles: list[TowerTensorHandle] = []
        self._names_built: list[tuple[Any, str]] = []
        self._tower_fn = tower_fn
        if isinstance(tower_fn, TowerFunc):
            self._handles = tower_fn._handles
            self._names_built = tower_fn._names_built
            self._tower_fn = tower_fn._tower_fn
            input_signature = tower_fn.input_signature if input_signature is None else input_signature
        if input_signature is None:
            raise ValueError("TowerFunc: input_signature is missing. Pass a list of tf.TensorSpec, one for each input.")
        self.input_signature: list[Any] = list(input_signature)
        _check_names([spec.name for spec in self.input_signature])

    def decorated(self, decorator: Callable[[Callable[..., Any]], Callable[..., Any]]) -> TowerFunc:
        """Return a TowerFunc of the decorated function, with the same signature and without towers."""
        return TowerFunc(decorator(self._tower_fn), self.input_signature)

    @property
    def towers(self) -> TowerTensorHandles:
        """The towers built so far."""
        return TowerTensorHandles(self._handles)

    def __call__(self, *inputs: tf.Tensor) -> Any:
        """Build one tower under the current context, and return the result of the wrapped function."""
        context = get_current_tower_context()
        if context is None:
            raise RuntimeError(
                "TowerFunc: called outside of a TowerContext. Call it under `with TowerContext('', is_training=...):`."
            )
        self._refuse_second_inference_tower(context)
        who = "The tower function"
        with EndsBriefly(), _explain_existing_variable(context), explain_mistakes(who), explain_handles(who):
            outputs = self._tower_fn(*inputs)
        self._handles.append(TowerTensorHandle(context, inputs, outputs, self.input_signature))
        return outputs

    def _refuse_second_inference_tower(self, context: BaseTowerContext) -> None:
        if not context.name or context.is_training:
            return
        built = (tf.get_default_graph(), context.name)
        if any(graph is built[0] and name == built[1] for graph, name in self._names_built):
            raise ValueError(
                f"TowerFunc: this graph already has a tower named '{context.name}'. Give this one another name, e.g. "
                "InferenceRunner(..., tower_name='InferenceTower2')."
            )
        self._names_built.append(built)


@contextmanager
def _explain_existing_variable(context: BaseTowerContext) -> Iterator[None]:
    """Replace TensorFlow's error about a variable that exists, and its advice to share it."""
    try:
        yield
    except ValueError as error:
        match = re.search(r"Variable (\S+) already exists", str(error))
        made_here = context.get_collection_in_tower(tf.GraphKeys.GLOBAL_VARIABLES)
        if match is None:
            raise
        if match.group(1) in [var.op.name for var in made_here]:
            text = f"The tower function: {describe_second_variable(match.group(1), error)}"
            raise ValueError(text).with_traceback(error.__traceback__) from None
        raise ValueError(
            f"TowerFunc: the graph already has a variable '{match.group(1)}', from a model that was built in it before. "
            "Build each training (each fold, each run of a notebook cell) in a separate graph: model, data and trainer under "
            "`with tf.Graph().as_default():`. To share the variables instead, use a variable scope with reuse=tf.AUTO_REUSE."
        ) from error


def _check_names(names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name or re.search(r"[:/ ]", name):
            raise ValueError(
                f"TowerFunc: the name of an input is invalid (expected a name without ':', '/' and spaces, got {name!r}). "
                "Write tf.TensorSpec(shape, dtype, 'name')."
            )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"TowerFunc: names of inputs appear twice: {', '.join(twice)}. Give each input a different name."
        )

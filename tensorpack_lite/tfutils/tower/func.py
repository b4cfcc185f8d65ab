"""The tower function: the user's model as a function of its inputs, which remembers every copy it built."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ...compat import tfv1 as tf
from ...utils.errors import type_error
from .context import get_current_tower_context
from .handle import TowerTensorHandle, TowerTensorHandles

__all__ = ["TowerFunc"]


class TowerFunc:
    """
    A function that builds one copy of a model each time it is called under a tower context.

    Rules for the wrapped function: it may be called any number of times; it makes trainable variables with
    `tf.get_variable`, under names that do not depend on name scopes or on `is_training`; it opens no scope whose name
    begins with "tower"; what inference needs but training does not change by gradients goes into `MODEL_VARIABLES`.

    Args:
        tower_fn: takes as many tensors as the signature has entries. A TowerFunc is shared, not wrapped again: both
            then know all towers.
        input_signature: a list of `TensorSpec` with distinct names; may be left out for a TowerFunc.

    Attributes:
        input_signature: as given.
        towers: the towers built so far, a `TowerTensorHandles`.

    Raises:
        TypeError: `tower_fn` is not callable.
        ValueError: a name is missing, appears twice, or has a character that names of inputs cannot have; or, on a
            call, a tower of that name was built in this graph already, or the graph has variables of that name from
            an earlier training.
        RuntimeError: on a call, there is no tower context.

    Example:
        >>> tower_func = TowerFunc(build, [tf.TensorSpec([None, 28, 28], tf.float32, "image")])
        >>> with TowerContext("", is_training=True):
        ...     cost = tower_func(image)

    tensorpack: same; there a TowerFunc of a TowerFunc calls itself for ever, and two towers of one name silently
    mean the first.
    """

    def __init__(self, tower_fn: Callable[..., Any], input_signature: Sequence[Any] | None = None) -> None:
        if not callable(tower_fn):
            raise type_error("TowerFunc", "a function that builds the model", tower_fn)
        self._handles: list[TowerTensorHandle] = []
        self._names_built: list[tuple[Any, str]] = []
        self._tower_fn = tower_fn
        if isinstance(tower_fn, TowerFunc):
            self._handles = tower_fn._handles
            self._names_built = tower_fn._names_built
            self._tower_fn = tower_fn._tower_fn
            input_signature = tower_fn.input_signature if input_signature is None else input_signature
        if input_signature is None:
            raise ValueError(
                "TowerFunc: input_signature is missing. Pass a list of tf.TensorSpec, one for each input."
            )
        self.input_signature = list(input_signature)
        _check_names([spec.name for spec in self.input_signature])

    @property
    def towers(self) -> TowerTensorHandles:
        """The towers built so far."""
        return TowerTensorHandles(self._handles)

    def __call__(self, *inputs: Any) -> Any:
        """Build one tower under the current context; returns what the wrapped function returns."""
        context = get_current_tower_context()
        if context is None:
            raise RuntimeError(
                "TowerFunc: called outside of a TowerContext. Call it under `with TowerContext('', is_training=...):`."
            )
        self._refuse_second_inference_tower(context)
        with _explain_existing_variable(context):
            outputs = self._tower_fn(*inputs)
        self._handles.append(TowerTensorHandle(context, inputs, outputs, self.input_signature))
        return outputs

    def _refuse_second_inference_tower(self, context: Any) -> None:
        if not context.name or context.is_training:
            return
        built = (tf.get_default_graph(), context.name)
        if any(graph is built[0] and name == built[1] for graph, name in self._names_built):
            raise ValueError(
                f"A tower named '{context.name}' was built in this graph already, and names inside would mean the first "
                "one. Give this one another name, e.g. InferenceRunner(..., tower_name='InferenceTower2')."
            )
        self._names_built.append(built)


@contextmanager
def _explain_existing_variable(context: Any) -> Iterator[None]:
    """Replace TensorFlow's advice about a variable that was in the graph before this tower was entered."""
    try:
        yield
    except ValueError as error:
        match = re.search(r"Variable (\S+) already exists", str(error))
        made_here = context.get_collection_in_tower(tf.GraphKeys.GLOBAL_VARIABLES)
        if match is None or match.group(1) in [var.op.name for var in made_here]:
            raise
        raise ValueError(
            f"TowerFunc: the graph has a variable '{match.group(1)}' already, from a model that was built in it before. "
            "Build each training (each fold, each run of a notebook cell) in a graph of its own, model, data and trainer under "
            "`with tf.Graph().as_default():`. To share the variables instead, ask for them in a variable scope with reuse=tf.AUTO_REUSE."
        ) from error


def _check_names(names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name or re.search(r"[:/ ]", name):
            raise ValueError(
                f"TowerFunc: an input is named {name!r}, wanted a name without ':', '/' and spaces. Write "
                "tf.TensorSpec(shape, dtype, 'name')."
            )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"TowerFunc: input names appear twice: {', '.join(twice)}. Give each input a name of its own."
        )

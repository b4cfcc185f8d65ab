"""Inputs that provide only some of a model's inputs."""

from __future__ import annotations

from typing import Any, Sequence, TypeVar

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..tfutils.placeholder import build_or_reuse_placeholder
from .base import InputSource, ProxyInputSource

T = TypeVar("T")


class RemappedInput(ProxyInputSource):
    """
    Result of `remap_input_source`: some tensors of the inner input, and placeholders for the model's other inputs.

    Callers choose by class how to use an input, so this object reports the class of the inner input: `isinstance(x,
    QueueInput)` is true for a remapped QueueInput. Unknown attributes are looked up in the inner input.
    """

    def __init__(self, input: InputSource, names: Sequence[str]) -> None:
        ProxyInputSource.__init__(self, input)
        self._names = list(names)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._input.__class__

    def __getattr__(self, name: str) -> Any:
        if name == "_input":  # `copy` asks before it exists
            raise AttributeError(name)
        return getattr(self._input, name)

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._signature = list(input_signature)
        self._input.setup(get_sublist_by_names(self._signature, self._names))

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        placeholders = [build_or_reuse_placeholder(spec) for spec in self._signature]
        return get_tensors_inputs(placeholders, super()._get_input_tensors(), self._names)


def remap_input_source(input: InputSource, names: Sequence[str]) -> InputSource:
    """
    Let an input provide only some of a model's inputs, in any order. The others become placeholders, which a
    callback feeds.

    Args:
        input: an input that has not been set up.
        names: for each component of `input`, the name of the model's input.

    Returns:
        An InputSource around `input`. `isinstance` sees the class of `input`.

    Raises:
        ValueError: in `setup`: the model has no input of that name.

    Example:
        >>> # the model's inputs are image1, label, image2; df yields [label, image1]
        >>> remap_input_source(QueueInput(df), ["label", "image1"])   # image2 is fed by a callback
    """
    return RemappedInput(input, names)


def get_sublist_by_names(lst: Sequence[T], names: Sequence[str]) -> list[T]:
    """
    Select items by their name.

    Args:
        lst: objects with a `name`, e.g. `TensorSpec` or placeholders.
        names: the names to select, in the order of the result.

    Returns:
        A list as long as `names`.

    Raises:
        ValueError: a name is not in `lst`.
    """
    return [lst[index] for index in _positions(lst, names)]


def get_tensors_inputs(
    placeholders: Sequence[tf.Tensor], tensors: Sequence[tf.Tensor], names: Sequence[str]
) -> list[tf.Tensor]:
    """
    Replace placeholders by tensors.

    Args:
        placeholders: the placeholders of all inputs.
        tensors: the tensors that replace some of them.
        names: for each of `tensors`, the name of the placeholder.

    Returns:
        A list as long as `placeholders`.

    Raises:
        ValueError: `names` and `tensors` differ in length, or a name is unknown.
    """
    if len(tensors) != len(names):
        raise ValueError(
            f"get_tensors_inputs: tensors and names differ in length (expected a name for each of {len(tensors)} tensors, "
            f"got {list(names)})."
        )
    inputs = list(placeholders)
    for index, tensor in zip(_positions(placeholders, names), tensors):
        inputs[index] = tensor
    return inputs


def _positions(items: Sequence[tf.TensorSpec | tf.Tensor], names: Sequence[str]) -> list[int]:
    known = [item.name if isinstance(item, TensorSpec) else item.op.name for item in items]
    for name in names:
        if name not in known:
            raise ValueError(
                f"remap_input_source: the model has no input '{name}' (expected one of {', '.join(known)})."
            )
    return [known.index(name) for name in names]

"""Handles of towers, which look up their tensors, variables and collections."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from ...compat import tfv1 as tf
from ...compat.value_names import value_of
from ...utils import logger
from ..common import find_name, get_op_tensor_name
from .context import BaseTowerContext


class TowerTensorHandle:
    """
    Handle of one tower: its inputs, its outputs, and all tensors by name.

    Args:
        context: the tower's context.
        inputs: the tensors the tower function was called with, one for each entry of `input_signature`.
        outputs: the result of the tower function.
        input_signature: a list of `TensorSpec`.

    Attributes:
        ns_name, vs_name, is_training: as of the context.
        input_names: the names of the inputs, such as "image:0".
        inputs, outputs: as given; `input` and `output` are their old names.
        graph: the graph of the tower.

    Raises:
        ValueError: the number of inputs differs from the number of signature entries.
    """

    def __init__(
        self,
        context: BaseTowerContext,
        inputs: Sequence[tf.Tensor],
        outputs: object,
        input_signature: Sequence[tf.TensorSpec],
    ) -> None:
        names = [get_op_tensor_name(spec.name)[1] for spec in input_signature]
        if len(names) != len(inputs):
            raise ValueError(
                f"TowerFunc: the number of inputs of tower '{context.name}' is wrong (expected {len(names)}: "
                f"{', '.join(names)}, got {len(inputs)})."
            )
        self._context = context
        self.graph = tf.get_default_graph()
        self._inputs_by_name = dict(zip(names, inputs))
        self.ns_name = context.name
        self.vs_name = context.vs_name
        self.is_training = context.is_training
        self.input_names = names
        self.inputs = self.input = tuple(inputs)
        self.outputs = self.output = outputs

    def get_tensor(self, name: str) -> tf.Tensor:
        """
        Return a tensor of this tower.

        The name is looked up among the inputs of the signature, then inside the tower, then among the variables. For an
        input, the result is the tensor that the tower was called with, not the placeholder.

        Args:
            name: the name of a tensor or of an operation (its first output), without the tower's prefix. A
                variable's name means its value.

        Raises:
            KeyError: the name does not exist. The message lists similar names.
        """
        tensor_name = get_op_tensor_name(name)[1]
        full_name = _join(self.ns_name, tensor_name)
        found = self._lookup(full_name)
        if tensor_name in self._inputs_by_name:
            tensor = self._inputs_by_name[tensor_name]
            if found is not None and found is not tensor:
                logger.info(f"Using the input {tensor.name} for '{name}' of tower '{self.ns_name}', not {found.name}.")
            return tensor
        if found is None:
            found = self._lookup(_join(self.vs_name, tensor_name))
        return found if found is not None else find_name(self.graph, full_name)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Return several tensors; see `get_tensor`."""
        return [self.get_tensor(name) for name in names]

    def __getitem__(self, name: str) -> tf.Tensor:
        return self.get_tensor(name)

    def get_variable(self, name: str) -> tf.Tensor:
        """
        Return the value of one of this tower's variables, as a tensor.

        Args:
            name: the variable's name without the tower's prefix, e.g. `conv0/W`.

        Raises:
            KeyError: the variable does not exist. The message lists similar names.
        """
        return value_of(find_name(self.graph, _join(self.vs_name, get_op_tensor_name(name)[1])))

    def get_variables(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Return the values of several variables; see `get_variable`."""
        return [self.get_variable(name) for name in names]

    def get_collection(self, key: str | None = None, name: str | None = None) -> list[Any]:
        """
        Return what this tower added to a collection.

        Args:
            key: the collection's name.
            name: old name of `key`.

        Raises:
            ValueError: neither `key` nor `name` is given.
        """
        collection = key if key is not None else name
        if collection is None:
            raise ValueError("TowerTensorHandle.get_collection: the name of the collection is missing. Pass key='...'.")
        return self._context.get_collection_in_tower(collection)

    def _lookup(self, tensor_name: str) -> tf.Tensor | None:
        try:
            return value_of(self.graph.get_tensor_by_name(tensor_name))
        except KeyError:
            return None


class TowerTensorHandles:
    """
    The towers of one tower function, in the order they were built.

    Args:
        handles: their handles.
    """

    def __init__(self, handles: Sequence[TowerTensorHandle]) -> None:
        self._handles = list(handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[TowerTensorHandle]:
        return iter(self._handles)

    def __getitem__(self, key: int | str) -> TowerTensorHandle:
        """Return a tower by its number or its name scope."""
        if isinstance(key, int):
            return self._handles[key]
        by_name = {handle.ns_name: handle for handle in self._handles}
        if key not in by_name:
            raise KeyError(f"There is no tower '{key}'. The towers are: {sorted(by_name)}.")
        return by_name[key]

    def training(self) -> TowerTensorHandles:
        """Return the training towers."""
        return TowerTensorHandles([handle for handle in self._handles if handle.is_training])

    def inference(self) -> TowerTensorHandles:
        """Return the inference towers."""
        return TowerTensorHandles([handle for handle in self._handles if not handle.is_training])


def _join(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name

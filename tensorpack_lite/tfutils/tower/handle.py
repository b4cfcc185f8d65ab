"""Looking inside the towers that a tower function has built: their tensors, variables and collections."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from ...compat import tfv1 as tf
from ...utils import logger
from ..common import find_name, get_op_tensor_name, value_of
from .context import BaseTowerContext

__all__ = ["TowerTensorHandle", "TowerTensorHandles"]


class TowerTensorHandle:
    """
    One tower: what went in, what came out, and everything in between by name.

    Args:
        context: the tower's context.
        inputs: the tensors the tower function was called with, one for each entry of `input_signature`.
        outputs: what it returned.
        input_signature: a list of `TensorSpec`.

    Raises:
        ValueError: the numbers of inputs and of signature entries differ.

    tensorpack: same.
    """

    def __init__(
        self, context: BaseTowerContext, inputs: Sequence[Any], outputs: Any, input_signature: Sequence[Any]
    ) -> None:
        names = [get_op_tensor_name(spec.name)[1] for spec in input_signature]
        if len(names) != len(inputs):
            raise ValueError(
                f"Tower '{context.name}': got {len(inputs)} input tensors, wanted {len(names)} ({', '.join(names)})."
            )
        self._context = context
        self.graph = tf.get_default_graph()
        self._inputs_by_name = dict(zip(names, inputs))
        self.inputs = tuple(inputs)
        self.outputs = outputs

    @property
    def ns_name(self) -> str:
        """The name scope of the tower."""
        return self._context.name

    @property
    def vs_name(self) -> str:
        """The variable scope of the tower."""
        return self._context.vs_name

    @property
    def is_training(self) -> bool:
        """Whether this tower is trained."""
        return self._context.is_training

    @property
    def input(self) -> tuple[Any, ...]:
        """Old name of `inputs`."""
        return self.inputs

    @property
    def output(self) -> Any:
        """Old name of `outputs`."""
        return self.outputs

    def get_tensor(self, name: str) -> Any:
        """
        Find a tensor of this tower.

        Looks for the name inside the tower, then among the declared inputs, then among the variables. Where a declared
        input has that name, the tensor that this tower really got is meant, not the placeholder.

        Args:
            name: a name without the tower's prefix, of a tensor or of an operation (its first output). A variable's name
                means its value.

        Returns:
            The tensor.

        Raises:
            KeyError: nothing has that name; names the nearest ones.

        tensorpack: same.
        """
        tensor_name = get_op_tensor_name(name)[1]
        full_name = _join(self.ns_name, tensor_name)
        found = self._lookup(full_name)
        if tensor_name in self._inputs_by_name:
            tensor = self._inputs_by_name[tensor_name]
            if found is not None and found is not tensor:
                logger.info(
                    f"'{name}' of tower '{self.ns_name}' is taken to be its input {tensor.name}, not {found.name}."
                )
            return tensor
        if found is None:
            found = self._lookup(_join(self.vs_name, tensor_name))
        return found if found is not None else find_name(self.graph, full_name)

    def get_tensors(self, names: Sequence[str]) -> list[Any]:
        """Find several tensors; see `get_tensor`."""
        return [self.get_tensor(name) for name in names]

    def __getitem__(self, name: str) -> Any:
        return self.get_tensor(name)

    def get_variable(self, name: str) -> Any:
        """
        Find the value of one of this tower's variables.

        Args:
            name: the variable's name without the tower's prefix, e.g. `conv0/W`.

        Returns:
            The tensor of its value.

        Raises:
            KeyError: no such variable; names the nearest ones.

        tensorpack: same.
        """
        return value_of(find_name(self.graph, _join(self.vs_name, get_op_tensor_name(name)[1])))

    def get_variables(self, names: Sequence[str]) -> list[Any]:
        """Find several variables; see `get_variable`."""
        return [self.get_variable(name) for name in names]

    def get_collection(self, key: str | None = None, name: str | None = None) -> list[Any]:
        """
        Get what this tower added to a collection.

        Args:
            key: the collection's name.
            name: old spelling of `key`.

        Returns:
            Its members, as they were when the tower was left.

        tensorpack: same.
        """
        collection = key if key is not None else name
        if collection is None:
            raise ValueError("TowerTensorHandle.get_collection: no name given. Pass key='...'.")
        return self._context.get_collection_in_tower(collection)

    def _lookup(self, tensor_name: str) -> Any:
        try:
            return value_of(self.graph.get_tensor_by_name(tensor_name))
        except KeyError:
            return None


class TowerTensorHandles:
    """
    The towers of one tower function, in the order they were built.

    Args:
        handles: their handles.

    tensorpack: same.
    """

    def __init__(self, handles: Sequence[TowerTensorHandle]) -> None:
        self._handles = list(handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[TowerTensorHandle]:
        return iter(self._handles)

    def __getitem__(self, key: int | str) -> TowerTensorHandle:
        """Get a tower by its number or by its name scope."""
        if isinstance(key, int):
            return self._handles[key]
        by_name = {handle.ns_name: handle for handle in self._handles}
        if key not in by_name:
            raise KeyError(f"There is no tower '{key}'. The towers are: {sorted(by_name)}.")
        return by_name[key]

    def training(self) -> TowerTensorHandles:
        """Get only the towers that are trained."""
        return TowerTensorHandles([handle for handle in self._handles if handle.is_training])

    def inference(self) -> TowerTensorHandles:
        """Get only the towers that are evaluated."""
        return TowerTensorHandles([handle for handle in self._handles if not handle.is_training])


def _join(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name

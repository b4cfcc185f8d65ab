"""The number of samples in a datapoint of a training."""

from __future__ import annotations

from typing import Sequence

from ..tfutils.tower.handle import TowerTensorHandle
from ..utils.inspection import static_attribute
from .base import InputSource


def samples_per_datapoint(towers: Sequence[TowerTensorHandle], source: InputSource | None) -> int | None:
    """
    Return the number of samples in a datapoint: the first dimension of all inputs of a tower in the graph or,
    if that is unknown, the batch size of the DataFlow.
    """
    shapes = [tensor.shape for tensor in towers[0].inputs] if towers else []
    # a scalar input has no batch axis, so there is no common size
    first = {0 if shape.ndims == 0 else shape.as_list()[0] for shape in shapes if shape.ndims is not None}
    first.discard(None)
    size = first.pop() if len(first) == 1 else None
    return size or _size_in_data(source)


def _size_in_data(source: object, inside: tuple[int, ...] = ()) -> int | None:
    """Return the outermost `batch_size` of an input and the DataFlows inside it; joined DataFlows must agree."""
    size = static_attribute(source, "batch_size")
    if isinstance(size, int):
        return size
    several = static_attribute(source, "df_lists")
    behind = [static_attribute(source, name) for name in ("_input", "ds")]
    behind += several if isinstance(several, (list, tuple)) else []
    inside = (*inside, id(source))  # a user's stage may refer to one that reads from it
    sizes = {_size_in_data(part, inside) for part in behind if part is not None and id(part) not in inside}
    return sizes.pop() if len(sizes) == 1 else None

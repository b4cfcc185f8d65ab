"""The batches of the towers in the run in which something went wrong, without a copy in all other runs."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...compat.private import inside_control_flow
from ...loop.trainer import LoopTrainer
from ...tfutils.dependency import data_parents, walk
from ...tfutils.exact.state import find_exact


class TowerBatch(NamedTuple):
    """
    The inputs that one tower computed a step from.

    Attributes:
        tower: the number of the tower, from 0.
        names: the names of the model's inputs.
        tensors: the tensors of the graph, which can be fed.
        arrays: their values.
        datapoint: the number of the datapoint in the stream of the input, from 1.
    """

    tower: int
    names: list[str]
    tensors: list[tf.Tensor]
    arrays: list[np.ndarray]
    datapoint: int

    @property
    def num_samples(self) -> int:
        """The length of the batch axis that all inputs share; 1 if they share none."""
        lengths = {array.shape[0] for array in self.arrays if array.ndim}
        return lengths.pop() if len(lengths) == 1 else 1

    def feed(self, samples: Sequence[int] | None = None) -> dict[tf.Tensor, np.ndarray]:
        """
        Return a feed for the tensors.

        Args:
            samples: the numbers of samples, which are repeated in turn until the batch is full; None means the batch.
        """
        arrays = self.arrays
        if samples is not None:
            rows = np.resize(np.asarray(samples), self.num_samples)
            arrays = [array[rows] if array.ndim else array for array in arrays]
        return dict(zip(self.tensors, arrays))


class BatchCapture:
    """
    Copy of the inputs of all training towers, made in runs in which a condition is true.

    Args:
        trainer: a trainer. Without a tower function, no inputs are kept.

    Attributes:
        result: the scalar that was kept last; None before.
        more: the other values that were kept with it.
    """

    def __init__(self, trainer: LoopTrainer) -> None:
        self._towers = training_towers(trainer)
        self._num_runs = 0
        self._values: list[np.ndarray] = []
        self.result: int | None = None
        self.more: list[np.ndarray] = []

    def store(self, result: tf.Tensor, more: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """
        Return a tensor with the same scalar, whose evaluation keeps the inputs. Call it inside a branch of `tf.cond`.

        Args:
            result: a scalar, int64.
            more: tensors whose values `result` and `more` of this object have afterwards.
        """
        inputs = [tensor for tower in self._towers for tensor in tower.inputs]

        def keep(value: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
            copies = [np.array(array) for array in arrays]  # the memory belongs to TensorFlow
            self.more, self._values = copies[: len(more)], copies[len(more) :]
            self.result = int(value)
            return value

        # a function, because inside `tf.cond` TensorFlow 2 combines a name with "/job:localhost", where no device of a rank is
        with tf.device(lambda op: "/device:CPU:0"):
            kept = tf.py_func(keep, [result, *more, *inputs], tf.int64)
        kept.set_shape([])
        return kept

    def count_run(self) -> None:
        """Count a run; call it after each one."""
        self._num_runs += 1

    def batches(self) -> list[TowerBatch]:
        """Return what the last evaluation kept, one for each tower. Needs a default session."""
        if not self._values:
            return []
        values, batches = iter(self._values), []
        for index, (tower, number) in enumerate(zip(self._towers, self._datapoints())):
            tensors = list(tower.inputs)
            names = [name.split(":")[0] for name in tower.input_names]
            batches.append(TowerBatch(index, names, tensors, [next(values) for _ in tensors], number))
        return batches

    def _datapoints(self) -> list[int]:
        exact = find_exact()
        source: Any = next(iter(exact.sources.values()), None) if exact is not None else None
        numbers = source.last_numbers() if source is not None else []
        first = (self._num_runs - 1) * len(self._towers) + 1
        return numbers or [first + index for index in range(len(self._towers))]


def training_towers(trainer: LoopTrainer) -> list[Any]:
    """Return the handles of the training towers; none if the trainer has no tower function."""
    if getattr(trainer, "tower_func", None) is None:
        return []
    return list(trainer.towers.training())  # type: ignore[attr-defined]


def tensors_computed_from(tensors: Sequence[tf.Tensor], is_wanted: Callable[[tf.Tensor], bool]) -> list[tf.Tensor]:
    """
    Return the tensors that some tensors depend on, and those, in the order of the graph.

    Args:
        tensors: tensors of one graph; at least one.
        is_wanted: which ones. Constants and the inside of conditions and loops are omitted.
    """
    names = {op.name for op in walk((tensor.op for tensor in tensors), data_parents)}
    ordered = [op for op in tensors[0].graph.get_operations() if op.name in names and op.type != "Const"]
    return [tensor for op in ordered if not inside_control_flow(op) for tensor in op.outputs if is_wanted(tensor)]

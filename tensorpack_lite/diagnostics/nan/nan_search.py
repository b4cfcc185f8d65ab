"""The search for what made a step not finite: runs the losses again on the same batch, and on parts of it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...tfutils.dependency import data_parents, walk
from .batch_capture import TowerBatch, tensors_computed_from

_MAX_CULPRITS = 4
_CHUNK = 32  # tensors that one run fetches
_EXCHANGES = re.compile(r"Collective|Horovod|Nccl|AllReduce")


class Activation(NamedTuple):
    """
    A tensor of the step.

    Attributes:
        name, kind, shape: of the tensor; the kind is the type of its operation.
        largest: the largest absolute value; NaN or inf if it is not finite.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    largest: float


class Culprit(NamedTuple):
    """
    Samples that make the loss of a tower not finite.

    Attributes:
        batch: the batch of the tower.
        samples: their numbers in the batch, from 0.
        is_alone: whether each of them does it without the others.
    """

    batch: TowerBatch
    samples: list[int]
    is_alone: bool


class Search:
    """
    Runs of the losses with fed batches. Nothing is trained, and no data is taken from the input.

    Args:
        session: the session of the training.
        batches: the batches of the towers.
        losses: the losses of each tower.
        gradients: what is checked if the losses were finite; `{name: tensor}`.
    """

    def __init__(
        self,
        session: tf.Session,
        batches: Sequence[TowerBatch],
        losses: Sequence[Sequence[tf.Tensor]],
        gradients: dict[str, tf.Tensor],
    ) -> None:
        self._session = session
        self._batches = batches
        self._losses = losses
        self._gradients = gradients

    def why_not(self) -> str | None:
        """Return why the step cannot be run again; None if it can."""
        if not self._batches:
            return "the trainer has no tower function, so its inputs are unknown"
        tensors = [tensor for losses in self._losses for tensor in losses] + list(self._gradients.values())
        needed = {tensor.op.type for tensor in tensors_computed_from(tensors, lambda tensor: True)}
        exchanges = ", ".join(sorted(filter(_EXCHANGES.search, needed)))
        return f"the step exchanges values with other processes ({exchanges})" if exchanges else None

    def is_bad(self, batch: TowerBatch, samples: Sequence[int] | None = None) -> bool:
        """
        Return whether a batch makes its tower not finite. All towers get this batch.

        Args:
            batch: the batch of a tower.
            samples: their numbers; None means all. The batch is filled with copies of them.
        """
        values = self._run_towers([*self._of(batch), *self._gradients.values()], batch, samples)
        return not all(np.isfinite(value).all() for value in values)

    def overflows(self, batch: TowerBatch) -> bool:
        """Return whether the square of a gradient's norm is too large for float32. All towers get this batch."""
        values = self._run_towers(list(self._gradients.values()), batch)
        squares = [np.sum(np.square(value, dtype=np.float64)) for value in values]
        return any(square > np.finfo(np.float32).max for square in squares)

    def _run_towers(
        self, fetches: list[tf.Tensor], batch: TowerBatch, samples: Sequence[int] | None = None
    ) -> list[Any]:
        values = batch.feed(samples)
        feed: dict[tf.Tensor, np.ndarray] = {}
        for other_batch in self._batches:
            feed.update((tensor, values[mine]) for mine, tensor in zip(batch.tensors, other_batch.tensors))
        return self._session.run(fetches, feed)

    def culprit(self) -> Culprit | None:
        """Return the samples of the first tower that is not finite again; None if all towers are finite."""
        batch = next((batch for batch in self._batches if self.is_bad(batch)), None)
        if batch is None:
            return None
        samples = list(range(batch.num_samples))
        if len(samples) == 1:
            return Culprit(batch, [], False)
        found: list[int] = []
        while len(found) < _MAX_CULPRITS and samples and (not found or self.is_bad(batch, samples)):
            part = self._smallest(batch, samples)
            if len(part) > 1:
                return Culprit(batch, found or part, bool(found))
            found += part
            samples.remove(part[0])
        return Culprit(batch, sorted(found), True)

    def _smallest(self, batch: TowerBatch, samples: list[int]) -> list[int]:
        """Return the smallest part, by halves, that is still not finite."""
        while len(samples) > 1:
            middle = len(samples) // 2
            halves = samples[:middle], samples[middle:]
            bad = next((half for half in halves if self.is_bad(batch, half)), None)
            if bad is None:
                break
            samples = bad
        return samples

    def activations(self, culprit: Culprit) -> list[Activation]:
        """Return the tensors of the tower up to the first one that is not finite, in the order of the graph."""
        batch = culprit.batch
        values = batch.feed(culprit.samples if culprit.is_alone else None)
        tensors = tensors_computed_from(self._of(batch), is_float)
        found: list[Activation] = []
        for start in range(0, len(tensors), _CHUNK):
            some = tensors[start : start + _CHUNK]
            for tensor, value in zip(some, self._session.run(some, values)):
                found.append(Activation(tensor.name, tensor.op.type, np.shape(value), largest(value)))
                if not np.isfinite(found[-1].largest):
                    return found
        return found

    def _of(self, batch: TowerBatch) -> list[tf.Tensor]:
        return list(self._losses[min(batch.tower, len(self._losses) - 1)])


def before_exchange(tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """
    Return what a process computes before it exchanges values with other processes.

    Args:
        tensors: e.g. gradients after their reduction over ranks, by name.

    Returns:
        The inputs of the exchanges that the tensors depend on, by name; `tensors` if there is no exchange.
    """
    ops = walk(
        (tensor.op for tensor in tensors.values()),
        lambda op: () if _EXCHANGES.search(op.type) else data_parents(op),
    )
    exchanges = [op for op in ops if _EXCHANGES.search(op.type)]
    return {tensor.name: tensor for op in exchanges for tensor in op.inputs if is_float(tensor)} or tensors


def largest(value: Any) -> float:
    """Return the largest absolute value of an array; NaN if it has one; 0 if it is empty."""
    array = np.asarray(value)
    return float(np.max(np.abs(array.astype(np.float64)))) if array.size else 0.0


def is_float(tensor: tf.Tensor) -> bool:
    """Return whether a tensor is of a floating-point type that TensorFlow can check for NaN."""
    return tensor.dtype.base_dtype in (tf.float16, tf.float32, tf.float64)

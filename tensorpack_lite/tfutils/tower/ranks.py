"""What a tower knows of the other processes that train with it."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

__all__ = ["TowerRanks"]


class TowerRanks(NamedTuple):
    """
    The processes ("ranks") that step together, and their engine, as far as a layer needs it.

    A trainer of several processes gives it to the context of its tower; `joint.mean_over_ranks`, and so
    `BatchNorm(sync_statistics=...)`, finds it there.

    Args:
        size: how many ranks there are.
        mean: builds the mean over all ranks: `f(tensor) -> tensor`, of the shape and dtype given (float32 or float64, a few
            values for each channel of a layer). It is called in the same order on every rank, in the forward part and again
            for gradients, and needs no gradient itself.

    Example:
        >>> ranks = TowerRanks(hvd.size(), lambda tensor: hvd.allreduce(tensor, op=hvd.Average))
        >>> with TrainTowerContext("", ranks=ranks):
        ...     grads = get_grads()

    tensorpack: new; there layers call Horovod themselves.
    """

    size: int
    mean: Callable[[Any], Any]

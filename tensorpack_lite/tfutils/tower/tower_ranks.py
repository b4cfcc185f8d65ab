"""The interface through which layers use the other processes of a distributed training."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple


class TowerRanks(NamedTuple):
    """
    The processes ("ranks") that train together, and a function that averages over them.

    A distributed trainer passes it to the context of its tower. `cross_tower.mean_over_ranks` uses it, and therefore
    `BatchNorm(sync_statistics=...)`.

    Args:
        size: number of ranks.
        mean: `f(tensor) -> tensor`, builds the mean of a tensor over all ranks, with the same shape and
            dtype: float32 or float64, a few values for each channel of a layer. It is called in the same
            order on every rank, in the forward pass and again for gradients. It does not need to be
            differentiable.

    Example:
        >>> ranks = TowerRanks(hvd.size(), lambda tensor: hvd.allreduce(tensor, op=hvd.Average))
        >>> with TrainTowerContext("", ranks=ranks):
        ...     grads = get_grads()
    """

    size: int
    mean: Callable[[Any], Any]

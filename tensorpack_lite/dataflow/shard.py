"""
Dividing a DataFlow among several processes.

In:  the same datapoints in the same order in each process.
Out: in each process, its share of them.
"""

from __future__ import annotations

from typing import Any, Iterator

from ..utils.checks import check_at_least, check_type
from ..utils.random_streams import derive_generator, save_generator, shared_stream
from .base import DataFlow, Datapoint, ProxyDataFlow
from .exact.stage_position import State

# Stages above a ShardData whose position is that of the stage below, for any number of ranks.
_TRANSPARENT = (
    "AugmentImageComponent", "AugmentImageComponents", "BatchData", "MapData", "MapDataComponent",
    "PrintData", "RepeatedData",
)  # fmt: skip


class ShardData(ProxyDataFlow):
    """
    DataFlow that deals out another one to several processes: each process reads all of it and keeps every `size`-th
    datapoint.

    Dealing continues from pass to pass, so each datapoint of each pass goes to exactly one process. When an
    exact training resumes with another number of processes, the datapoints that were not used yet are dealt
    out anew; keep the total batch size.

    Length: `len(ds) // size`. If that is not exact, some passes have one datapoint more.
    Order: that of `ds`.
    Process: runs in the current process. Do not use it inside the workers of a runner.

    Args:
        ds: the DataFlow, equal in all processes. For training, repeat it here, so that all processes get
            equally many batches.
        rank: the number of this process, from 0.
        size: the number of processes; >= 1.
        seed: seed of all random numbers that `ds` draws. It must be equal in all processes, so it is
            independent of `fix_rng_seed`.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: `size` is below 1, or `rank` is not below `size`.

    Example:
        >>> ds = DataFromList([[i] for i in range(100)], shuffle=True)
        >>> ds = ShardData(RepeatedData(ds, -1), rank=1, size=2)        # trainer.rank, trainer.size
        >>> ds = BatchData(ds, ShardData.share(64, 2))                  # the total batch stays 64 for any number of ranks
    """

    def __init__(self, ds: DataFlow, rank: int, size: int, seed: int = 0) -> None:
        super().__init__(ds)
        self.num_ranks = check_at_least("ShardData: size", check_type("ShardData: size", size, int), 1)
        self.rank = check_at_least("ShardData: rank", check_type("ShardData: rank", rank, int), 0)
        if rank >= size:
            raise ValueError(f"ShardData: rank is too large (expected less than size, {size}, got {rank}).")
        self.seed = check_type("ShardData: seed", seed, int)
        self._turn = 0  # the process that gets the next datapoint

    @staticmethod
    def share(total: int, size: int) -> int:
        """
        Return the batch of each process, for a total batch that stays the same for any number of processes.

        Args:
            total: the number of datapoints in the batches of all processes; >= 1.
            size: the number of processes; >= 1.

        Returns:
            `total // size`.

        Raises:
            ValueError: `total` is not a multiple of `size`.

        Example:
            >>> ShardData.share(64, 4)
            16
        """
        total = check_at_least("ShardData.share: total", check_type("ShardData.share: total", total, int), 1)
        size = check_at_least("ShardData.share: size", check_type("ShardData.share: size", size, int), 1)
        if total % size:
            raise ValueError(
                f"ShardData.share: a batch of {total} cannot be divided among {size} ranks (expected a divisor of {total}). "
                f"Choose a total batch that all numbers of ranks divide."
            )
        return total // size

    def __len__(self) -> int:
        return len(self.ds) // self.num_ranks

    def reset_state(self) -> None:
        """Reset `ds`, with the shared seed."""
        self._turn = 0
        with shared_stream(self.seed):
            self.ds.reset_state()

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the datapoints of this rank, from the next datapoint of `ds` on."""
        for datapoint in self.ds:
            is_own = self._turn == self.rank
            self._turn = (self._turn + 1) % self.num_ranks
            if is_own:
                yield datapoint

    def _own_state(self) -> State:
        return {"turn": self._turn, "size": self.num_ranks}

    def _restore_own_state(self, state: State) -> None:
        if state["size"] != self.num_ranks and state["turn"] != 0:
            raise ValueError(
                "ShardData: the saved position is from a run with another number of processes "
                f"(expected {self.num_ranks}, got {state['size']}). "
                f"In every process, restore the position of the last process, rank {state['size'] - 1}."
            )
        self._turn = state["turn"]


def deal_again(position: State, key: tuple[Any, ...]) -> State | None:
    """
    Return the position at which the input of a rank continues with another number of ranks.

    Args:
        position: of the input of the last rank: when all ranks have used equally many datapoints, its ShardData has
            read exactly those that all ranks have used.
        key: the generators of the stages above the ShardData are derived from it, so that no two ranks draw the same numbers.

    Returns:
        The position; None if the input has no ShardData, or a stage above it holds datapoints back.
    """
    flow = _with_generators(position.get("flow"), key)
    return None if flow is None else {**position, "flow": flow, "witnesses": {}}


def _with_generators(node: Any, key: tuple[Any, ...]) -> State | None:
    """Return the position of a stage with new generators down to the ShardData; None if that cannot be dealt out anew."""
    if not isinstance(node, dict):
        return None
    if node.get("stage") == "ShardData":
        return node if node["at"]["own"]["turn"] == 0 else None
    if node.get("stage") not in _TRANSPARENT or len(node["at"]["children"]) != 1:
        return None
    child = _with_generators(node["at"]["children"][0], (*key, "below"))
    if child is None:
        return None
    numbers = range(len(node["at"]["generators"]))
    generators = [save_generator(derive_generator((*key, number))) for number in numbers]
    return {**node, "at": {**node["at"], "generators": generators, "children": [child]}}

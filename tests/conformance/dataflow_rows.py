"""
One row for each public DataFlow: how to build a small one, and its expected behavior.

`dataset_rows.py` has the rows of datasets.

Every source yields six datapoints, [array, number] or {"array": ..., "number": ...}, whose numbers are 0 to 5. Functions of
rows take both forms, and stand at the top level of the module, because rows are pickled.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from tensorpack_lite import dataflow

__all__ = ["ROWS", "SIZE", "Row", "Source", "numbers", "take"]

SIZE = 6


class Source(dataflow.DataFlow):
    """A DataFlow that yields its stored datapoints in order, and counts its resets."""

    def __init__(self, form: type = list) -> None:
        self.form = form
        self.datapoints = [self.make(k) for k in range(SIZE)]
        self.resets = 0

    def make(self, k: int) -> Any:
        array = np.array([k, -k], dtype=np.float32)
        return [array, k] if self.form is list else {"array": array, "number": k}

    @property
    def keys(self) -> Tuple[Any, Any]:
        """Index of the array and of the number."""
        return (0, 1) if self.form is list else ("array", "number")

    def __iter__(self):
        yield from self.datapoints

    def __len__(self) -> int:
        return SIZE

    def reset_state(self) -> None:
        self.resets += 1


class Tickets:
    """A picklable queue that never runs out."""

    def __init__(self) -> None:
        self.count = -1

    def get(self) -> list:
        self.count += 1
        return [np.zeros(2), self.count]


@dataclass(frozen=True)
class Row:
    """
    A public DataFlow and its expected behavior.

    Attributes:
        name: the public name.
        build: builds a DataFlow from a `Source`; leaves ignore it.
        seed_7: numbers of the first ten datapoints after `fix_rng_seed(7)`, over as many passes as necessary.
        length: value of `len`; None if it raises NotImplementedError.
        infinite: whether a pass never ends.
        random: whether it draws random numbers.
        leaf: whether it wraps no other DataFlow.
        gives_lists: whether it yields lists for dicts, too.
        elsewhere: whether its source is reset and iterated in another process.
        needs_reset: whether it refuses to be iterated before `reset_state`, as random ones do.
        resets_once: whether a second `reset_state` is refused.
        alone: whether a second iterator is refused while there is one.
        refused: wrong arguments: what the error says after the name of the class, and the arguments after the source.
    """

    name: str
    build: Callable[[Source], dataflow.DataFlow]
    seed_7: Tuple[Any, ...]
    length: Optional[int] = SIZE
    infinite: bool = False
    random: bool = False
    leaf: bool = False
    gives_lists: bool = False
    elsewhere: bool = False
    needs_reset: bool = False
    resets_once: bool = False
    alone: bool = False
    refused: Sequence[Tuple[Any, ...]] = ()

    def __str__(self) -> str:
        return self.name


def numbers(datapoints: Any) -> list:
    """Return the numbers of datapoints; lists of numbers for batches."""
    found = [dp["number"] if isinstance(dp, dict) else dp[1] for dp in datapoints]
    return [np.asarray(number).tolist() for number in found]


def take(flow: dataflow.DataFlow, count: int) -> list:
    """Return the first datapoints, over as many passes as necessary."""
    return list(itertools.islice(itertools.chain.from_iterable(itertools.repeat(flow)), count))


def identity(component: Any) -> Any:
    """Return the argument; can be pickled."""
    return component


def six_lists() -> list:
    """Return the datapoints of a Source, as a generator function for DataFromGenerator."""
    return Source().datapoints


IN_ORDER = (0, 1, 2, 3, 4, 5, 0, 1, 2, 3)

ROWS = [
    Row("ProxyDataFlow", dataflow.ProxyDataFlow, IN_ORDER),
    Row(
        "FakeData",
        lambda _: dataflow.FakeData([[2], []], size=4, dtype="int32", domain=(0, 100)),
        (49, 20, 12, 21, 16, 49, 6, 85, 14, 92),
        length=4,
        random=True,
        leaf=True,
    ),
    Row(
        "DataFromQueue",
        lambda _: dataflow.DataFromQueue(Tickets()),
        tuple(range(10)),
        length=None,
        infinite=True,
        leaf=True,
    ),
    Row(
        "DataFromList",
        lambda _: dataflow.DataFromList(six_lists()),
        (4, 2, 1, 0, 3, 5, 5, 0, 4, 3),
        random=True,
        leaf=True,
    ),
    Row(
        "DataFromGenerator",
        lambda _: dataflow.DataFromGenerator(six_lists),
        IN_ORDER,
        length=None,
        leaf=True,
    ),
    Row("DataFromIterable", lambda _: dataflow.DataFromIterable(six_lists()), IN_ORDER, leaf=True),
    Row(
        "BatchData",
        lambda ds: dataflow.BatchData(ds, 3),
        ([0, 1, 2], [3, 4, 5]) * 5,
        length=2,
        refused=[("batch_size is too small", 0), ("batch_size 7 is larger than the 6 datapoints of Source", 7)],
    ),
    Row(
        "BatchDataByShape",
        lambda ds: dataflow.BatchDataByShape(ds, 3, ds.keys[0]),
        ([0, 1, 2], [3, 4, 5]) * 5,
        length=2,
        alone=True,
        refused=[("batch_size is too small", 0, 0), ("batch_size 7 is larger", 7, 0)],
    ),
    Row("MapData", lambda ds: dataflow.MapData(ds, identity), IN_ORDER, refused=[("func has the wrong type", 3)]),
    Row(
        "MapDataComponent",
        lambda ds: dataflow.MapDataComponent(ds, identity, ds.keys[1]),
        IN_ORDER,
        refused=[("func has the wrong type", 3)],
    ),
    Row("SelectComponent", lambda ds: dataflow.SelectComponent(ds, ds.keys), IN_ORDER, gives_lists=True),
    Row(
        "RepeatedData",
        lambda ds: dataflow.RepeatedData(ds, 2),
        IN_ORDER,
        length=12,
        refused=[("num .-1 means without end. is too small .expected at least -1", -2)],
    ),
    Row(
        "RepeatedDataPoint",
        lambda ds: dataflow.RepeatedDataPoint(ds, 2),
        (0, 0, 1, 1, 2, 2, 3, 3, 4, 4),
        length=12,
        refused=[("num is too small", 0)],
    ),
    Row(
        "ShardData",
        lambda ds: dataflow.ShardData(ds, 1, 2),
        (1, 3, 5, 1, 3, 5, 1, 3, 5, 1),
        length=3,
        refused=[("", 2, 2), ("", -1, 2), ("", 0, 0)],
    ),
    Row(
        "FixedSizeData",
        lambda ds: dataflow.FixedSizeData(ds, 4),
        IN_ORDER,
        length=4,
        alone=True,
        refused=[("size is too small", 0)],
    ),
    Row(
        "RandomChooseData",
        lambda ds: dataflow.RandomChooseData([(ds, 0.5), (ds, 0.5)]),
        (0, 1, 0, 1, 2, 3, 2, 4, 5, 0),
        length=None,
        random=True,
    ),
    Row(
        "RandomMixData",
        lambda ds: dataflow.RandomMixData([ds, ds]),
        (0, 0, 1, 2, 1, 3, 4, 2, 3, 4),
        length=12,
        random=True,
    ),
    Row("ConcatData", lambda ds: dataflow.ConcatData([ds, ds]), IN_ORDER, length=12),
    Row("JoinData", lambda ds: dataflow.JoinData([ds, ds]), IN_ORDER),
    Row(
        "LocallyShuffleData",
        lambda ds: dataflow.LocallyShuffleData(ds, 4),
        (2, 0, 3, 0, 4, 2, 5, 1, 3, 5),
        infinite=True,
        random=True,
        alone=True,
        refused=[
            ("buffer_size is too small", 0),
            ("num_reuse is too small", 4, 0),
            ("shuffle_interval is too small", 4, 1, 0),
        ],
    ),
    Row(
        "CacheData",
        lambda ds: dataflow.CacheData(ds, shuffle=True),
        (0, 1, 2, 3, 4, 5, 4, 2, 1, 0),
        random=True,
        alone=True,
    ),
    Row(
        "MultiThreadRunner",
        lambda ds: dataflow.MultiThreadRunner(lambda: ds, 3, 1),
        IN_ORDER,
        needs_reset=True,
        resets_once=True,
    ),
    Row(
        "MultiThreadMapData",
        lambda ds: dataflow.MultiThreadMapData(ds, 1, identity, buffer_size=4, strict=True),
        IN_ORDER,
        needs_reset=True,
        alone=True,
        refused=[("num_thread is too small", 0, identity), ("map_func has the wrong type", 2, 3)],
    ),
    Row(
        "MultiProcessRunner",
        lambda ds: dataflow.MultiProcessRunner(ds, 3, 1),
        IN_ORDER,
        elsewhere=True,
        needs_reset=True,
        resets_once=True,
        refused=[("num_prefetch is too small", 0, 1), ("num_proc is too small", 1, 0)],
    ),
    Row(
        "MultiProcessRunnerZMQ",
        lambda ds: dataflow.MultiProcessRunnerZMQ(ds, 1),
        IN_ORDER,
        elsewhere=True,
        needs_reset=True,
        resets_once=True,
        alone=True,
        refused=[("num_proc is too small", 0), ("hwm is too small", 1, 0)],
    ),
    Row(
        "MultiProcessMapDataZMQ",
        lambda ds: dataflow.MultiProcessMapDataZMQ(ds, 1, identity, buffer_size=4, strict=True),
        IN_ORDER,
        needs_reset=True,
        resets_once=True,
        alone=True,
        refused=[
            ("num_proc is too small", 0, identity),
            ("num_proc has the wrong type .expected a number, got NoneType", None, identity),
            ("map_func has the wrong type", 2, 3),
        ],
    ),
    Row(
        "MultiProcessMapAndBatchDataZMQ",
        lambda ds: dataflow.MultiProcessMapAndBatchDataZMQ(ds, 1, identity, 3),
        ([0, 1, 2], [3, 4, 5]) * 5,
        length=None,
        infinite=True,
        elsewhere=True,
        needs_reset=True,
        resets_once=True,
        alone=True,
        refused=[
            ("num_proc is too small", 0, identity, 4),
            ("batch_size is too small", 1, identity, 0),
            ("map_func has the wrong type", 1, 3, 4),
            ("buffer_size is too small .expected more than batch_size 4, got 4", 1, identity, 4, 4),
        ],
    ),
    Row("TestDataSpeed", lambda ds: dataflow.TestDataSpeed(ds, size=3, warmup=1), IN_ORDER),
    Row("PrintData", lambda ds: dataflow.PrintData(ds, num=2), IN_ORDER),
]

"""Wrong arguments raise an error in the constructor, which names the class and the argument."""

from __future__ import annotations

import functools

import pytest
from fakes.reading import same

from tensorpack_lite.dataflow import (
    AugmentImageComponent,
    AugmentImageComponents,
    BatchData,
    BatchDataByShape,
    ConcatData,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DataFromQueue,
    FixedSizeData,
    ImageFromFile,
    JoinData,
    LMDBDataDecoder,
    LMDBSerializer,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapDataZMQ,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadRunner,
    ProxyDataFlow,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    ShardData,
    dataset,
    imgaug,
)

DATA = DataFromList([[k] for k in range(6)], shuffle=False)


def build(kind, *args, **kwargs):
    """Return a function that calls the constructor."""
    return functools.partial(kind, *args, **kwargs)


# the call, and the argument that is too small
TOO_SMALL = [
    (build(BatchData, DATA, 0), "batch_size"),
    (build(BatchDataByShape, DATA, 0, 0), "batch_size"),
    (build(RepeatedDataPoint, DATA, 0), "num"),
    (build(FixedSizeData, DATA, 0), "size"),
    (build(LocallyShuffleData, DATA, 0), "buffer_size"),
    (build(LocallyShuffleData, DATA, 4, num_reuse=0), "num_reuse"),
    (build(LocallyShuffleData, DATA, 4, shuffle_interval=0), "shuffle_interval"),
    (build(MultiProcessMapDataZMQ, DATA, 0, same), "num_proc"),
    (build(MultiProcessMapDataZMQ, DATA, 1, same, buffer_size=0), "buffer_size"),
    (build(MultiThreadMapData, DATA, 0, same), "num_thread"),
    (build(MultiProcessMapAndBatchDataZMQ, DATA, 0, same, 4), "num_proc"),
    (build(MultiProcessMapAndBatchDataZMQ, DATA, 1, same, 0), "batch_size"),
    (build(MultiProcessRunnerZMQ, DATA, 0), "num_proc"),
    (build(MultiProcessRunnerZMQ, DATA, 1, 0), "hwm"),
    (build(MultiProcessRunner, DATA, 0, 1), "num_prefetch"),
    (build(MultiProcessRunner, DATA, 1, 0), "num_proc"),
    (build(MultiThreadRunner, lambda: DATA, 0, 1), "num_prefetch"),
    (build(MultiThreadRunner, lambda: DATA, 1, 0), "num_thread"),
]
IS_EMPTY = [
    *((build(kind, []), "df_lists") for kind in (RandomChooseData, RandomMixData, ConcatData, JoinData)),
    (build(ImageFromFile, []), "files"),
    (build(AugmentImageComponents, DATA, [], index=()), "index"),
]
NO_FUNCTION = [
    (build(MapData, DATA, 3), "func"),
    (build(MapDataComponent, DATA, 3), "func"),
    (build(MultiProcessMapDataZMQ, DATA, 2, 3), "map_func"),
    (build(MultiThreadMapData, DATA, 2, 3), "map_func"),
    (build(MultiProcessMapAndBatchDataZMQ, DATA, 1, 3, 4), "map_func"),
    (build(MultiThreadRunner, 3, 1, 1), "get_df"),
]
NO_DATAFLOW = [
    *(build(kind, [3]) for kind in (RandomChooseData, RandomMixData, ConcatData, JoinData)),
    *(build(kind, 3) for kind in (ProxyDataFlow, MultiProcessRunnerZMQ)),
    build(MultiProcessRunner, 3, 4, 1),
    build(MultiThreadMapData, 3, 1, same),
    build(MultiThreadRunner, lambda: 3, 1, 1),
]
NO_NUMBER = [
    (build(MultiProcessMapDataZMQ, DATA, None, same), "num_proc"),
    (build(MultiThreadMapData, DATA, map_func=same), "num_thread"),
]
OTHERS = [
    (
        build(RepeatedData, DATA, -2),
        ValueError,
        "num .-1 means without end. is too small .expected at least -1",
    ),
    (build(BatchData, DATA, 7), ValueError, "batch_size 7 is larger than the 6 datapoints of DataFromList"),
    (build(BatchDataByShape, DATA, 7, 0), ValueError, "batch_size 7 is larger"),
    (
        build(MultiProcessMapAndBatchDataZMQ, DATA, 1, same, 4, 4),
        ValueError,
        "buffer_size is too small .expected more than batch_size 4, got 4",
    ),
    (build(MultiProcessMapDataZMQ, DATA, 1, same, 200), TypeError, "positional"),
    (build(MultiThreadMapData, DATA, 1, same, 200), TypeError, "positional"),
    (build(ShardData, DATA, 2, 2), ValueError, "ShardData"),
    (build(ShardData, DATA, -1, 2), ValueError, "ShardData"),
    (build(ShardData, DATA, 0, 0), ValueError, "ShardData"),
    (
        build(dataset.Digits, "train", size=7),
        ValueError,
        "Digits: size is too small .expected at least 8, got 7",
    ),
    (build(DataFromQueue, [1]), TypeError, "DataFromQueue: expected a queue"),
    (build(DataFromList, iter([])), TypeError, "DataFromList: expected a sequence.*Use DataFromGenerator"),
    (build(DataFromGenerator, 3), TypeError, "expected a function that returns an iterable"),
    (build(DataFromIterable, 3), TypeError, "DataFromIterable: expected an iterable"),
    (build(ImageFromFile, ["a"], channel=4), ValueError, "ImageFromFile: channel: expected 1 or 3, got 4"),
    (
        build(AugmentImageComponent, DATA, imgaug.Flip(vert=True)),
        TypeError,
        "expected a list of augmentors, got Flip",
    ),
    (
        build(LMDBDataDecoder, DATA, 3),
        TypeError,
        "decoder has the wrong type .expected a function of key and value",
    ),
    (
        build(LMDBSerializer.save, DATA, "a", 0),
        ValueError,
        "write_frequency is too small .expected at least 1, got 0",
    ),
]


def name(call) -> str:
    """Return the name of the class."""
    return call.func.__name__


def raises(call, error, text):
    """Assert that a call raises an error."""
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(("call", "argument"), TOO_SMALL)
def test_numbers_below_one(call, argument):
    """A number below 1 raises ValueError, which names the argument."""
    raises(call, ValueError, f"^{name(call)}: {argument} is too small .expected at least 1, got 0")


@pytest.mark.parametrize(("call", "argument"), IS_EMPTY)
def test_empty_lists(call, argument):
    """An empty list raises ValueError."""
    raises(call, ValueError, f"^{name(call)}: {argument} is empty; expected at least one")


@pytest.mark.parametrize(("call", "argument"), NO_FUNCTION)
def test_no_function(call, argument):
    """A function that is not callable raises TypeError."""
    raises(call, TypeError, f"^{name(call)}: {argument} has the wrong type .expected a function.*got int")


@pytest.mark.parametrize("call", NO_DATAFLOW)
def test_no_dataflow(call):
    """Data that is not a DataFlow raises TypeError."""
    raises(call, TypeError, f"^{name(call)}.*: expected a DataFlow, got int")


@pytest.mark.parametrize(("call", "argument"), NO_NUMBER)
def test_no_number(call, argument):
    """A number that is missing raises TypeError."""
    raises(call, TypeError, f"^{name(call)}: {argument} has the wrong type .expected a number, got NoneType")


@pytest.mark.parametrize(("call", "error", "text"), OTHERS, ids=[text for _, _, text in OTHERS])
def test_other_mistakes(call, error, text):
    """Other wrong arguments raise an error that says what was expected."""
    raises(call, error, text)

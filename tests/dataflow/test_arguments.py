"""Wrong arguments raise an error in the constructor, which names the class and the argument."""

from __future__ import annotations

import pytest
from conformance.dataflow_rows import ROWS, Source
from fakes.reading import same

from tensorpack_lite import dataflow
from tensorpack_lite.dataflow import (
    AugmentImageComponents,
    ConcatData,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DataFromQueue,
    ImageFromFile,
    JoinData,
    LMDBDataDecoder,
    LMDBSerializer,
    MultiProcessMapDataZMQ,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadRunner,
    ProxyDataFlow,
    RandomChooseData,
    RandomMixData,
    dataset,
    imgaug,
)

DATA = Source()
LISTS = (RandomChooseData, RandomMixData, ConcatData, JoinData)
# the class, what the error says, and the arguments
OTHERS = [
    *((kind, "df_lists is empty; expected at least one", []) for kind in LISTS),
    *((kind, "expected a DataFlow, got int", [3]) for kind in LISTS),
    (ProxyDataFlow, "expected a DataFlow, got int", 3),
    (DataFromQueue, "expected a queue", [1]),
    (DataFromList, "expected a sequence.*Use DataFromGenerator", iter([])),
    (DataFromGenerator, "expected a function that returns an iterable", 3),
    (DataFromIterable, "expected an iterable", 3),
    (ImageFromFile, "files is empty; expected at least one", []),
    (ImageFromFile, "channel: expected 1 or 3, got 4", ["a"], 4),
    (imgaug.AugmentorList, "expected a list of augmentors, got Flip", imgaug.Flip(vert=True)),
    (AugmentImageComponents, "index is empty; expected at least one", DATA, [], ()),
    (LMDBDataDecoder, "decoder has the wrong type .expected a function of key and value", DATA, 3),
    (MultiThreadRunner, "num_prefetch is too small", lambda: DATA, 0, 1),
    (MultiThreadRunner, "num_thread is too small", lambda: DATA, 1, 0),
    (MultiThreadRunner, "get_df has the wrong type", 3, 1, 1),
    (MultiThreadRunner, "expected a DataFlow, got int", lambda: 3, 1, 1),
    (MultiThreadMapData, "expected a DataFlow, got int", 3, 1, same),
    (MultiThreadMapData, "num_thread has the wrong type .expected a number, got NoneType", DATA, None, same),
    (MultiProcessRunner, "expected a DataFlow, got int", 3, 4, 1),
    (MultiProcessRunnerZMQ, "expected a DataFlow, got int", 3),
    (dataset.Digits, "size is too small .expected at least 8, got 7", "train", True, 7),
    (LMDBSerializer.save, "write_frequency is too small .expected at least 1, got 0", DATA, "a", 0),
]
ROW_CASES = [(getattr(dataflow, row.name), text, DATA, *wrong) for row in ROWS for text, *wrong in row.refused]


@pytest.mark.parametrize("case", [*ROW_CASES, *OTHERS], ids=lambda case: f"{case[0].__qualname__} {case[1]}")
def test_wrong_arguments(case):
    """A wrong argument raises an error that names the class and says what was expected."""
    kind, text, *arguments = case
    with pytest.raises((TypeError, ValueError), match=rf"^{kind.__qualname__}\b.*{text}"):
        kind(*arguments)


@pytest.mark.parametrize("kind", [MultiProcessMapDataZMQ, MultiThreadMapData])
def test_buffer_size_of_a_parallel_map(kind):
    """`buffer_size` is a keyword argument, and at least 1."""
    with pytest.raises(TypeError, match="positional"):
        kind(DATA, 1, same, 200)
    with pytest.raises(ValueError, match=f"^{kind.__name__}: buffer_size is too small .expected at least 1, got 0"):
        kind(DATA, 1, same, buffer_size=0)

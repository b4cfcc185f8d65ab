"""
Tests that states which an earlier version saved are continued.

`old_states.json.gz` has states of 2eee660e, each with the datapoints that followed there. `python test_old_states.py FILE` writes such a
file with the version that is imported.
"""

from __future__ import annotations

import gzip
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.positions import from_text, passes, restored, run, text

from tensorpack_lite.dataflow import (
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFromList,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MultiThreadMapData,
    MultiThreadRunner,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RNGDataFlow,
)
from tensorpack_lite.dataflow.exact import numbered_source
from tensorpack_lite.utils.utils import fix_rng_seed

FILE = Path(__file__).with_name("old_states.json.gz")
NUM_EVENTS = 40


class Drawing(RNGDataFlow):
    """A user's class that draws."""

    def __iter__(self):
        for _ in range(7):
            yield [int(self.rng.randint(50))]


def numbers(num=8):
    """Return the numbers below `num`."""
    return DataFromList([[k] for k in range(num)], shuffle=False)


def shuffled(num=8):
    """Return the numbers below `num` in a random order."""
    return DataFromList([[k] for k in range(num)], shuffle=True)


def add_100(datapoint):
    """Return a datapoint whose number is larger by 100."""
    return [datapoint[0] + 100]


def shaped():
    """Arrays of three shapes; the third is rare."""
    return MapData(numbers(13), lambda dp: [np.full(2 if dp[0] == 1 else dp[0] % 2, dp[0])])


# name: (pipeline, whether a snapshot is taken before every datapoint, after how many events it was cut)
PIPELINES = {
    "shuffle": (lambda: LocallyShuffleData(numbers(), 5, num_reuse=3), False, (0, 1, 5, 33)),
    "shuffle, snapshots": (
        lambda: LocallyShuffleData(numbers(), 5, num_reuse=2, shuffle_interval=9),
        True,
        (4, 31),
    ),
    "shuffle, fixed size": (lambda: FixedSizeData(LocallyShuffleData(numbers(), 4), 7), True, (8, 30)),
    "shuffle over a user's class": (lambda: LocallyShuffleData(Drawing(), 20), False, (3,)),
    "by shape": (lambda: BatchDataByShape(shaped(), 2, 0), False, (0, 3, 6, 16)),
    # the datapoint of the rare shape is held so long that it is saved itself
    "by shape, snapshots": (lambda: BatchDataByShape(shaped(), 2, 0), True, (3, 7, 39)),
    "cache": (lambda: CacheData(shuffled(), shuffle=True), False, (0, 3, 8, 9, 12, 27)),
    "cache over a user's class": (lambda: CacheData(Drawing()), False, (3, 11)),
    "map": (lambda: MultiThreadMapData(numbers(), 2, add_100, buffer_size=5), True, (0, 3, 20)),
    "strict map": (
        lambda: MultiThreadMapData(numbers(), 2, add_100, buffer_size=5, strict=True),
        True,
        (0, 3, 8, 9, 20),
    ),
    "runner": (lambda: MultiThreadRunner(numbers, 4, 2), False, (0, 3, 20)),
    "repeated": (lambda: RepeatedData(numbers(5), 2), False, (0, 3, 5, 7, 10)),
    "without end": (lambda: RepeatedData(Drawing(), -1), False, (0, 7, 9)),
    "fixed size": (lambda: FixedSizeData(numbers(), 5), False, (0, 3, 5, 6, 8)),
    "batch": (lambda: BatchData(numbers(), 3, remainder=True), False, (0, 2, 3, 4)),
    "concat": (lambda: ConcatData([numbers(3), Drawing()]), False, (2, 3, 5)),
    "choose": (
        lambda: RandomChooseData([RepeatedData(numbers(), -1), RepeatedData(numbers(3), -1)]),
        False,
        (4,),
    ),
    "mix": (lambda: RandomMixData([numbers(5), numbers(4)]), False, (4, 11)),
    "join": (lambda: JoinData([shuffled(4), numbers(5)]), False, (2, 8)),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_continues_with_the_same_datapoints(name, monkeypatch):
    """A pipeline continues at each state of the earlier version with the datapoints that followed there."""
    make, is_often, cuts = PIPELINES[name]
    if is_often:
        monkeypatch.setattr(numbered_source, "_SNAPSHOT_SECONDS", 0.0)
    saved = json.loads(gzip.decompress(FILE.read_bytes()))[name]
    for cut in cuts:
        flow = restored(make, from_text(json.dumps(saved["states"][str(cut)])))
        assert saved["events"][cut:] == list(itertools.islice(passes(flow), NUM_EVENTS - cut)), f"after {cut} events"


def _write(path):
    """Write the states of this version."""
    found = {}
    for name, (make, is_often, cuts) in PIPELINES.items():
        fix_rng_seed(3)
        numbered_source._SNAPSHOT_SECONDS = 0.0 if is_often else 1e9
        events, states = run(restored(make, None), NUM_EVENTS)
        found[name] = {"events": events, "states": {cut: json.loads(text(states[cut])) for cut in cuts}}
    Path(path).write_bytes(gzip.compress(json.dumps(found).encode()))


if __name__ == "__main__":
    _write(sys.argv[1])

"""dataflow/shard.py: each datapoint goes to exactly one process, also after the number of processes has changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensorpack_lite.dataflow import (
    AugmentImageComponent,
    BatchData,
    DataFromList,
    LocallyShuffleData,
    RepeatedData,
    ShardData,
    imgaug,
)
from tensorpack_lite.dataflow.shard import deal_again
from tensorpack_lite.utils import fix_rng_seed
from tensorpack_lite.utils.random_streams import get_rng

POINTS = [[i] for i in range(60)]


def ranks(size, position=None):
    """Return the pipelines of several processes, which have different random streams."""
    flows = []
    for rank in range(size):
        fix_rng_seed(rank)
        ds = ShardData(RepeatedData(DataFromList(POINTS, shuffle=True), -1), rank, size)
        ds = RepeatedData(BatchData(ds, 12 // size), -1)
        ds.set_state(position)
        ds.reset_state()
        flows.append(ds)
    return flows


def run(flows, num):
    """Take batches from each pipeline, and return the datapoints of each step, and the position of the last process."""
    iterators = [iter(ds) for ds in flows]
    steps = [[int(i) for it in iterators for i in next(it)[0]] for _ in range(num)]
    return steps, json.loads(json.dumps(flows[-1].get_state()))


def test_other_numbers_of_processes():
    """2, then 1, then 3 processes use each datapoint exactly once in each pass, in the order of an uninterrupted training."""
    whole, _ = run(ranks(1), 30)
    steps, position = [], None
    for size, num in ((2, 7), (1, 9), (3, 14)):
        more, position = run(ranks(size, position), num)
        position = deal_again({"flow": position, "witnesses": {"1": "x"}}, (size,))["flow"]
        steps += more
    assert [sorted(step) for step in whole] == [sorted(step) for step in steps]
    for first in range(0, 30, 5):
        assert list(range(60)) == sorted(i for step in steps[first : first + 5] for i in step)


def augmented(size, position=None):
    """Return pipelines with a generator after the ShardData."""
    flows = []
    for rank in range(size):
        fix_rng_seed(10 * size + rank)
        images = [[np.full([2, 2, 3], i, np.uint8)] for i in range(60)]
        ds = ShardData(RepeatedData(DataFromList(images, shuffle=True), -1), rank, size)
        ds = BatchData(AugmentImageComponent(ds, [imgaug.Brightness(100, clip=False)]), 12 // size)
        ds.set_state(position[rank] if position else None)
        ds.reset_state()
        flows.append(ds)
    return flows


def drawn(flows):
    """Return the next random number of each pipeline's augmentor."""
    return [float(ds.ds.augs.augmentors[0].rng.rand()) for ds in flows]


def test_generators_after_shard_data():
    """With another number of processes, no two of them continue with the same generator, and none with one of before."""
    before = augmented(2)
    for ds in before:
        batches = iter(ds)
        assert 6 == len(next(batches)[0])
    position = {"flow": before[-1].get_state()}
    dealt = [deal_again(position, ("some entropy", rank))["flow"] for rank in range(3)]
    numbers = [drawn(augmented(3, dealt)), drawn(augmented(3, dealt)), drawn(before)]
    assert numbers[0] == numbers[1]
    assert 5 == len({*numbers[0], *numbers[2]})


def test_passes_of_odd_length():
    """Dealing continues from pass to pass: with 3 datapoints, each of 2 processes gets 3 of those in two passes."""
    shards = [ShardData(DataFromList([[0], [1], [2]], shuffle=False), rank, 2) for rank in range(2)]
    for ds in shards:
        ds.reset_state()
    assert [[[[0], [2]], [[1]]], [[[1]], [[0], [2]]]] == [[list(ds), list(ds)] for ds in shards]


def test_positions_that_cannot_be_dealt_out():
    """A pipeline without ShardData, or with a stage above it that holds datapoints, cannot be dealt out anew."""
    for make in (
        lambda: DataFromList(POINTS),
        lambda: LocallyShuffleData(ShardData(RepeatedData(DataFromList(POINTS), -1), 1, 2), 10),
    ):
        ds = make()
        ds.set_state(None)
        ds.reset_state()
        next(iter(ds))
        assert deal_again({"flow": ds.get_state()}, ()) is None
    assert deal_again({}, ()) is None


def test_the_position_of_the_first_of_two_processes():
    """A position inside a round of dealing belongs to one number of processes: another one is an error."""
    flow = ranks(2)[0]
    run([flow], 1)
    with pytest.raises(
        ValueError, match=r"another number of processes \(expected 3, got 2\)\. .* the last process, rank 1\."
    ):
        ranks(3, flow.get_state())


def test_a_shared_seed():
    """The seed decides about the order of the data, and the streams around it do not change."""
    fix_rng_seed(1)
    expected = get_rng().rand()
    orders = []
    for seed in (0, 0, 5):
        ds = ShardData(DataFromList(POINTS, shuffle=True), 0, 1, seed=seed)
        fix_rng_seed(1)
        ds.reset_state()
        assert expected == get_rng().rand()
        orders.append(list(ds))
    assert orders[0] == orders[1] != orders[2]


def test_share():
    """The batch of each process is its share of the total batch; one that cannot be divided is an error."""
    assert [64, 32, 1] == [ShardData.share(64, size) for size in (1, 2, 64)]
    told = "a batch of 64 cannot be divided among 3 ranks \\(expected a divisor of 64\\)"
    with pytest.raises(ValueError, match=told):
        ShardData.share(64, 3)
    for total, size in ((0, 1), (64, 0), (1, 2)):
        with pytest.raises(ValueError, match="ShardData.share"):
            ShardData.share(total, size)

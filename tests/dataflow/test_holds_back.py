"""dataflow/exact/holds_back.py: stages that yield from what they hold after their source has ended."""

from __future__ import annotations

import itertools

import pytest
from fakes.positions import check_cuts, restored

from tensorpack_lite.dataflow.exact.holds_back import HoldsBack
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.utils.random_streams import fix_rng_seed


class Delay(HoldsBack):
    """A user's class that yields each datapoint when it has read the next three."""

    def __init__(self, ds):
        super().__init__(ds, capacity=3)

    def advance(self, held, source, num_done):
        if num_done == 0:
            held.clear()
        for pair in source:
            held.append(pair)
            if len(held) > 3:
                yield held.pop(0)[1]
        while held:
            yield held.pop(0)[1]


def shuffled(num):
    return DataFromList([[k] for k in range(num)], shuffle=True)


@pytest.mark.parametrize("num", [0, 1, 3, 4, 9])
def test_cut_anywhere(num):
    """A pass that is cut while the stage yields what it still holds ends with that: the source does not begin another pass."""
    check_cuts(lambda: Delay(shuffled(num)), 25)
    check_cuts(lambda: RepeatedData(Delay(Delay(shuffled(num))), 2), 25)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_pass_left_early(is_recorded):
    """After a pass that was left early, wherever that was, comes a whole one."""
    fix_rng_seed(1)
    for num_read in range(8):
        flow = Delay(shuffled(7))
        if is_recorded:
            flow = restored(lambda: Delay(shuffled(7)), None)
        else:
            flow.reset_state()
        assert num_read == len(list(itertools.islice(flow, num_read)))
        assert list(range(7)) == sorted(k for (k,) in flow)

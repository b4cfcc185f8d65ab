"""Training runs with joint statistics: K towers or processes give the variables of one with the joint batch."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import sync_script
from fakes.launching import launch
from fakes.sync_script import BATCH, STEPS, joined, train

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

SCRIPT = sync_script.__file__
TRAINERS = {
    "ps": lambda total: SyncMultiGPUTrainerParameterServer(total, ps_device="cpu"),
    "ps-gpu": lambda total: SyncMultiGPUTrainerParameterServer(total, ps_device="gpu"),
    "replicated": lambda total: SyncMultiGPUTrainerReplicated(total, mode="gpu"),
}


def in_turn(total):
    """Yield the batches of several streams in turn; those of one step go to the towers."""
    streams = [joined([which]) for which in range(total)]
    while True:
        for stream in streams:
            yield next(stream)


def assert_equal_to_joint(values, joint, total, tolerance=1e-5):
    """Compare all variables, by the size of the largest value in each."""
    assert set(joint) == set(values)
    expected = dict(joint)
    # Of images, BatchNorm's average follows the unbiased variance; with joint statistics, the biased one.
    count = total * BATCH * 5 * 5
    name = next(name for name in joint if name.startswith("bn0") and name.endswith("variance/EMA"))
    begin = 0.9**STEPS
    expected[name] = (joint[name] - begin) * (count - 1) / count + begin
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, atol=tolerance * (np.abs(value).max() + 1e-3), err_msg=name)


def in_a_new_graph(*args):
    with tf.Graph().as_default():
        return train(*args)


@pytest.fixture(scope="module")
def joint():
    """Variables of one process after 20 steps with the batches of 2 or 3 streams, by their number."""
    return {total: in_a_new_graph(SimpleTrainer(), None, joined(range(total))) for total in (2, 3)}


class TestTowers:
    @pytest.mark.matrix
    @pytest.mark.parametrize(
        ("kind", "total"),
        [pytest.param("ps", 2, marks=pytest.mark.slow), ("replicated", 3), pytest.param("ps-gpu", 3, marks=pytest.mark.slow),
         pytest.param("replicated", 2, marks=pytest.mark.slow)],
    )  # fmt: skip
    def test_equal_one(self, joint, kind, total):
        """Weights, slots and averages equal those of one process after 20 steps."""
        values = train(TRAINERS[kind](total), "nccl", in_turn(total))
        renamed = {name.replace("apply_gradients/", ""): value for name, value in values.items()}
        assert_equal_to_joint(renamed, joint[total], total)

    @pytest.mark.slow
    def test_without(self, joint):
        """Without joint statistics the weights differ, so the tests above would notice it."""
        values = train(TRAINERS["ps"](2), None, in_turn(2))
        assert np.abs(values["conv/W"] - joint[2]["conv/W"]).max() > 1e-2

    @pytest.mark.slow
    def test_async(self):
        """Asynchronous training works with joint statistics, because its towers run together too."""
        values = train(AsyncMultiGPUTrainer(2), "nccl", in_turn(2))
        assert all(np.isfinite(value).all() for value in values.values())
        assert STEPS == values["global_step"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["collective", pytest.param("horovod", marks=pytest.mark.horovod)])
def test_ranks_equal_one(joint, engine, tmp_path):
    """Weights, slots and averages equal those of one process after 20 steps; ranks are equal to the bit."""
    ended = launch(2, SCRIPT, tmp_path, engine)
    assert 0 == ended.code, ended.out + ended.err
    first, second = (dict(np.load(str(tmp_path / f"rank-{rank}-of-2.npz"))) for rank in range(2))
    assert [] == [name for name in first if not np.array_equal(first[name], second[name])]
    assert_equal_to_joint({name.replace(".", "/"): value for name, value in first.items()}, joint[2], 2)

"""callbacks/sharded_inference.py: ranks run one after the other, the chief last. tests/train/test_sharded_inference.py starts real ranks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fakes.recording import CollectX
from fakes.trainers import ScalingTrainer, run

from tensorpack_lite.callbacks import sharded_inference
from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.sharded_inference import ShardedInferenceRunner
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.ranks.connecting import RankError
from tensorpack_lite.utils.random_streams import fix_rng_seed


class Collect(CollectX):
    """Inferencer that also fetches the cost, and reports the number of datapoints."""

    def _get_fetches(self):
        return ["x", "cost"]

    def _after_inference(self):
        return {"number": len(self.rounds[-1])}


class Channel:
    """
    Replacement for a rank's channel: it answers with the recorded values of other ranks, and records those of this rank.

    Without recorded values it answers as if all other ranks had the same values, and the chief had one result.
    """

    def __init__(self, others):
        self.others, self.said = [iter(said) for said in others], []

    def all_gather(self, name, value):
        self.said.append((name, value))
        others = [next(said) for said in self.others]
        assert all(name == theirs for theirs, _ in others), "the ranks do not meet"
        if not others and name.startswith("the results"):
            return [[[["number", 7.0]]]]
        return [value, *[theirs for _, theirs in others]]

    def gather(self, name, value):
        gathered = self.all_gather(name, value)
        return gathered if self.others else None

    def describe_with(self, describe):
        """Do nothing, because no test asks where this rank is."""


def samples(count, batch=1):
    """Return the samples 0, 1, ..., in batches, with the remainder."""
    return BatchData(DataFromList([[float(i)] for i in range(count)], shuffle=False), batch, remainder=True)


def train(rank, size, flow, infs, others=(), **arguments):
    """Train two epochs on one rank, and return the trainer."""
    with tf.Graph().as_default():
        trainer = ScalingTrainer()
        trainer.ranks = SimpleNamespace(rank=rank, size=size, channel=Channel(others))
        trainer.is_chief = rank == 0
        run(trainer, [ShardedInferenceRunner(flow, infs, **arguments)])
        assert [] == [rest for said in trainer.ranks.channel.others for rest in said]
        return trainer


def train_all(size, make_flow, infs, make_infs=lambda: Collect()):
    """Train on all ranks, the chief with these inferencers, and return the chief's trainer."""
    said = [train(rank, size, make_flow(), make_infs()).ranks.channel.said for rank in range(1, size)]
    return train(0, size, make_flow(), infs, said)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("count", "batch"), [(0, 1), (1, 1), (2, 1), (6, 1), (7, 1), (10, 4), (600, 1)])
def test_every_sample_once(size, count, batch, log_lines):
    """The chief sees every sample once and in order, for any number of ranks and datapoints, and logs their number."""
    collect = Collect()
    train_all(size, lambda: samples(count, batch), collect)

    assert 2 == len(collect.rounds)
    for seen in collect.rounds:
        assert [float(i) for i in range(count)] == [value for datapoint in seen for value in datapoint]
    counted = [line for line in log_lines if "counted" in line]
    wanted = f"counted {-(-count // batch)} datapoints, {count} samples, on {size} ranks"
    assert 2 == len(counted)
    assert all(wanted in line for line in counted)


def test_a_length_that_is_not_known():
    """If the length is not known, all ranks end when the data ends."""
    collect = Collect()
    flow = lambda: DataFromGenerator(lambda: iter([[np.float32([i])] for i in range(5)]))  # noqa: E731
    train_all(2, flow, collect)
    assert [[[0.0], [1.0], [2.0], [3.0], [4.0]]] * 2 == collect.rounds


@pytest.mark.slow
def test_numbers_are_those_of_one_process():
    """The results are those of the weights at that moment, to the bit."""
    trainer = train_all(3, lambda: samples(7, 2), ScalarStats("cost"), make_infs=lambda: ScalarStats("cost"))
    alone = run(ScalingTrainer(), [InferenceRunner(samples(7, 2), ScalarStats("cost"))])
    history = alone.monitors.get_history("validation_cost")
    assert history == trainer.monitors.get_history("validation_cost")
    assert [2, 4] == [step for step, _ in history]


def test_the_numbers_of_the_chief_are_everywhere():
    """On another rank no inferencer sees values, and its monitors get what the chief found."""
    collect = Collect()
    trainer = train(1, 2, samples(4), collect)
    assert [] == collect.rounds
    assert [(2, 7.0), (4, 7.0)] == trainer.monitors.get_history("number")


def test_alone_it_is_an_inference_runner():
    """Without other ranks, the inferencer sees every sample, and nothing is sent."""
    collect = Collect()
    run(ScalingTrainer(), [ShardedInferenceRunner(samples(3), collect)])
    assert [[[0.0], [1.0], [2.0]]] * 2 == collect.rounds
    assert [] == train(0, 1, samples(3), collect).ranks.channel.said
    assert [[[0.0], [1.0], [2.0]]] * 4 == collect.rounds


def test_how_many_run_until_they_meet(monkeypatch):
    """The first run tells the size of the values, and so how many runs are gathered at once: at most 256, and at least one."""
    said = train(1, 2, samples(600), Collect()).ranks.channel.said
    assert [1, 256, 43] == [len(value) for name, value in said if name.startswith("the values")][:3]
    monkeypatch.setattr(sharded_inference, "_BYTES_A_GATHER", 10)
    said = train(1, 2, samples(6), Collect()).ranks.channel.said
    assert [1, 1, 1, 0] == [len(value) for name, value in said if name.startswith("the values")][:4]


def test_its_tower_has_a_name():
    """`tower_name` names the inference tower, so that two runners can have different ones."""
    train(1, 2, samples(2), Collect(), tower_name="Other")


class TestErrors:
    def test_other_inputs(self):
        """Only a DataFlow can be divided."""
        with pytest.raises(TypeError, match="ShardedInferenceRunner.*DataFlow"):
            ShardedInferenceRunner(FeedInput(samples(2)), Collect())

    @pytest.mark.parametrize("others", [[5.0, 1.0, 2.0], [0.0, 1.0]], ids=["other order", "fewer"])
    def test_other_data(self, others):
        """If a rank has other data, the chief raises an error instead of a wrong result."""
        flow = DataFromList([[np.float32([i])] for i in others], shuffle=False)
        said = train(1, 2, flow, Collect()).ranks.channel.said
        with pytest.raises(RankError, match="datapoints, those of rank 1 differ from those of rank 0"):
            train(0, 2, samples(3), Collect(), [said])

    def test_less_than_its_length(self):
        """If the data ends before its length, every rank raises an error."""
        flow = DataFromList([[np.float32([i])] for i in range(3)], shuffle=False)
        flow.__class__ = type("Longer", (DataFromList,), {"__len__": lambda self: 5})
        with pytest.raises(RankError, match=r"expected 5 datapoints, its length, got 3"):
            train(1, 2, flow, Collect())


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5), np.bool_(True), np.arange(6, dtype="int64").reshape(2, 3), np.ones([0, 2], "float16"),
        b"text", np.array([[b"a", b"\xff"]], object), np.array(2 + 3j),
        tf.bfloat16.as_numpy_dtype(0.5), np.ones(3).astype(tf.bfloat16.as_numpy_dtype),
    ],
    ids=repr,
)  # fmt: skip
def test_values_travel_as_they_are(value):
    """Values of TensorFlow keep their type, shape and dtype on the way to another rank; arrays can be written to."""
    [[arrived]] = sharded_inference._unpack(sharded_inference._pack([[value]]))
    assert type(value) is type(arrived) or np.ndim(value) == 0
    assert np.asarray(value).dtype == np.asarray(arrived).dtype
    np.testing.assert_array_equal(np.asarray(value), np.asarray(arrived))
    if isinstance(arrived, np.ndarray):
        assert arrived.flags.writeable


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 2), (2, 2)])
def test_another_number_of_ranks_begins_the_next_round(before, after):
    """After a resume by another number of ranks, each rank leaves the round before the checkpoint, and has its share of the next one."""

    def shard(num_ranks, rank, state=None):
        fix_rng_seed(1)
        part = sharded_inference._Shard(DataFromList([[i] for i in range(5)], shuffle=True))
        part.num_ranks, part.rank = num_ranks, rank
        part.set_state(state)
        part.reset_state()
        return part

    chief = shard(before, 0)
    assert len(chief) == sum(1 for _ in zip(iter(chief), range(len(chief))))
    state = chief.get_state()
    for rank in range(after):
        uninterrupted, resumed = shard(after, rank), shard(after, rank, state)
        list(uninterrupted)
        iter(resumed)  # and drop it, as an input does between two rounds
        assert list(uninterrupted) == list(resumed)
        assert "state" == resumed.resume_report()[0].level

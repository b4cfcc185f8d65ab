"""train/exact/rank_states.py and total_batch.py: another number of ranks resumes a training."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import BatchData, DataFromList, MapData, RepeatedData, ShardData
from tensorpack_lite.dataflow.batch import find_batch_size
from tensorpack_lite.tfutils import random as exact_random
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.exact.state import begin_exact
from tensorpack_lite.train.collective import CollectiveTrainer
from tensorpack_lite.train.exact.rank_states import split_state
from tensorpack_lite.train.exact.total_batch import TotalBatch
from tensorpack_lite.utils.random_streams import get_rng


def save(size):
    """Return the state of a chief whose ranks all have the same generators, the worst case."""
    random.seed(1)
    np.random.seed(1)
    states = []
    for rank in range(size):
        flow = ShardData(RepeatedData(DataFromList([[0]] * 60), -1), rank, size)
        flow.set_state(None)
        flow.reset_state()
        for _ in zip(range(4), flow):
            pass
        with tf.Graph().as_default(), tf.Session():
            tf.no_op()
            exact = begin_exact(True, None)
            get_rng()
            sources = {"QueueInput": {"flow": flow.get_state(), "witnesses": {}}}
            states.append({"exact": {**exact.state(), "sources": sources, "entropy": 7}})
            exact.begin_loop()
    return json.loads(json.dumps({**states[0], "place": {}, "ranks": states[1:]}))


def draw(part, rank):
    """Resume a rank, and return what it draws from each kind of generator."""
    with tf.Graph().as_default(), tf.Session() as session:
        get_global_step_var()
        exact = begin_exact(True, part["exact"], rank)
        created, number = get_rng(), exact_random.uniform([])
        exact.begin_loop()
        session.run(tf.global_variables_initializer())
        return [random.random(), float(np.random.rand()), float(created.rand()), float(session.run(number))]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 2), (4, 1)])
def test_random_numbers_of_another_number_of_ranks(before, after):
    """All generators are new, differ between ranks and kinds, and are the same if the same checkpoint is resumed again."""
    state = save(before)
    old = draw(state, 0)
    parts, _ = split_state(state, after)
    numbers = [draw(part, rank) for rank, part in enumerate(parts)]
    assert numbers == [draw(part, rank) for rank, part in enumerate(split_state(state, after)[0])]
    everything = [*old, *(number for rank in numbers for number in rank)]
    assert len(everything) == len(set(everything))


def test_back_to_the_first_number_of_ranks():
    """A checkpoint that 2 ranks save after 3 have resumed those of 2 has other streams than the first one."""
    first = save(2)
    third = split_state(split_state(first, 3)[0][0], 2)[0]
    numbers = [draw(part, rank) for rank, part in enumerate([first, *third])]
    assert 3 * 4 == len({number for rank in numbers for number in rank})


def test_the_same_number_of_ranks():
    """Nothing changes if the number of ranks is the same, also if it saved a state that another number has resumed."""
    state = save(2)
    assert ([state, *state["ranks"]], "") == split_state(state, 2)
    parts, sentence = split_state(state, 3)
    assert "saved by 2 ranks and is resumed by 3" in sentence
    assert (parts, "") == split_state(parts[0], 3)


def test_inputs_of_validation():
    """All ranks get the chief's position of an input of validation, which needs no ShardData."""
    state, position = save(1), {"flow": {"stage": "DataFromList"}, "witnesses": {}}
    state["exact"]["sources"]["FeedInput"] = position
    assert "FeedInput: only a ShardData" in split_state(state, 2)[1]
    state["exact"]["rounds"] = ["FeedInput"]
    parts, sentence = split_state(state, 2)
    assert "only a ShardData" not in sentence
    assert [position] * 2 == [part["exact"]["sources"]["FeedInput"] for part in parts]


def test_sums_of_gradients():
    """With average=False, another number of ranks would change the steps, so it is an error; the same number is none."""
    trainer = CollectiveTrainer(average=False)
    assert trainer.state_to_resume(save(1))[0] is not None
    assert trainer.state_to_resume({"place": {}})[0] is not None
    with pytest.raises(ValueError, match="average=False adds .*expected 2 ranks as in the checkpoint, got 1"):
        trainer.state_to_resume(save(2))
    assert CollectiveTrainer().state_to_resume(save(2))[0] is not None


def test_the_batch_of_a_pipeline():
    """The number of samples in a datapoint is known from the BatchData that a pipeline contains."""
    ds = DataFromList([[0]] * 60)
    assert find_batch_size(ds) is find_batch_size(None) is None
    assert 5 == find_batch_size(MapData(BatchData(RepeatedData(ds, -1), 5), tuple))
    assert 10 == find_batch_size(BatchData(BatchData(ds, 5), 2))


@pytest.mark.parametrize(("size", "batch", "is_equal"), [(3, 4, True), (2, 6, True), (3, 6, False), (2, 4, False)])
def test_the_total_batch(log_lines, size, batch, is_equal):
    """A total batch that differs from that of the checkpoint is a warning with both numbers, and an error with "require"."""
    trainer = SimpleNamespace(size=size, steps_per_epoch=100, steps_per_update=1)
    told = f"The total batch was 12 (2 ranks, 6 each) and is {size * batch} ({size} ranks, {batch} each). The learning rate"
    for mode in (True, "require"):
        with tf.Graph().as_default():
            exact = begin_exact(mode, None)
            exact.sources["QueueInput"] = SimpleNamespace(batch_size=batch)
            saved = {"size": 2, "batch": 6}
            if mode == "require" and not is_equal:
                with pytest.raises(RuntimeError, match="ShardData.share"):
                    TotalBatch().load_state_dict(trainer, saved)
            else:
                TotalBatch().load_state_dict(trainer, saved)
            exact._setup.__exit__(None, None, None)
    assert is_equal != any(told in line for line in log_lines)


@pytest.mark.parametrize(
    ("saved_steps", "steps", "told"),
    [
        (4, 1, "48 (2 ranks, 6 each, and each update takes 4 steps) and is 12 (2 ranks, 6 each)."),
        (1, 4, "12 (2 ranks, 6 each) and is 48 (2 ranks, 6 each, and each update takes 4 steps)."),
        (4, 4, None),
        (None, 4, None),
    ],
)
def test_accumulated_steps_belong_to_the_total_batch(log_lines, saved_steps, steps, told):
    """Another number of steps of an update is another total batch; a checkpoint of earlier versions has no number."""
    trainer = SimpleNamespace(size=2, steps_per_epoch=100, steps_per_update=steps)
    saved = {"size": 2, "batch": 6, **({} if saved_steps is None else {"steps": saved_steps})}
    with tf.Graph().as_default():
        exact = begin_exact(True, None)
        exact.sources["QueueInput"] = SimpleNamespace(batch_size=6)
        TotalBatch().load_state_dict(trainer, saved)
        assert {"size": 2, "batch": 6, "steps": steps} == TotalBatch().state_dict(trainer)
        exact._setup.__exit__(None, None, None)
    lines = [line for line in log_lines if "The total batch was" in line]
    assert (told is None) == (not lines)
    assert told is None or (told in lines[0] and "AccumGradOptimizer with the same number of steps" in lines[0])

"""Inputs that are resumed at a saved position give the same datapoints as without the interruption."""

from __future__ import annotations

import pytest
from fakes.exact_inputs import running
from fakes.waiting import wait_until

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import RNGDataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.placeholder import PlaceholderInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.remap import remap_input_source
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.tensor import DummyConstantInput, TensorInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.input_source.zmq_input import ZMQInput
from tensorpack_lite.tfutils.exact.state import begin_exact
from tensorpack_lite.utils.packed_state import pack_state

SIGNATURE = [TensorSpec([None], tf.int64, "x")]
SIZE = 12


class Noisy(RNGDataFlow):
    """Yields numbers in another order in each pass, with random digits; it is replayed."""

    def __iter__(self):
        for n in self.rng.permutation(SIZE):
            yield [n * 1000 + self.rng.randint(1000)]

    def __len__(self):
        return SIZE


def shuffled():
    return BatchData(DataFromList([[n] for n in range(SIZE)], shuffle=True), 1)


def noisy():
    return BatchData(Noisy(), 1)


def dataset():
    return tf.data.Dataset.range(SIZE).shuffle(SIZE, seed=3).repeat().batch(1)


INPUTS = {
    "feed": lambda: FeedInput(noisy()),
    "queue": lambda: QueueInput(noisy()),
    "queue of samples": lambda: BatchQueueInput(Noisy(), 1),
    "staging": lambda: StagingInput(QueueInput(shuffled()), nr_stage=2),
    "remapped": lambda: StagingInput(remap_input_source(QueueInput(noisy()), ["x"])),
    "flow as dataset": lambda: TFDatasetInput(RepeatedData(noisy(), -1)),
    "dataset": lambda: TFDatasetInput(dataset()),
}


class TestTraining:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", list(INPUTS))
    def test_continues_after_the_last_used_datapoint(self, kind):
        """After each number of steps, also at the end of a pass, the resumed input gives what the other one gives."""
        states = {}
        with running(INPUTS[kind], SIGNATURE) as run:
            states[0] = run.state()
            expected = []
            while len(expected) < 3 * SIZE:
                expected += run.next()
                states[len(expected)] = run.state()

        for cut in (0, 1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE + 5):
            assert cut == states[cut]["used"]
            with running(INPUTS[kind], SIGNATURE, states[cut]) as run:
                assert states[cut]["used"] == run.state()["used"]
                assert expected[cut:] == [value for (value,) in run.take(3 * SIZE - cut)]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["feed", "queue", "staging", "flow as dataset", "dataset"])
    def test_killed_again_and_again(self, kind):
        """A training that is killed after every few steps, and sometimes before the first one, misses nothing."""
        with running(INPUTS[kind], SIGNATURE) as run:
            state = run.state()
            expected = run.take(20)
        found = []
        for num_steps in (3, 0, 0, 7, 2, 8):
            with running(INPUTS[kind], SIGNATURE, state) as run:
                found += run.take(num_steps)
                state = run.state()

        assert expected == found

    @pytest.mark.parametrize("kind", ["feed", "queue", "flow as dataset"])
    def test_a_state_right_after_a_restore(self, kind):
        """Before its first step, a resumed input saves the state that it was resumed at."""
        with running(INPUTS[kind], SIGNATURE) as run:
            run.take(7)
            state = run.state()
        with running(INPUTS[kind], SIGNATURE, state) as run:
            assert pack_state(state, "") == pack_state(run.state(), "")

    @pytest.mark.slow
    @pytest.mark.parametrize("nr_stage", [1, 2, 3])
    def test_staged_datapoints_are_not_used(self, nr_stage):
        """Two towers take turns, and what waits in the staging areas comes again."""

        def make():
            return StagingInput(QueueInput(shuffled()), nr_stage=nr_stage)

        with running(make, SIGNATURE, num_towers=2) as run:
            first = run.take(5)
            state = run.state()
            expected = run.take(9)

        assert 10 == state["used"]
        with running(make, SIGNATURE, state, num_towers=2) as run:
            assert expected == run.take(9)
        assert SIZE - 2 == len({number for step in first for number in step})

    @pytest.mark.slow
    def test_raw_runs_use_nothing(self):
        """Datapoints of the next step that a run of the raw session has seen come again."""
        with running(INPUTS["staging"], SIGNATURE, num_towers=2) as run:
            run.take(3)
            run.hooked.session.run(run.towers)
            state = run.state()
            expected = run.take(4)
        assert 6 == state["used"]
        with running(INPUTS["staging"], SIGNATURE, state, num_towers=2) as run:
            assert expected == run.take(4)

    def test_a_failed_run_uses_nothing(self):
        """The datapoints of a run that failed are used again; those of the runs before it are not."""
        for kind in ("queue", "staging"):
            with running(INPUTS[kind], SIGNATURE, num_towers=2) as run:
                run.take(3)
                x, y = (tensors[0] for tensors in run.towers)
                with pytest.raises(tf.errors.InvalidArgumentError, match="failed"):
                    with tf.control_dependencies([x, y]):
                        failing = tf.debugging.Assert(tf.less(0, 0), ["failed"])
                    run.hooked.run(failing)
                assert 6 == run.state(run.hooked.failed)["used"]
                if kind == "queue":  # staged datapoints may still be there when the run fails
                    assert 8 == run.state()["used"]

    def test_a_failed_run_of_fed_data(self):
        """A fed datapoint counts as used only if its run succeeds."""
        with running(INPUTS["feed"], SIGNATURE) as run:
            run.take(3)
            state = run.state()
            with pytest.raises(tf.errors.InvalidArgumentError):
                run.hooked.run(tf.debugging.Assert(tf.less(run.towers[0][0][0], -1), ["failed"]))
            failed = run.state()
            expected = run.take(3)

        assert 3 == failed["used"]
        for one in (state, failed):
            with running(INPUTS["feed"], SIGNATURE, one) as run:
                run.next()
                assert expected == run.take(3)

    @pytest.mark.slow
    def test_a_run_that_needs_no_data(self):
        """A run that does not need the input uses no datapoint; several runs in a step count each."""
        for kind in ("queue", "staging", "flow as dataset"):
            with running(INPUTS[kind], SIGNATURE) as run:
                counter = tf.Variable(0, collections=[], use_resource=True)
                run.session.run(counter.initializer)
                for _ in range(3):
                    run.hooked.run(counter.assign_add(1))
                assert 0 == run.state()["used"]
                run.hooked.run(run.towers[0][0])
                run.hooked.run(run.towers[0][0])
                assert 2 == run.state()["used"]

    def test_refill_queue(self):
        """After refill_queue a new pass begins, also in a training that is resumed after it."""

        def make():
            return QueueInput(BatchData(DataFromList([[n] for n in range(SIZE)], shuffle=False), 1))

        with running(make, SIGNATURE) as run:
            run.take(5)
            run.source.refill_queue()
            refilled = run.state()
            expected = run.take(7)
            later = run.state()

        assert [[n] for n in range(7)] == expected
        for state, num_done in ((refilled, 0), (later, 7)):
            with running(make, SIGNATURE, state) as run:
                assert [[n % SIZE] for n in range(num_done, 20)] == run.take(20 - num_done)

    def test_changed_data_is_found(self):
        """Data that changed between two runs is found by its first datapoint."""

        def make(offset):
            return QueueInput(BatchData(DataFromList([[n + offset] for n in range(SIZE)], shuffle=False), 1))

        with running(lambda: make(0), SIGNATURE) as run:
            run.take(3)
            wait_until(lambda: run.source._stream.last >= 20)
            state = run.state()
        with running(lambda: make(100), SIGNATURE, state) as run:
            with pytest.raises(RuntimeError, match="QueueInput: datapoint 4 is not the one that was due"):
                run.next()


class TestInference:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "make",
        [
            lambda: FeedInput(noisy(), infinite=False),
            lambda: FeedInput(noisy()),
            lambda: QueueInput(noisy()),
            lambda: TFDatasetInput(noisy()),
        ],
    )
    def test_between_and_in_rounds(self, make):
        """A round that is interrupted is repeated as a whole; rounds after it are those of an uninterrupted training."""
        states, rounds = [], []
        with running(make, SIGNATURE) as run:
            for _ in range(4):
                states.append(run.state())
                run.reset()
                rounds.append(run.take(SIZE))

        for number in range(4):
            with running(make, SIGNATURE, states[number]) as run:
                for expected in rounds[number:]:
                    run.reset()
                    assert expected == run.take(SIZE)

    def test_a_dataset(self):
        """Each round restarts a tf.data.Dataset, also the first one after a resume."""

        def make():
            return TFDatasetInput(tf.data.Dataset.range(SIZE).batch(1))

        with running(make, SIGNATURE) as run:
            run.reset()
            expected = run.take(SIZE)
            state = run.state()
        with running(make, SIGNATURE, state) as run:
            for _ in range(2):
                run.reset()
                assert expected == run.take(SIZE)


class TestReports:
    @pytest.mark.parametrize(
        ("make", "levels"),
        [
            (lambda: FeedInput(shuffled()), ["state", "state"]),
            (lambda: QueueInput(noisy()), ["state", "replay"]),
            (lambda: StagingInput(QueueInput(noisy())), ["state", "replay"]),
            (lambda: TFDatasetInput(noisy()), ["state", "replay"]),
            (lambda: TFDatasetInput(dataset()), ["replay"]),
            (lambda: DummyConstantInput([[1]]), []),
            (lambda: TensorInput(lambda: [tf.zeros([1], tf.int64)]), ["none"]),
            (PlaceholderInput, ["none"]),
            (lambda: QueueInput(noisy(), tf.FIFOQueue(5, [tf.int64])), ["none"]),
            (lambda: ZMQInput("ipc:///tmp/none", 5), ["none"]),
        ],
    )
    def test_levels(self, make, levels):
        """Each input reports its level, and a reason if it is not exact."""
        begin_exact(True, None)
        source = make()
        for callback in source.setup(SIGNATURE):
            if not isinstance(source, ZMQInput):
                callback.setup_graph(None)
        report = source.flow.resume_report()

        assert levels == [one.level for one in report]
        assert all(one.reason for one in report if one.level != "state")

    @pytest.mark.parametrize(
        "make",
        [
            lambda: DummyConstantInput([[1]]),
            lambda: TensorInput(lambda: [tf.zeros([1], tf.int64)]),
            lambda: QueueInput(shuffled(), tf.FIFOQueue(5, [tf.int64])),
        ],
    )
    def test_a_state_without_position(self, make):
        """Inputs without a position can be saved."""
        begin_exact(True, None)
        source = make()
        for callback in source.setup(SIGNATURE):
            callback.setup_graph(None)
        source.get_input_tensors()

        assert isinstance(source.flow.get_state(), dict)

"""Moving averages, and the evaluation of summaries."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.recording import RecordingCallback, RecordingMonitor
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.summary import MergeAllSummaries, MovingAverageSummary, SimpleMovingAverage
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.utils.naming import MOVING_SUMMARY_OPS_KEY


def counting(runs_per_step=1):
    """A trainer with a summary of its cost."""
    trainer = CountingTrainer(runs_per_step)
    tf.summary.scalar("c", tf.get_default_graph().get_tensor_by_name("cost:0"))
    return trainer


class TestMergeAllSummaries:
    def scalars(self, *callbacks, steps=3, epochs=2, trainer=None):
        """Train and give `(global_step, value)` of the summary."""
        monitor = RecordingMonitor()
        trainer = run(trainer or counting(), callbacks, [monitor], steps, epochs)
        return trainer.monitors.get_history("c")

    @pytest.mark.parametrize(
        ("arguments", "steps", "epochs", "expected"),
        [
            ({}, 3, 2, [(3, 20.0), (6, 50.0)]),  # with the last step of an epoch, before its update of the cost
            ({"period": 2}, 5, 1, [(2, 10.0), (4, 30.0), (5, 40.0)]),
            ({"period": 2}, 4, 1, [(2, 10.0), (4, 30.0)]),  # once, although step 4 ends a period and the epoch
            ({"run_alone": True}, 3, 2, [(3, 30.0), (6, 60.0)]),  # a run after the epoch sees the cost of the next step
            ({"period": 2, "run_alone": True}, 4, 1, [(2, 20.0), (4, 40.0)]),
            ({"key": "none"}, 3, 2, []),  # an empty collection
            ({"period": 1, "run_alone": True, "key": "none"}, 3, 2, []),
        ],
    )
    def test_when_they_are_evaluated(self, arguments, steps, epochs, expected):
        """Summaries are evaluated in the last step of each epoch and of each period, or in a separate run after it."""
        assert expected == self.scalars(MergeAllSummaries(**arguments), steps=steps, epochs=epochs)

    def test_several_runs_in_the_last_step(self):
        """If the last step has several runs, each of them evaluates the summaries."""
        assert [1, 2] == [s for s, _ in self.scalars(MergeAllSummaries(), steps=1, epochs=1, trainer=counting(2))]

    def test_another_collection(self):
        """Only the summaries of the given collection are evaluated."""
        trainer = counting()
        tf.summary.scalar("other", tf.constant(3.0), collections=["mine"])
        run(trainer, [MergeAllSummaries(key="mine")], epochs=1)

        assert [(2, 3.0)] == trainer.monitors.get_history("other")
        assert [] == trainer.monitors.get_history("c")

    def test_a_summary_that_a_user_callback_made(self):
        """Summaries that earlier callbacks create in _setup_graph are evaluated."""

        class Add(Callback):
            def _setup_graph(self) -> None:
                with tf.name_scope(None):
                    tf.summary.scalar("late", tf.constant(1.0))

        trainer = run(counting(), [Add(), MergeAllSummaries()], epochs=1)

        assert 1.0 == trainer.monitors.get_latest("late")

    def test_monitors_get_it_before_their_after_run(self):
        """Monitors receive the summary in after_run of the last step, after earlier and before later callbacks."""
        order = []

        class Monitor(RecordingMonitor):
            def process_scalar(self, name, val) -> None:
                order.append((name, self.global_step))

            def _after_run(self, ctx, run_values) -> None:
                order.append(("after_run", self.global_step))

        run(counting(), [MergeAllSummaries()], [Monitor()], steps=2, epochs=1)

        assert [("after_run", 1), ("c", 2), ("after_run", 2)] == order

    @pytest.mark.parametrize(
        ("run_alone", "name"), [(False, "MergeAllSummariesRunWithOp"), (True, "MergeAllSummariesRunAlone")]
    )
    def test_names(self, run_alone, name, fresh_graph):
        """The operations are in a scope of a known name."""
        run(counting(), [MergeAllSummaries(run_alone=run_alone)], steps=1, epochs=1)

        assert [name] == sorted(
            {op.name.split("/")[0] for op in fresh_graph.get_operations() if op.type == "MergeSummary"}
        )


class TestMovingAverageSummary:
    def trainer(self):
        """A trainer with a counter that each update of the collection increments."""
        trainer = CountingTrainer()
        self.count = tf.get_variable("count", initializer=0, trainable=False, use_resource=True)
        tf.add_to_collection(MOVING_SUMMARY_OPS_KEY, self.count.assign_add(1, read_value=False))
        return trainer

    def value(self):
        class Read(Callback):
            def _after_epoch(inner) -> None:
                inner.value = inner.trainer.sess.run(self.count)

        return Read()

    def test_every_step(self, fresh_graph):
        """The operations of the collection run with each step, grouped under a known name."""
        trainer, read = self.trainer(), self.value()
        run(trainer, [MovingAverageSummary(), read], steps=3, epochs=1)

        assert 3 == read.value
        name = "MovingAverageSummary/maintain_moving_average_summary"
        assert name == fresh_graph.get_operation_by_name(name).name

    @pytest.mark.parametrize("kind", ["operation", "name", "tensor"])
    def test_before_a_train_op(self, kind):
        """With train_op, the updates run before it and are not fetched separately."""
        trainer = self.trainer()
        read = self.value()
        target = tf.constant(1.0, name="target") + 1.0
        given = {"operation": target.op, "name": target.op.name, "tensor": target}[kind]
        trainer.train_op = [trainer.train_op, target]
        callback = MovingAverageSummary(train_op=given)
        run(trainer, [callback, read], steps=3, epochs=1)

        assert 3 == read.value
        assert callback.before_run(None) is None

    def test_an_empty_collection(self):
        """For an empty collection, nothing runs."""
        callback = MovingAverageSummary()
        run(CountingTrainer(), [callback], steps=1, epochs=1)

        assert callback.before_run(None) is None

    def test_with_summaries(self):
        """The average reported in a step includes that step's value."""
        trainer = CountingTrainer()
        add_moving_summary(tf.get_default_graph().get_tensor_by_name("cost:0"))
        run(trainer, [MovingAverageSummary(), MergeAllSummaries(1)], steps=3, epochs=1)

        weights = 0.95 ** np.arange(3)[::-1]
        expected = [0.0, 10 * 1 / (1 + 0.95), np.dot(weights, [0, 10, 20]) / weights.sum()]
        np.testing.assert_allclose([v for _, v in trainer.monitors.get_history("cost")], expected, rtol=1e-5)


class TestSimpleMovingAverage:
    @pytest.mark.parametrize("tensors", [["cost"], "cost", ["cost:0"]])
    def test_windows(self, tensors):
        """The mean of each window of two runs is reported; a single name is accepted."""
        trainer = run(CountingTrainer(), [SimpleMovingAverage(tensors, 2)], steps=5, epochs=1)

        assert [(2, 5.0), (4, 25.0)] == trainer.monitors.get_history("cost/SMA")

    def test_scalars_only(self):
        """A vector raises ValueError before training."""
        tf.constant([1.0, 2.0], name="vector")
        with pytest.raises(ValueError, match=r"SimpleMovingAverage: expected a scalar, got 'vector' of shape \(2,\)"):
            run(CountingTrainer(), [SimpleMovingAverage(["vector"], 2)])


def test_a_recorder_sees_what_it_asked_for():
    """A callback that fetches the cost along with summaries gets its own values."""
    recorder = RecordingCallback(names=["cost:0"])
    run(counting(), [MergeAllSummaries(), recorder], steps=2, epochs=1)

    assert [[0.0], [10.0]] == recorder.results

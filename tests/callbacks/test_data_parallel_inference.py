"""DataParallelInferenceRunner: running a model over a data set on several devices during training."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.recording import CollectX
from fakes.trainers import ScalingTrainer, run

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import DataParallelInferenceRunner, InferenceRunner
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.train import SyncMultiGPUTrainerReplicated


def samples(count, batch):
    """The samples 0, 1, ..., in batches, with what is left over."""
    return BatchData(DataFromList([[float(i)] for i in range(count)], shuffle=False), batch, remainder=True)


@pytest.mark.law
@pytest.mark.parametrize("towers", [3, 2, 1])
@pytest.mark.parametrize(("count", "batch"), [(10, 4), (7, 1), (3, 3), (2, 1)])
def test_every_sample_once(towers, count, batch, log_lines):
    """
    Each round evaluates every sample once and in order, for any number of towers and batch size, and logs the
    counts.
    """
    collect = CollectX()
    run(ScalingTrainer(), [DataParallelInferenceRunner(samples(count, batch), collect, towers)])

    for seen in collect.rounds:
        assert [float(i) for i in range(count)] == [value for datapoint in seen for value in datapoint]
    assert 2 == len(collect.rounds)
    counted = [line for line in log_lines if "counted" in line]
    wanted = f"counted {-(-count // batch)} datapoints, {count} samples, on {towers} towers"
    assert 2 == len(counted)
    assert all(wanted in line for line in counted)


def test_tower_names():
    """The names of the towers end in the tower's index, not in the GPU's number."""
    run(ScalingTrainer(), [DataParallelInferenceRunner(samples(2, 1), CollectX(), [3, 5], tower_name="V")])
    names = {op.name.split("/")[0] for op in tf.get_default_graph().get_operations()}
    assert {"V0", "V1"} <= names
    assert not any(name.startswith(("V3", "V5", "V2")) for name in names)


def test_no_operation_waits_but_the_input():
    """Only the input of a tower waits for the input of the tower before it."""
    run(ScalingTrainer(), [DataParallelInferenceRunner(samples(2, 1), CollectX(), 2)])
    second = [op for op in tf.get_default_graph().get_operations() if op.name.startswith("InferenceTower1/")]
    assert [] == [op.name for op in second if any("deque" in c.name for c in op.control_inputs)]


def test_registered_hooks_see_every_run():
    """Registered hooks take part in runs of all towers and of the first tower alone."""
    runs = []

    class Hook(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            runs.append(1)

    runner = DataParallelInferenceRunner(samples(5, 1), CollectX(), 2)
    runner.register_hook(Hook())
    run(ScalingTrainer(), [runner], epochs=1)
    assert 2 + 1 == len(runs)


def test_with_replicas():
    """Each tower reads the variables of the training tower on the same GPU."""
    trainer = SyncMultiGPUTrainerReplicated([2, 3])

    def model(x):
        weight = tf.get_variable("w", initializer=1.0)
        return tf.reduce_mean((weight - x) ** 2, name="cost")

    source = QueueInput(DataFromGenerator(lambda: iter(lambda: [np.float32([1.0])], None)))
    trainer.setup_graph(
        [tf.TensorSpec([None], tf.float32, "x")],
        source,
        model,
        lambda: tf.train.GradientDescentOptimizer(0.1),
    )
    run(trainer, [DataParallelInferenceRunner(samples(2, 1), ScalarStats("cost"), [3, 0])], epochs=1)
    graph = tf.get_default_graph()
    read = {
        name: {
            tensor.op.name
            for op in graph.get_operations()
            if op.name.startswith(name)
            for tensor in op.inputs
            if tensor.op.type == "VarHandleOp"
        }
        for name in ("InferenceTower0/", "InferenceTower1/")
    }
    assert {"InferenceTower0/": {"tower1/w"}, "InferenceTower1/": {"w"}} == read


def terminate():
    raise DataFlowTerminated("over")


class Ends(DataFlow):
    """Has length `size` and ends after `given` datapoints: for good, or as `end` does."""

    def __init__(self, given, size, end=terminate):
        self.given, self.size, self.end = given, size, end

    def __len__(self):
        return self.size

    def __iter__(self):
        for i in range(self.given):
            yield [np.float32([i])]
        self.end()


class TestEnd:
    @pytest.mark.law
    @pytest.mark.parametrize("given", [5, 0, 4, 6])
    def test_of_a_stream(self, given):
        """A DataFlow that ends before its size raises an error with the number of evaluated datapoints."""
        match = rf"the QueueInput ended too early \(expected 7 datapoints, got {given // 2 * 2}\)"
        with pytest.raises(RuntimeError, match=match):
            run(ScalingTrainer(), [DataParallelInferenceRunner(Ends(given, 7), CollectX(), 2)])

    def test_of_a_pass(self):
        """A pass that is shorter than the length raises an error, because datapoints of the next pass would follow."""
        flow = Ends(5, 7, lambda: None)
        with pytest.raises(RuntimeError, match="DataFlow Ends .* ended after 5 datapoints, but its size is 7"):
            run(ScalingTrainer(), [DataParallelInferenceRunner(flow, CollectX(), 2)])

    def test_by_stop_iteration(self):
        """StopIteration of an inferencer counts as the end of the input."""

        class Stop(CollectX):
            def _on_fetches(self, results):
                if len(self.rounds[-1]) == 2:
                    raise StopIteration
                super()._on_fetches(results)

        match = "DataParallelInferenceRunner 'InferenceTower': .* too early .expected 5 datapoints, got 2"
        with pytest.raises(RuntimeError, match=match):
            run(ScalingTrainer(), [DataParallelInferenceRunner(samples(5, 1), Stop(), 2)])

    def test_by_being_cancelled(self, log_lines):
        """A cancelled run raises an error and logs the number of evaluated datapoints."""

        class Cancel(CollectX):
            def _on_fetches(self, results):
                if len(self.rounds[-1]) == 4:
                    raise tf.errors.CancelledError(None, None, "cancelled")
                super()._on_fetches(results)

        with pytest.raises(tf.errors.CancelledError):
            run(ScalingTrainer(), [DataParallelInferenceRunner(samples(5, 1), Cancel(), 2)])
        assert "DataParallelInferenceRunner 'InferenceTower' was cancelled after 4 datapoints." in log_lines


class TestErrors:
    def test_other_inputs(self):
        """An input other than a queue raises TypeError."""
        with pytest.raises(TypeError, match="DataFlow or a QueueInput"):
            DataParallelInferenceRunner(FeedInput(samples(2, 1)), CollectX(), 2)

    def test_unknown_length(self):
        """An input of unknown length raises ValueError."""
        flow = DataFromGenerator(lambda: iter([[np.float32([1.0])]]))
        with pytest.raises(ValueError, match=r"number of datapoints is unknown.* len\(\)"):
            DataParallelInferenceRunner(flow, CollectX(), 2)

    def test_no_gpus(self):
        """gpus=0 raises ValueError."""
        with pytest.raises(ValueError, match=r"too few GPUs \(expected at least 1, got 0\)"):
            DataParallelInferenceRunner(samples(2, 1), CollectX(), 0)

    def test_the_same_towers_twice(self):
        """Two runners with the same tower names raise ValueError."""
        runners = [DataParallelInferenceRunner(samples(2, 1), CollectX(), 2) for _ in range(2)]
        with pytest.raises(ValueError, match="already has a tower named 'InferenceTower0'"):
            run(ScalingTrainer(), runners)

    def test_staging_in_a_single_runner(self):
        """A StagingInput raises TypeError, because it keeps datapoints for the next round."""
        with pytest.raises(TypeError, match="without staging"):
            InferenceRunner(StagingInput(QueueInput(samples(2, 1))), CollectX())

    def test_errors_of_the_data(self):
        """An error in the data ends training with that error."""

        def broken():
            yield [np.float32([1.0])]
            raise ZeroDivisionError("mine")

        flow = DataFromGenerator(broken)
        flow.__class__ = type("Sized", (DataFromGenerator,), {"__len__": lambda self: 3})
        with pytest.raises(ZeroDivisionError, match="mine"):
            run(ScalingTrainer(), [DataParallelInferenceRunner(flow, CollectX(), 2)])

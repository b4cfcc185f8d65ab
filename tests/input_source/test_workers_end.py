"""Worker processes and threads of a DataFlow end when training ends."""

from __future__ import annotations

import multiprocessing
import threading

import pytest
from fakes.trainers import run

from tensorpack_lite.callbacks.inference import Inferencer
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import NotResetError, stop_workers
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.map_and_batch import MultiProcessMapAndBatchData
from tensorpack_lite.dataflow.map_process import MultiProcessMapData
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mix import RandomMixData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.train.simple import SimpleTrainer


def numbers():
    """Return a DataFlow of 16 numbers."""
    return DataFromList([[float(k)] for k in range(16)], shuffle=False)


def same(datapoint):
    """Return the datapoint unchanged."""
    return datapoint


def processes():
    """Return a DataFlow with one worker process."""
    return MultiProcessMapData(numbers(), 1, same, buffer_size=4)


FLOWS = {
    "map": lambda: BatchData(processes(), 4),
    "runner": lambda: BatchData(MultiProcessRunner(numbers(), 4, 1), 4),
    "ZMQ": lambda: MultiProcessRunnerZMQ(BatchData(numbers(), 4), 1),
    "map and batch": lambda: MultiProcessMapAndBatchData(numbers(), 1, same, 4, buffer_size=8),
    "mix": lambda: BatchData(RandomMixData([processes(), numbers()]), 4),
    "processes in threads": lambda: BatchData(MultiThreadRunner(processes, 4, 1), 4),
    "threads": lambda: BatchData(MultiThreadMapData(numbers(), 1, same, buffer_size=4), 4),
}
INPUTS = {"QueueInput": QueueInput, "FeedInput": FeedInput, "TFDatasetInput": TFDatasetInput}


class Nothing(Inferencer):
    """An inferencer that evaluates the cost, and reports nothing."""

    def _get_fetches(self):
        return ["cost"]

    def _on_fetches(self, results) -> None:
        """Do nothing."""


def train(source, callbacks=()) -> None:
    """Train w in (w x)^2 for two epochs, in a new graph."""
    with tf.Graph().as_default():
        trainer = SimpleTrainer()
        trainer.setup_graph(
            [TensorSpec([None], tf.float32, "x")],
            source,
            lambda x: tf.reduce_mean(
                (tf.get_variable("w", [], initializer=tf.ones_initializer()) * x) ** 2, name="cost"
            ),
            lambda: tf.train.GradientDescentOptimizer(0.001),
        )
        run(trainer, list(callbacks))


@pytest.fixture
def workers():
    """Return a function that returns the worker processes and threads which the test has started, and which still run."""
    before = {*multiprocessing.active_children(), *threading.enumerate()}
    return lambda: {*multiprocessing.active_children(), *threading.enumerate()} - before


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("flow", "kind"), [*((flow, "QueueInput") for flow in FLOWS), *(("map", kind) for kind in INPUTS)]
)
def test_workers_end_with_training(workers, flow, kind):
    """When training ends, its workers have ended, without a garbage collection; a second training starts new ones."""
    df = FLOWS[flow]()
    for _ in range(2):
        train(INPUTS[kind](df))
        assert set() == {worker for worker in workers() if is_of_data(worker)}


def test_workers_of_inference_end(workers):
    """The workers of an InferenceRunner end with training, too."""
    df = BatchData(MultiProcessMapData(numbers(), 1, same, buffer_size=4, strict=True), 4)
    train(FeedInput(BatchData(numbers(), 4)), [InferenceRunner(df, [Nothing()])])
    assert set() == {worker for worker in workers() if is_of_data(worker)}


def test_workers_end_after_an_error(workers):
    """The workers end after a training that fails."""

    def fail(datapoint):
        raise ZeroDivisionError

    df = BatchData(MultiThreadMapData(processes(), 1, fail, buffer_size=4), 4)
    with pytest.raises(ZeroDivisionError):
        train(QueueInput(df))
    assert set() == {worker for worker in workers() if is_of_data(worker)}


@pytest.mark.parametrize("flow", ["map", "runner", "map and batch", "threads"])
def test_iteration_after_training(flow):
    """An iteration after training is an error, which says that the workers were stopped and what to do."""
    df = FLOWS[flow]()
    train(QueueInput(df))
    with pytest.raises(
        NotResetError,
        match=r"its workers were stopped, as at the end of a training\. Call reset_state\(\) again",
    ):
        next(iter(df))
    df.reset_state()
    assert next(iter(df))
    stop_workers(df)


@pytest.mark.parametrize("make", [lambda df: df, TFDatasetInput])
def test_inference_in_after_train(workers, make):
    """A callback can trigger an InferenceRunner that comes before it in `after_train`; the workers end nevertheless."""
    runner = InferenceRunner(
        make(BatchData(MultiThreadMapData(numbers(), 1, same, buffer_size=4, strict=True), 4)), [Nothing()]
    )
    last = CallbackFactory(after_train=lambda _: runner.trigger())
    train(FeedInput(BatchData(numbers(), 4)), [runner, last])
    assert set() == {worker for worker in workers() if is_of_data(worker)}


def is_of_data(worker) -> bool:
    """Return whether a process or thread belongs to a DataFlow, and not to the trainer."""
    return "Multi" in worker.name

"""Pipelines of every kind of worker, with a fault at their fifth datapoint, and who consumes them."""

from __future__ import annotations

import multiprocessing
import os
import time

import numpy as np
from fakes.faults import DEADLY, FAULTS

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.map_and_batch import MultiProcessMapAndBatchDataZMQ
from tensorpack_lite.dataflow.map_process import MultiProcessMapDataZMQ
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.repeat import FixedSizeData
from tensorpack_lite.dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner

__all__ = ["CONSUMERS", "PIPELINES", "iterate"]

SIZE = 40  # datapoints in a pass
FAULT_AT = 5
BATCH = 4


class Source(DataFlow):
    """Datapoints [array of four numbers]; perhaps one goes wrong."""

    def __init__(self, fault=None):
        self.fault = fault

    def __iter__(self):
        for k in range(SIZE):
            datapoint = [np.full(4, k, "float32")]
            yield self.fault.misbehave(datapoint) if self.fault and k == FAULT_AT else datapoint

    def __len__(self):
        return SIZE


class Function:
    """Gives the datapoint; one goes wrong."""

    def __init__(self, fault):
        self.fault = fault

    def __call__(self, datapoint):
        return self.fault.misbehave(datapoint) if datapoint[0][0] == FAULT_AT else datapoint


class Pipeline:
    """
    How to build a pipeline with a fault in it, that gives batches.

    Attributes:
        name: of the class that is tried; it must be named in errors of workers.
        where: "flow" or "function": what fails.
        kind: of its workers: "process", "thread", "sender"; None if the fault happens where the consumer is.
    """

    def __init__(self, name, where, kind, build):
        self.name, self.where, self.kind, self.build = name, where, kind, build

    def faults(self):
        """Those that make sense: a thread cannot die alone, nor minds what cannot be pickled."""
        names = list(FAULTS)
        if self.kind in (None, "thread"):
            names = [name for name in names if name not in DEADLY]
        if "Thread" in self.name:
            names = [name for name in names if name != "unpicklable datapoint"]
        if self.kind is None:  # the user's own process, of his own will
            names = [name for name in names if name not in ("system exit", "ctrl-c")]
        return names


def flow_or_function(where, fault):
    """The pipeline that runs in the worker of a runner."""
    use_list = fault.kind == "unpicklable datapoint"  # would not become an array
    return BatchData(
        Source(fault) if where == "flow" else MapData(Source(), Function(fault)), BATCH, use_list=use_list
    )


def runner(kind, *arguments):
    """Build a runner with processes around a pipeline that fails."""
    return lambda where, fault: kind(flow_or_function(where, fault), *arguments)


def mapping(kind, strict):
    """Build a map with workers; batches are made by the consumer."""

    def build(where, fault):
        source, function = (Source(fault), list) if where == "flow" else (Source(), Function(fault))
        return BatchData(kind(source, 2, function, buffer_size=6, strict=strict), BATCH)

    return build


def map_and_batch(where, fault):
    """Build a map that batches."""
    source, function = (Source(fault), list) if where == "flow" else (Source(), Function(fault))
    return MultiProcessMapAndBatchDataZMQ(source, 2, function, BATCH, 16)


def send(ds, address):
    """Run a sender, once the receiver is there: whom nobody has ever seen, nobody can miss."""
    from tensorpack_lite.dataflow.remote import send_dataflow_zmq

    silence = os.open(os.devnull, os.O_WRONLY)  # what it prints is read on another machine, if at all
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    time.sleep(0.5)
    send_dataflow_zmq(ds, address)


def remote(scheme):
    """Start a sender, and build the receiver."""

    def build(where, fault):
        from tensorpack_lite.dataflow.remote import RemoteDataZMQ

        address = f"ipc://{fault.directory}/data.socket" if scheme == "ipc" else free_address()
        fault.delay = 0.3  # what was sent before has arrived then
        sender = multiprocessing.Process(
            target=send, args=(flow_or_function(where, fault), address), daemon=True
        )
        sender.start()
        return RemoteDataZMQ(address, sender_timeout=1, start_timeout=5)

    return build


def free_address():
    """An address of this machine that nobody uses."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def pipelines(name, kind, build, flow_kind="same"):
    """The same with the fault in the flow and in the function."""
    return {
        "flow": Pipeline(name, "flow", kind if flow_kind == "same" else flow_kind, build),
        "function": Pipeline(name, "function", kind, build),
    }


PIPELINES = {
    "MultiProcessRunner": pipelines("MultiProcessRunner", "process", runner(MultiProcessRunner, 8, 2)),
    "MultiProcessRunnerZMQ": pipelines("MultiProcessRunnerZMQ", "process", runner(MultiProcessRunnerZMQ, 2)),
    "MultiThreadRunner": pipelines(
        "MultiThreadRunner",
        "thread",
        lambda where, fault: MultiThreadRunner(lambda: flow_or_function(where, fault), 8, 2),
    ),
    "MultiThreadMapData": pipelines("MultiThreadMapData", "thread", mapping(MultiThreadMapData, False), None),
    "strict MultiThreadMapData": pipelines(
        "MultiThreadMapData", "thread", mapping(MultiThreadMapData, True), None
    ),
    "MultiProcessMapData": pipelines(
        "MultiProcessMapData", "process", mapping(MultiProcessMapDataZMQ, False), None
    ),
    "strict MultiProcessMapData": pipelines(
        "MultiProcessMapData", "process", mapping(MultiProcessMapDataZMQ, True), None
    ),
    "MultiProcessMapAndBatchData": pipelines("MultiProcessMapAndBatchData", "process", map_and_batch),
    "RemoteDataZMQ tcp": pipelines("RemoteDataZMQ", "sender", remote("tcp")),
    "RemoteDataZMQ ipc": pipelines("RemoteDataZMQ", "sender", remote("ipc")),
}


def iterate(flow):
    """The plain loop."""
    flow.reset_state()
    for _ in range(1000):
        for _ in zip(range(1000), flow):
            pass


def train(flow):
    """A trainer behind a QueueInput."""
    from tensorpack_lite.input_source.queueing import QueueInput

    launch(QueueInput(flow), [], steps=50)


def infer(flow):
    """An InferenceRunner, in a training on data without fault."""
    from tensorpack_lite.callbacks.inference import ScalarStats
    from tensorpack_lite.callbacks.inference_runner import InferenceRunner
    from tensorpack_lite.input_source.feed import FeedInput

    callbacks = [InferenceRunner(FixedSizeData(flow, SIZE // BATCH), [ScalarStats("cost")])]
    launch(FeedInput(BatchData(Source(), BATCH)), callbacks, steps=2)


def launch(source, callbacks, steps):
    """Train a variable."""
    from tensorpack_lite.compat import TensorSpec
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.graph_builder.model_desc import ModelDesc
    from tensorpack_lite.train.config import TrainConfig
    from tensorpack_lite.train.interface import launch_train_with_config
    from tensorpack_lite.train.simple import SimpleTrainer

    class Model(ModelDesc):
        def inputs(self):
            return [TensorSpec([None, 4], tf.float32, "x")]

        def build_graph(self, x):
            return tf.reduce_mean((tf.get_variable("w", initializer=0.0) - x) ** 2, name="cost")

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.01)

    config = TrainConfig(
        model=Model(),
        data=source,
        callbacks=callbacks,
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps,
        max_epoch=100,
    )
    launch_train_with_config(config, SimpleTrainer())


CONSUMERS = {"iteration": iterate, "training": train, "inference": infer}

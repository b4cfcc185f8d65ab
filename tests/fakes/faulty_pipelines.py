"""Pipelines that fail at their fifth datapoint, with every kind of worker, and consumers of them."""

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
    """Yield datapoints [array of four numbers]. One of them may cause a fault."""

    def __init__(self, fault=None):
        self.fault = fault

    def __iter__(self):
        for k in range(SIZE):
            datapoint = [np.full(4, k, "float32")]
            yield self.fault.misbehave(datapoint) if self.fault and k == FAULT_AT else datapoint

    def __len__(self):
        return SIZE


class Function:
    """Map function that returns its datapoint unchanged, and causes the fault at one of them."""

    def __init__(self, fault):
        self.fault = fault

    def __call__(self, datapoint):
        return self.fault.misbehave(datapoint) if datapoint[0][0] == FAULT_AT else datapoint


class Pipeline:
    """
    Builder of a pipeline of batches with a fault.

    Attributes:
        name: name of the class under test, which errors of workers must contain.
        where: part that fails, "flow" or "function".
        kind: kind of its workers, "process", "thread" or "sender"; None if the fault is in the process of the consumer.
    """

    def __init__(self, name, where, kind, build):
        self.name, self.where, self.kind, self.build = name, where, kind, build

    def faults(self):
        """Return the faults that apply: a thread cannot die alone, and needs no pickle."""
        names = list(FAULTS)
        if self.kind in (None, "thread"):
            names = [name for name in names if name not in DEADLY]
        if "Thread" in self.name:
            names = [name for name in names if name != "unpicklable datapoint"]
        if self.kind is None:  # in the main process these end the program as intended
            names = [name for name in names if name not in ("system exit", "ctrl-c")]
        return names


def flow_or_function(where, fault):
    """Build the pipeline that runs in the worker of a runner."""
    use_list = fault.kind == "unpicklable datapoint"  # it cannot be stacked
    return BatchData(Source(fault) if where == "flow" else MapData(Source(), Function(fault)), BATCH, use_list=use_list)


def runner(kind, *arguments):
    """Return a function that builds a runner over a failing pipeline."""
    return lambda where, fault: kind(flow_or_function(where, fault), *arguments)


def mapping(kind, strict):
    """Return a function that builds a map with workers. The main process builds the batches."""

    def build(where, fault):
        source, function = (Source(fault), list) if where == "flow" else (Source(), Function(fault))
        return BatchData(kind(source, 2, function, buffer_size=6, strict=strict), BATCH)

    return build


def map_and_batch(where, fault):
    """Build a MultiProcessMapAndBatchData."""
    source, function = (Source(fault), list) if where == "flow" else (Source(), Function(fault))
    return MultiProcessMapAndBatchDataZMQ(source, 2, function, BATCH, 16)


def send(ds, address):
    """Run a sender. It first waits for the receiver, because a receiver only notices the loss of a sender that has connected."""
    from tensorpack_lite.dataflow.remote import send_dataflow_zmq

    silence = os.open(os.devnull, os.O_WRONLY)  # a real sender prints on another machine
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    time.sleep(0.5)
    send_dataflow_zmq(ds, address)


def remote(scheme):
    """Return a function that starts a sender and builds the receiver."""

    def build(where, fault):
        from tensorpack_lite.dataflow.remote import RemoteDataZMQ

        address = f"ipc://{fault.directory}/data.socket" if scheme == "ipc" else free_address()
        fault.delay = 0.3  # so that earlier datapoints have arrived
        sender = multiprocessing.Process(target=send, args=(flow_or_function(where, fault), address), daemon=True)
        sender.start()
        return RemoteDataZMQ(address, sender_timeout=1, start_timeout=5)

    return build


def free_address():
    """Return a free address of this machine."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def pipelines(name, kind, build, flow_kind="same"):
    """Return pipelines with the fault in the flow and in the function."""
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
    "strict MultiThreadMapData": pipelines("MultiThreadMapData", "thread", mapping(MultiThreadMapData, True), None),
    "MultiProcessMapData": pipelines("MultiProcessMapData", "process", mapping(MultiProcessMapDataZMQ, False), None),
    "strict MultiProcessMapData": pipelines(
        "MultiProcessMapData", "process", mapping(MultiProcessMapDataZMQ, True), None
    ),
    "MultiProcessMapAndBatchData": pipelines("MultiProcessMapAndBatchData", "process", map_and_batch),
    "RemoteDataZMQ tcp": pipelines("RemoteDataZMQ", "sender", remote("tcp")),
    "RemoteDataZMQ ipc": pipelines("RemoteDataZMQ", "sender", remote("ipc")),
}


def iterate(flow):
    """Iterate a DataFlow in a plain loop."""
    flow.reset_state()
    for _ in range(1000):
        for _ in zip(range(1000), flow):
            pass


def train(flow):
    """Train with a QueueInput."""
    from tensorpack_lite.input_source.queueing import QueueInput

    launch(QueueInput(flow), [], steps=50)


def infer(flow):
    """Train on data without a fault, with an InferenceRunner on the DataFlow."""
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

"""Data to be sent, a receiver that brings its own sender, and how to end a sender."""

from __future__ import annotations

import itertools
import tempfile
import threading

import numpy as np
import zmq

from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.network.curve import Gatekeeper, derive_keys
from tensorpack_lite.dataflow.network.sockets import open_socket
from tensorpack_lite.dataflow.remote import RemoteDataZMQ, send_dataflow_zmq

__all__ = ["Counting", "Failing", "Remote", "drain", "free_tcp", "receive"]


class Counting(DataFlow):
    """[array, first + k], until `ended` is set."""

    ended = False

    def __init__(self, first=0):
        self.first = first

    def __iter__(self):
        for k in itertools.count():
            if self.ended:
                raise DataFlowTerminated
            yield [np.full(2000, k, np.float32), self.first + k]


class Failing(DataFlow):
    """Three datapoints, then an exception."""

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield from ([k] for k in range(3))
        raise self.error


class SixUntilEnded(DataFlow):
    """[array, 0 to 5], pass after pass, until `ended` is set."""

    ended = False

    def __iter__(self):
        for k in range(6):
            if self.ended:
                raise DataFlowTerminated
            yield [[k, -k], k]


class Remote(RemoteDataZMQ):
    """Its sender is a thread that lives as long as a pass."""

    def __init__(self) -> None:
        self.address = f"ipc://{tempfile.mkdtemp()}/data"
        super().__init__(self.address)

    def __iter__(self):
        flow = SixUntilEnded()
        thread = threading.Thread(target=send_dataflow_zmq, args=(flow, self.address, 1))
        thread.start()
        datapoints = super().__iter__()
        try:
            yield from datapoints
        finally:
            datapoints.close()
            flow.ended = True
            drain(thread, self.address)


def drain(
    thread: threading.Thread, address: str, bound_by_sender: bool = False, secret: str | None = None
) -> None:
    """Take what a sender still has, so that it sees that it shall stop; wait until it has."""
    context = zmq.Context()
    keys = derive_keys(secret, "drain") if secret else None
    if keys is not None:
        Gatekeeper(context, keys)
    socket = open_socket(context, zmq.PULL, address, 100, not bound_by_sender, "drain", keys)
    while thread.is_alive():
        if socket.poll(10):
            socket.recv_multipart()
    thread.join()
    socket.close(0)
    context.term()


def free_tcp() -> str:
    """An address that nobody uses."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


def receive(flow, count) -> list:
    """The second components of the next datapoints; then the pass is left."""
    flow.reset_state()
    return [datapoint[1] for datapoint in itertools.islice(flow, count)]

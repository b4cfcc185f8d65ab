"""DataFlows to send, a receiver that starts its own sender, and helpers for sockets and senders."""

from __future__ import annotations

import itertools
import tempfile
import threading

import numpy as np
import zmq

from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.network.curve import Gatekeeper, derive_keys
from tensorpack_lite.dataflow.network.sockets import attach, new_socket
from tensorpack_lite.dataflow.remote import RemoteDataZMQ, send_dataflow_zmq

__all__ = ["Counting", "Failing", "Remote", "drain", "free_tcp", "open_socket", "receive"]


class Counting(DataFlow):
    """Yields datapoints [array, first + k] until `ended` is set."""

    ended = False

    def __init__(self, first=0):
        self.first = first

    def __iter__(self):
        for k in itertools.count():
            if self.ended:
                raise DataFlowTerminated
            yield [np.full(2000, k, np.float32), self.first + k]


class Failing(DataFlow):
    """Yields three datapoints, then raises an exception."""

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield from ([k] for k in range(3))
        raise self.error


class SixUntilEnded(DataFlow):
    """Yields datapoints [list, k] in passes of six until `ended` is set."""

    ended = False

    def __iter__(self):
        for k in range(6):
            if self.ended:
                raise DataFlowTerminated
            yield [[k, -k], k]


class Remote(RemoteDataZMQ):
    """A RemoteDataZMQ that starts its own sender: a thread that runs as long as a pass."""

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


def open_socket(context, kind, address, hwm, bind, who, keys=None):
    """Open one end of a connection, with the options of the library."""
    socket = new_socket(context, kind, hwm, keys)
    attach(socket, address, bind, who)
    return socket


def drain(thread: threading.Thread, address: str, bound_by_sender: bool = False, secret: str | None = None) -> None:
    """Receive the remaining messages of a sender until its thread has ended."""
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
    """Return an unused address."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


def receive(flow, count) -> list:
    """Return the second components of the next datapoints, and end the pass."""
    flow.reset_state()
    return [datapoint[1] for datapoint in itertools.islice(flow, count)]

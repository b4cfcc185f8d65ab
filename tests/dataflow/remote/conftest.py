"""Addresses, senders and strangers for the tests of data from other machines."""

from __future__ import annotations

import threading

import pytest
import zmq
from fakes.remote import Counting, drain, free_tcp

from tensorpack_lite.dataflow.remote import (
    send_dataflow_zmq,
)
from tensorpack_lite.utils.secret import find_secret


@pytest.fixture(params=["tcp", "ipc"])
def address(request, tmp_path):
    """An unused address, over TCP or as a file."""
    return free_tcp() if request.param == "tcp" else f"ipc://{tmp_path}/data"


@pytest.fixture
def ipc(tmp_path):
    """An unused address on this machine."""
    return f"ipc://{tmp_path}/data"


@pytest.fixture
def raw():
    """Return a function that connects a plain PUSH socket, as a stranger would."""
    context, sockets = zmq.Context(), []

    def connect(address):
        sockets.append(context.socket(zmq.PUSH))
        sockets[-1].connect(address)
        return sockets[-1]

    yield connect
    for socket in sockets:
        socket.close(0)
    context.term()


@pytest.fixture
def send():
    """Return a function that sends in a thread until the test ends, and returns the list of errors of the sender."""
    senders = []

    def start(address, first=0, bind=False, flow=None, **kwargs):
        flow, raised = Counting(first) if flow is None else flow, []

        def run():
            try:
                send_dataflow_zmq(flow, address, bind=bind, hwm=2, **kwargs)
            except Exception as error:  # noqa: BLE001 (the test inspects it)
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        senders.append((flow, thread, address, bind, find_secret(kwargs.get("secret"), "test")))
        return raised

    yield start
    for flow, thread, address, bind, secret in senders:
        flow.ended = True
        drain(thread, address, bind, secret)

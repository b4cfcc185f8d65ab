"""Addresses, senders and strangers for the tests of data on another machine."""

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
    """Of both kinds."""
    return free_tcp() if request.param == "tcp" else f"ipc://{tmp_path}/data"


@pytest.fixture
def ipc(tmp_path):
    """An address on this machine."""
    return f"ipc://{tmp_path}/data"


@pytest.fixture
def raw():
    """A socket of a stranger, who connects to an address and sends what he wants."""
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
    """Send in a thread of this process until the test ends; gives what the sender raised."""
    senders = []

    def start(address, first=0, bind=False, flow=None, **kwargs):
        flow, raised = Counting(first) if flow is None else flow, []

        def run():
            try:
                send_dataflow_zmq(flow, address, bind=bind, hwm=2, **kwargs)
            except Exception as error:  # noqa: BLE001 (looked at by the test)
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        senders.append((flow, thread, address, bind, find_secret(kwargs.get("secret"), "test")))
        return raised

    yield start
    for flow, thread, address, bind, secret in senders:
        flow.ended = True
        drain(thread, address, bind, secret)

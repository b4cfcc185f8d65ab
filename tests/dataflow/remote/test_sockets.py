"""Addresses, files of sockets, passes that open and close them."""

from __future__ import annotations

import os
import threading

import pytest
import zmq
from fakes.remote import Counting, free_tcp, receive

from tensorpack_lite.dataflow import remote
from tensorpack_lite.dataflow.base import DataFlowTerminated
from tensorpack_lite.dataflow.raw import DataFromGenerator
from tensorpack_lite.dataflow.remote import (
    RemoteDataZMQ,
    send_dataflow_zmq,
)


def fails_at_once():
    """A generator of nothing."""
    raise ValueError("no more")
    yield


class TestSockets:
    def test_the_file_is_removed(self, ipc, send):
        """At whichever end it was bound, when that ends."""
        path = ipc[len("ipc://") :]
        send(ipc)
        iterator = iter(RemoteDataZMQ(ipc))
        next(iterator)
        assert os.path.exists(path)
        iterator.close()
        assert not os.path.exists(path)

    def test_the_file_of_a_binding_sender_is_removed(self, ipc, monkeypatch):
        """Also after an error, of which nobody is there to be told."""
        monkeypatch.setattr(remote, "_LINGER_MS", 10)
        with pytest.raises(ValueError, match="no more"):
            send_dataflow_zmq(DataFromGenerator(fails_at_once), ipc, bind=True)
        assert not os.path.exists(ipc[len("ipc://") :])

    def test_a_file_of_the_user_is_not_deleted(self, tmp_path):
        """zmq would do it."""
        path = tmp_path / "notes.txt"
        path.write_text("precious")
        with pytest.raises(FileExistsError, match="notes.txt' is a file, and not the socket of another run"):
            next(iter(RemoteDataZMQ(f"ipc://{path}")))
        with pytest.raises(FileExistsError, match="notes.txt' is a file"):
            send_dataflow_zmq(Counting(), f"ipc://{path}", bind=True)
        assert "precious" == path.read_text()

    def test_an_address_in_use(self):
        """Names the address; nothing stays open."""
        address = free_tcp()
        with zmq.Context() as context, context.socket(zmq.PULL) as socket:
            socket.bind(address)
            with pytest.raises(
                zmq.ZMQError, match=f"RemoteDataZMQ: cannot bind to '{address}': Address already in use"
            ):
                next(iter(RemoteDataZMQ(address)))
            with pytest.raises(zmq.ZMQError, match=f"send_dataflow_zmq: cannot bind to '{address}'"):
                send_dataflow_zmq(Counting(), address, bind=True)

    def test_an_address_that_is_none(self):
        """Is an error of zmq's with the address."""
        with pytest.raises(zmq.ZMQError, match="cannot bind to 'nowhere'"):
            next(iter(RemoteDataZMQ("nowhere")))

    def test_the_next_pass(self, address, send):
        """After `break` the sockets are closed, opened again by the next pass, and senders find them."""
        send(address)
        flow = RemoteDataZMQ(address)
        assert [0, 1] == receive(flow, 2)
        (later,) = receive(flow, 1)
        assert later > 1

    def test_one_pass_at_a_time(self, ipc, send):
        """Two could not bind to one address."""
        send(ipc)
        flow = RemoteDataZMQ(ipc)
        first = iter(flow)
        next(first)
        with pytest.raises(RuntimeError, match="is being iterated already"):
            next(iter(flow))
        first.close()

    def test_a_closed_context_is_the_end(self, ipc, send):
        """DataFlowTerminated, which trainers take for the end of the data."""
        send(ipc)
        flow = RemoteDataZMQ(ipc)
        iterator = iter(flow)
        next(iterator)
        closer = threading.Thread(target=flow.context.term)
        closer.start()
        with pytest.raises(DataFlowTerminated, match="its context was closed"):
            for _ in iterator:
                pass
        closer.join()
        assert flow.context is None

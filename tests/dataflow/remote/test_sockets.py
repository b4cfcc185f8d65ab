"""Tests for addresses, files of sockets, and passes that open and close sockets."""

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
    """A generator that raises before its first value."""
    raise ValueError("no more")
    yield


class TestSockets:
    def test_the_file_is_removed(self, ipc, send):
        """The receiver removes the file of its socket when the pass ends."""
        path = ipc[len("ipc://") :]
        send(ipc)
        iterator = iter(RemoteDataZMQ(ipc))
        next(iterator)
        assert os.path.exists(path)
        iterator.close()
        assert not os.path.exists(path)

    def test_the_file_of_a_binding_sender_is_removed(self, ipc, monkeypatch):
        """A sender that binds removes the file of its socket, even after an error that no receiver gets."""
        monkeypatch.setattr(remote, "_LINGER_MS", 10)
        with pytest.raises(ValueError, match="no more"):
            send_dataflow_zmq(DataFromGenerator(fails_at_once), ipc, bind=True)
        assert not os.path.exists(ipc[len("ipc://") :])

    def test_a_file_of_the_user_is_not_deleted(self, tmp_path):
        """A file that is not a socket is a FileExistsError; ZMQ would delete it."""
        path = tmp_path / "notes.txt"
        path.write_text("precious")
        with pytest.raises(FileExistsError, match="notes.txt' is a file .expected a socket of an earlier run"):
            next(iter(RemoteDataZMQ(f"ipc://{path}")))
        with pytest.raises(FileExistsError, match="notes.txt' is a file"):
            send_dataflow_zmq(Counting(), f"ipc://{path}", bind=True)
        assert "precious" == path.read_text()

    def test_an_address_in_use(self):
        """An address in use is a ZMQError that names it, and no socket stays open."""
        address = free_tcp()
        with zmq.Context() as context, context.socket(zmq.PULL) as socket:
            socket.bind(address)
            with pytest.raises(
                zmq.ZMQError, match=f"RemoteDataZMQ: cannot bind to '{address}': Address already in use"
            ):
                next(iter(RemoteDataZMQ(address)))
            with pytest.raises(zmq.ZMQError, match=f"send_dataflow_zmq: cannot bind to '{address}'"):
                send_dataflow_zmq(Counting(), address, bind=True)

    def test_an_invalid_address(self):
        """An invalid address is a ZMQError that names it."""
        with pytest.raises(zmq.ZMQError, match="cannot bind to 'nowhere'"):
            next(iter(RemoteDataZMQ("nowhere")))

    def test_the_next_pass(self, address, send):
        """A pass that was left closes its sockets; the next pass opens them, and senders reconnect."""
        send(address)
        flow = RemoteDataZMQ(address)
        assert [0, 1] == receive(flow, 2)
        (later,) = receive(flow, 1)
        assert later > 1

    def test_a_closed_context_is_the_end(self, ipc, send):
        """Closing the context raises DataFlowTerminated, which trainers treat as the end of the data."""
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

"""Other formats, other arguments, and what strangers send."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest
from fakes.remote import Counting, free_tcp

from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.network import receiver as remote_receiver
from tensorpack_lite.dataflow.network.wire import encode_datapoint
from tensorpack_lite.dataflow.remote import (
    RemoteDataZMQ,
    send_dataflow_zmq,
)


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class EvilFlow(DataFlow):
    """One datapoint that would run code."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        yield [Evil(self.path)]
        raise DataFlowTerminated


class TestFormats:
    def test_both_sides_must_ask_for_pickle(self, ipc, send, tmp_path):
        """Pickle that comes unasked is an error, and is not read."""
        send(ipc, flow=EvilFlow(str(tmp_path / "ran")), format="pickle")
        with pytest.raises(
            RuntimeError, match="uses format='pickle', this receiver 'msgpack'. Pass the same format"
        ):
            list(RemoteDataZMQ(ipc))
        assert not os.path.exists(str(tmp_path / "ran"))

    def test_msgpack_where_pickle_is_wanted(self, ipc, send):
        """The other way round."""
        send(ipc)
        with pytest.raises(RuntimeError, match="uses format='msgpack', this receiver 'pickle'"):
            list(RemoteDataZMQ(ipc, format="pickle"))

    @pytest.mark.parametrize(
        ("format", "message"),
        [
            ("json", "format is 'json', wanted None, 'msgpack' or 'pickle'"),
            ("zmq_ops", "custom operation of TensorFlow"),
        ],
    )
    def test_other_formats(self, format, message, ipc):
        """At both ends, at once."""
        with pytest.raises(ValueError, match=f"RemoteDataZMQ: .*{message}"):
            RemoteDataZMQ(ipc, format=format)
        with pytest.raises(ValueError, match=f"send_dataflow_zmq: .*{message}"):
            send_dataflow_zmq(Counting(), ipc, format=format)

    def test_other_arguments(self, ipc):
        """What is no DataFlow; and one address twice."""
        with pytest.raises(
            TypeError, match="send_dataflow_zmq: takes a DataFlow, got list. Wrap the data first"
        ):
            send_dataflow_zmq([[1]], ipc)
        with pytest.raises(ValueError, match="addr1 and addr2 are both"):
            RemoteDataZMQ(ipc, ipc)


class TestStrangers:
    def test_noise_is_dropped_and_counted(self, address, raw, log_lines):
        """With one warning; what is good between the noise arrives."""
        flow = RemoteDataZMQ(address)
        flow.reset_state()
        socket = raw(address)
        good = encode_datapoint("me", [np.arange(3), 5])
        noise = [[b""], [b"x"] * 300, [pickle.dumps([1])], good * 2, [good[0][:-3]], [os.urandom(100000)]]
        for frames in (*noise, good):
            socket.send_multipart(frames)
        iterator = iter(flow)
        assert 5 == next(iterator)[1]
        iterator.close()
        assert len(noise) == flow.dropped
        assert 1 == len(log_lines)
        assert "Only send_dataflow_zmq of tensorpack_lite may send to" in log_lines[0]

    def test_huge_frames_are_refused(self, raw, monkeypatch, log_lines):
        """By zmq itself, before they are read: the stranger is cut off, the receiver goes on."""
        monkeypatch.setattr(remote_receiver, "MAX_BYTES", 10000)
        address = free_tcp()
        iterator = iter(RemoteDataZMQ(address))
        stranger, friend = raw(address), raw(address)
        stranger.send(b"x" * 100000)
        friend.send_multipart(encode_datapoint("me", [0, 7]))
        assert 7 == next(iterator)[1]
        iterator.close()

    def test_who_does_not_speak_zmq(self, send):
        """A port scanner neither stops the receiver nor counts as a sender for long."""
        import socket as sockets

        address = free_tcp()
        iterator = iter(RemoteDataZMQ(address))
        opened = threading.Event()

        def scan():
            host, port = address[len("tcp://") :].split(":")
            while not opened.is_set():
                try:
                    with sockets.create_connection((host, int(port))) as scanner:
                        scanner.sendall(b"GET / HTTP/1.0\r\n\r\n" * 100)
                        opened.set()
                except OSError:
                    pass

        scanner = threading.Thread(target=scan)
        scanner.start()
        send(address)
        assert 0 == next(iterator)[1]
        scanner.join()
        iterator.close()

    def test_another_version(self, ipc, raw):
        """Is an error that says what to do, and no noise."""
        socket = raw(ipc)
        good = encode_datapoint("me", [1])[0]
        socket.send(good[:3] + b"\x09" + good[4:])
        with pytest.raises(
            RuntimeError, match="a message of version 9, wanted 1. Install the same tensorpack_lite on both"
        ):
            list(RemoteDataZMQ(ipc))

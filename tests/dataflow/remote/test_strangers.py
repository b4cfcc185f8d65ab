"""Tests for messages of strangers to a receiver without a secret."""

from __future__ import annotations

import os
import pickle
import re
import threading
import time

import numpy as np
import pytest
from fakes.remote import free_tcp
from fakes.zmtp import frame, knock, shake_hands

from tensorpack_lite.dataflow.network.wire import (
    MAX_FRAME_BYTES,
    encode_datapoint,
    encode_error,
    encode_greeting,
    encode_pickle,
)
from tensorpack_lite.dataflow.remote import RemoteDataZMQ

GOOD = encode_datapoint("me", [np.arange(3), 5])
OTHER_VERSION = [GOOD[0][:3] + b"\x09" + GOOD[0][4:]]
ERROR = encode_error("host, pid 1", "MapData", ValueError("bad path"), "line 1")


def test_noise_is_dropped_and_counted(address, raw, log_lines):
    """Noise is dropped with one warning that names its origin, and datapoints in between arrive."""
    flow = RemoteDataZMQ(address)
    flow.reset_state()
    socket = raw(address)
    noise = [[b""], [b"x"] * 300, [pickle.dumps([1])], GOOD * 2, [GOOD[0][:-3]], [os.urandom(100000)]]
    for frames in (*noise, GOOD):
        socket.send_multipart(frames)
    iterator = iter(flow)
    assert 5 == next(iterator)[1]
    iterator.close()
    assert len(noise) == flow.dropped
    assert 1 == len(log_lines)
    assert "dropped a message from " in log_lines[0]
    assert "Only send_dataflow_zmq of tensorpack_lite may send to" in log_lines[0]


@pytest.mark.parametrize(
    ("frames", "warning"),
    [
        (OTHER_VERSION, "a message of version 9 .expected 2.. Install the same version of tensorpack_lite"),
        (ERROR, "an error of MapData at host, pid 1: ValueError: bad path"),
        (
            encode_pickle("host, pid 1", [1]),
            "the sender at host, pid 1 uses format='pickle', this receiver 'msgpack'",
        ),
    ],
    ids=["version", "error", "pickle"],
)
def test_a_single_message(frames, warning, address, raw, log_lines):
    """A message of another version or format, or an error, from a stranger is dropped with a warning."""
    flow = RemoteDataZMQ(address)
    stranger, friend = raw(address), raw(address)
    for _ in range(3):
        stranger.send_multipart(frames)

    def send_after_the_warning():
        while not log_lines:
            time.sleep(0.005)
        friend.send_multipart(GOOD)

    sender = threading.Thread(target=send_after_the_warning, daemon=True)
    sender.start()
    iterator = iter(flow)
    assert 5 == next(iterator)[1]
    sender.join()
    iterator.close()
    assert flow.dropped >= 1
    (line,) = log_lines
    assert re.search(warning, line)


@pytest.mark.slow
def test_the_error_without_senders_names_dropped_messages(ipc, raw):
    """If no sender connects, the error names the dropped messages, because one may be the error of a sender."""
    raw(ipc).send_multipart(ERROR)
    with pytest.raises(
        RuntimeError, match="no sender connected .* Meanwhile: 1 messages were dropped.*ValueError: bad path"
    ):
        list(RemoteDataZMQ(ipc, start_timeout=5))


@pytest.mark.parametrize("first", [encode_greeting("me"), GOOD], ids=["greeting", "datapoint"])
def test_an_error_after_a_valid_message_counts(first, address, raw):
    """The error of a peer that has greeted or has sent a datapoint is raised with its type."""
    sender = raw(address)
    sender.send_multipart(first)
    sender.send_multipart(ERROR)
    with pytest.raises(ValueError, match="MapData failed at the sender .host, pid 1.: bad path"):
        list(RemoteDataZMQ(address))


def test_peers_that_do_not_use_zmq():
    """Port scans and health probes neither stop the receiver nor delay datapoints."""
    address = free_tcp()
    flow = RemoteDataZMQ(address)
    iterator = iter(flow)
    sent, peers = threading.Event(), []

    def visit():
        while not sent.is_set():
            try:
                for _ in range(20):
                    knock(address).close()
                with knock(address) as scanner:
                    scanner.sendall(b"GET / HTTP/1.0\r\n\r\n" * 100)
                peers.append(shake_hands(address))
                peers[0].sendall(frame(GOOD[0]))
                sent.set()
            except OSError:
                time.sleep(0.01)  # the receiver has not bound yet

    visitor = threading.Thread(target=visit)
    visitor.start()
    assert 5 == next(iterator)[1]
    visitor.join()
    peers[0].close()
    iterator.close()
    assert 0 == flow.dropped


def test_frames_above_a_megabyte(raw):
    """ZMQ disconnects a peer that sends a frame above 1 MB; other peers are received."""
    address = free_tcp()
    iterator = iter(RemoteDataZMQ(address))
    stranger, friend = raw(address), raw(address)
    stranger.send(b"x" * (MAX_FRAME_BYTES + 10000))
    friend.send_multipart(GOOD)
    assert 5 == next(iterator)[1]
    iterator.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 1000000])
def test_messages_that_are_too_large(size, ipc, raw):
    """A message with too many frames or too many bytes is dropped."""
    flow = RemoteDataZMQ(ipc, max_bytes=3000000)
    stranger = raw(ipc)
    stranger.send_multipart([b"x" * size] * (20000 if size == 1 else 4))
    stranger.send_multipart(GOOD)
    iterator = iter(flow)
    assert 5 == next(iterator)[1]
    iterator.close()
    assert 1 == flow.dropped


@pytest.mark.slow
def test_a_warning_for_an_open_address(log_lines):
    """A receiver without a secret that other machines can reach logs a warning."""
    address = free_tcp().replace("127.0.0.1", "0.0.0.0")
    with pytest.raises(RuntimeError, match="no sender connected"):
        list(RemoteDataZMQ(address, start_timeout=0.01))
    assert "anyone who can connect to" in log_lines[0]
    assert "Pass secret= to" in log_lines[0]

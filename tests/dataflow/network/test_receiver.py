"""Tests for which peers count as senders, and how long a receiver waits for one."""

from __future__ import annotations

import pytest
import zmq
from fakes.remote import free_tcp, open_socket
from fakes.zmtp import knock, shake_hands

from tensorpack_lite.dataflow.network.receiver import Limits, Receiver
from tensorpack_lite.dataflow.network.wire import encode_datapoint, encode_greeting


@pytest.fixture
def receive():
    """Return a function that starts a receiver with the given timeouts at a new address."""
    receivers = []

    def start(start_timeout, sender_timeout):
        address = free_tcp()
        limits = Limits(5, 1 << 20, start_timeout, sender_timeout)
        receivers.append(Receiver([address], True, False, limits, None))
        return receivers[-1], address

    yield start
    for receiver in receivers:
        receiver.close()


@pytest.fixture
def context():
    """The ZMQ context of the senders."""
    with zmq.Context() as context:
        yield context


@pytest.mark.slow
@pytest.mark.parametrize("connect", [knock, shake_hands])
def test_a_connection_is_not_a_sender(connect, receive):
    """A TCP connection, with or without a ZMQ handshake, does not change `start_timeout`."""
    receiver, address = receive(0.5, 0.001)
    connect(address).close()
    with pytest.raises(RuntimeError, match="no sender connected to .* within 0.5 seconds"):
        receiver.next()


@pytest.mark.slow
def test_a_silent_connection_is_not_a_sender(receive):
    """A peer that completes the handshake and sends nothing does not count as a sender."""
    receiver, address = receive(0.5, 0.001)
    with shake_hands(address):
        with pytest.raises(RuntimeError, match="no sender connected to"):
            receiver.next()


@pytest.mark.slow
@pytest.mark.parametrize("frames", [encode_greeting("me"), encode_datapoint("me", [1])], ids=["greeting", "datapoint"])
def test_a_sender_that_disconnects(frames, receive, context):
    """A peer that greets or sends a datapoint is a sender; RuntimeError follows `sender_timeout` after it disconnects."""
    receiver, address = receive(300, 0.3)
    sender = open_socket(context, zmq.PUSH, address, 5, False, "test")
    sender.setsockopt(zmq.LINGER, 5000)
    sender.send_multipart(frames)
    sender.close()
    with pytest.raises(
        RuntimeError, match="all senders of .* have vanished, .* within 0.3 seconds.*last message was from me"
    ):
        receiver.next() and receiver.next()


@pytest.mark.slow
def test_a_silent_stranger_does_not_replace_a_sender(receive, context):
    """After the sender has disconnected, a silent connection extends the wait only to `start_timeout`."""
    receiver, address = receive(0.5, 0.001)
    sender = open_socket(context, zmq.PUSH, address, 5, False, "test")
    sender.send_multipart(encode_greeting("me"))
    sender.send_multipart(encode_datapoint("me", [1]))
    assert (0, [1]) == receiver.next()
    with shake_hands(address):
        sender.close()
        with pytest.raises(RuntimeError, match="all senders of .* have vanished, .* within 0.5 seconds"):
            receiver.next()

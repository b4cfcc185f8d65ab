"""The sockets of a receiver."""

from __future__ import annotations

import pytest
import zmq

from tensorpack_lite.dataflow.network.receiver import Receiver


def test_a_sender_that_came_and_went_between_two_looks(tmp_path):
    """Was there: that it is gone is what the error says, not that nobody came."""
    address = f"ipc://{tmp_path}/socket"
    receiver = Receiver([address], 5, True, False, (3, 0.5))
    context = zmq.Context()
    sender = context.socket(zmq.PUSH)
    sender.connect(address)
    assert sender.poll(5000, zmq.POLLOUT)  # connected
    sender.close(0)
    context.term()
    try:
        assert receiver._ends[0].monitor.poll(5000)
        with pytest.raises(RuntimeError, match="all senders of .* have vanished"):
            receiver.next()
    finally:
        receiver.close()

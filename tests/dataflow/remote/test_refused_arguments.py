"""Tests for formats and arguments that are refused."""

from __future__ import annotations

import os

import pytest
from fakes.remote import Counting

from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.remote import (
    RemoteDataZMQ,
    send_dataflow_zmq,
)


class Evil:
    """An object that runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class EvilFlow(DataFlow):
    """A DataFlow of one datapoint that runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        yield [Evil(self.path)]
        raise DataFlowTerminated


class TestFormats:
    def test_both_ends_must_ask_for_pickle(self, ipc, send, tmp_path):
        """A sender that uses pickle, unlike the receiver, is an error, and the pickle is not loaded."""
        send(ipc, flow=EvilFlow(str(tmp_path / "ran")), format="pickle")
        with pytest.raises(RuntimeError, match="uses format='pickle', this receiver 'msgpack'. Pass the same format"):
            list(RemoteDataZMQ(ipc))
        assert not os.path.exists(str(tmp_path / "ran"))

    def test_msgpack_to_a_receiver_of_pickle(self, ipc, send):
        """A receiver that expects pickle raises an error for msgpack."""
        send(ipc)
        with pytest.raises(RuntimeError, match="uses format='msgpack', this receiver 'pickle'"):
            list(RemoteDataZMQ(ipc, format="pickle"))

    @pytest.mark.parametrize("format", ["json", "zmq_ops"])
    def test_other_formats(self, format, ipc):
        """An unknown format is a ValueError at both ends, at once."""
        message = f"format is unknown .expected None, 'msgpack' or 'pickle', got '{format}'"
        with pytest.raises(ValueError, match=f"RemoteDataZMQ: {message}"):
            RemoteDataZMQ(ipc, format=format)
        with pytest.raises(ValueError, match=f"send_dataflow_zmq: {message}"):
            send_dataflow_zmq(Counting(), ipc, format=format)

    def test_other_arguments(self, ipc):
        """Data that is not a DataFlow is a TypeError; two equal addresses are a ValueError."""
        with pytest.raises(TypeError, match="send_dataflow_zmq: expected a DataFlow, got list. Wrap the data first"):
            send_dataflow_zmq([[1]], ipc)
        with pytest.raises(ValueError, match="addr1 and addr2 are both"):
            RemoteDataZMQ(ipc, ipc)

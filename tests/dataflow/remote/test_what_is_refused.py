"""Formats and arguments that are refused."""

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
        """A sender that uses pickle, unlike the receiver, is an error; the pickle is not read."""
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
            ("json", "the format is unknown .expected None, 'msgpack' or 'pickle', got 'json'"),
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

"""Tests for the import of ZMQ at its first use."""

from __future__ import annotations

import sys

import pytest

from tensorpack_lite.dataflow import DataFromList, RemoteDataZMQ, send_dataflow_zmq
from tensorpack_lite.dataflow.network.pyzmq import load_zmq


def test_the_module():
    """The module `zmq` is returned, with its monitor."""
    zmq = pytest.importorskip("zmq")
    assert zmq is load_zmq()
    assert callable(load_zmq().utils.monitor.recv_monitor_message)


@pytest.mark.parametrize(
    "use",
    [
        load_zmq,
        lambda: RemoteDataZMQ("tcp://127.0.0.1:1"),
        lambda: send_dataflow_zmq(DataFromList([[1]]), "tcp://127.0.0.1:1"),
    ],
)
def test_without_pyzmq(use, monkeypatch):
    """Without pyzmq, the constructor raises an ImportError with the command that installs it."""
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(ImportError, match="Data from other machines: needs ZMQ, .* Run: pip install pyzmq"):
        use()

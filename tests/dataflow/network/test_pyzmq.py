"""ZMQ, which only data of other machines needs."""

from __future__ import annotations

import sys

import pytest

from tensorpack_lite.dataflow import DataFromList, RemoteDataZMQ, send_dataflow_zmq
from tensorpack_lite.dataflow.network.pyzmq import load_zmq


def test_the_module():
    """It is the module itself, with its monitor."""
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
def test_where_it_is_absent(use, monkeypatch):
    """The command that installs it, in the process of the script and not in a worker."""
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(ImportError, match="Data of other machines: needs ZMQ, .* Run: pip install pyzmq"):
        use()

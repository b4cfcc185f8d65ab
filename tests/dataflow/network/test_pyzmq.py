"""Tests for the import of ZMQ at its first use."""

from __future__ import annotations

import pytest

from tensorpack_lite.dataflow.network.pyzmq import load_zmq


def test_the_module():
    """The module `zmq` is returned, with its monitor."""
    zmq = pytest.importorskip("zmq")
    assert zmq is load_zmq()
    assert callable(load_zmq().utils.monitor.recv_monitor_message)

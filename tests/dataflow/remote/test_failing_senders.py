"""Tests for senders that fail, die or never connect, over real sockets and with real processes where needed."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import time

import pytest
import zmq
from fakes.remote import Counting, Failing, receive
from fakes.waiting import wait_until

from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.remote import (
    RemoteDataZMQ,
    send_dataflow_zmq,
)

FORK = multiprocessing.get_context("fork")


class OddError(Exception):
    """An exception whose constructor takes three arguments."""

    def __init__(self, one, two, three):
        super().__init__(f"{one} {two} {three}")


class _Stops:
    """An iterator that raises an exception named StopIteration, as a generator function cannot."""

    def __iter__(self):
        return self

    def __next__(self):
        raise OddStop


class OddStop(Exception):
    """An exception with the name of one that ends loops."""


OddStop.__name__ = "StopIteration"


def fails_with_stop_iteration():
    """Return an iterator whose error is named StopIteration."""
    return _Stops()


def send_quietly(flow, address) -> None:
    """Send without a report in the log of the tests if this process crashes on purpose."""
    faulthandler.disable()
    send_dataflow_zmq(flow, address)


def in_process(flow, address) -> multiprocessing.Process:
    """Start a sender in another process."""
    process = FORK.Process(target=send_quietly, args=(flow, address))
    process.start()
    return process


class TestSendersFail:
    @pytest.mark.parametrize(
        ("error", "kind", "text"),
        [
            (ValueError("a bad file"), ValueError, "a bad file"),
            (KeyError("label"), KeyError, "'label'"),
            (OddError(1, 2, 3), RuntimeError, "OddError: 1 2 3"),
            (
                UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
                RuntimeError,
                "UnicodeDecodeError: 'utf-8' codec",
            ),
            (zmq.ZMQError(2, "odd"), RuntimeError, "ZMQError: odd"),
        ],
        ids=lambda x: type(x).__name__ if isinstance(x, Exception) else "",
    )
    def test_the_error_arrives(self, error, kind, text, address, send):
        """An error arrives after earlier datapoints; it names stage, machine and process, with the traceback as cause."""
        raised = send(address, flow=Failing(error))
        flow = RemoteDataZMQ(address)
        flow.reset_state()
        found = []
        with pytest.raises(kind) as caught:
            found.extend(datapoint[0] for datapoint in flow)
        assert kind is type(caught.value)
        assert [] == found or [0, 1, 2] == found
        where = rf"RemoteDataZMQ: Failing failed at the sender \(.+, pid {os.getpid()}\): "
        assert re.search(where, str(caught.value))
        assert text in str(caught.value)
        assert "raise self.error" in str(caught.value.__cause__)
        wait_until(lambda: raised)
        assert [error] == raised

    def test_an_error_that_would_end_a_loop(self, ipc, send):
        """An error named StopIteration becomes a RuntimeError instead of the end of the data."""
        send(ipc, flow=DataFromGenerator(fails_with_stop_iteration))
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(RemoteDataZMQ(ipc))

    def test_a_datapoint_that_cannot_be_sent(self, ipc, send):
        """A datapoint that cannot be sent is an error at both ends."""
        raised = send(ipc, flow=DataFromList([[{1, 2}]], shuffle=False))
        with pytest.raises(TypeError, match=r"a datapoint holds set \{1, 2\}. Send numbers, strings"):
            list(RemoteDataZMQ(ipc))
        wait_until(lambda: raised)
        assert TypeError is type(raised[0])

    def test_a_datapoint_that_is_too_large(self, ipc, send):
        """A datapoint above `max_bytes` is an error at both ends."""
        raised = send(ipc, flow=Counting(), max_bytes=5000)
        with pytest.raises(ValueError, match=r"a datapoint is too large \(expected at most 5000 bytes, got 80"):
            list(RemoteDataZMQ(ipc))
        wait_until(lambda: raised)
        assert ValueError is type(raised[0])

    def test_an_empty_dataflow(self, ipc, send):
        """An empty DataFlow is an error, because the sender would loop without sending."""
        send(ipc, flow=DataFromList([]))
        with pytest.raises(RuntimeError, match="DataFromList yielded no datapoint in a whole pass"):
            list(RemoteDataZMQ(ipc))

    @pytest.mark.slow
    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSEGV])
    def test_a_sender_that_is_killed(self, end, address, log_lines):
        """A killed sender is logged at once, and after `sender_timeout` an error names it."""
        flow = RemoteDataZMQ(address, sender_timeout=1.0)
        sender = in_process(Counting(), address)
        iterator = iter(flow)
        next(iterator)
        os.kill(sender.pid, end)
        sender.join()
        began = time.monotonic()
        with pytest.raises(
            RuntimeError, match=f"all senders of .* have vanished, .* within 1 seconds.*pid {sender.pid}"
        ):
            for _ in iterator:
                pass
        assert time.monotonic() - began < 4
        assert [f"RemoteDataZMQ: a sender of {address} has disconnected, 0 left."] == log_lines

    @pytest.mark.slow
    def test_another_sender_takes_over(self, address, log_lines):
        """A new sender may replace a killed one within `sender_timeout`."""
        flow = RemoteDataZMQ(address, sender_timeout=30)
        first = in_process(Counting(0), address)
        iterator = iter(flow)
        next(iterator)
        first.kill()
        first.join()
        second = in_process(Counting(10**6), address)
        for _, number in iterator:
            if number >= 10**6:
                break
        second.kill()
        second.join()
        iterator.close()

    @pytest.mark.slow
    def test_no_sender(self, ipc):
        """Without any sender, RuntimeError is raised after `start_timeout`."""
        with pytest.raises(
            RuntimeError, match="no sender connected to ipc://.* within 0.1 seconds. Run send_dataflow_zmq"
        ):
            list(RemoteDataZMQ(ipc, start_timeout=0.1))

    @pytest.mark.slow
    def test_the_sender_waits_for_the_receiver(self, address, send):
        """A sender that starts first waits for the receiver."""
        send(address)
        time.sleep(0.5)
        assert [0, 1, 2] == receive(RemoteDataZMQ(address), 3)

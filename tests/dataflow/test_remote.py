"""Data on another machine: real sockets, and real processes for what only they can do."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time

import numpy as np
import pytest
import zmq
from fakes.remote import drain

from tensorpack_lite.dataflow import remote
from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.network import receiver as remote_receiver
from tensorpack_lite.dataflow.network.wire import encode_datapoint
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.remote import (
    RemoteDataZMQ,
    dump_dataflow_to_process_queue,
    send_dataflow_zmq,
)
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.ordering import DIE

FORK = multiprocessing.get_context("fork")


class Counting(DataFlow):
    """[array, first + k], until `ended` is set."""

    ended = False

    def __init__(self, first=0):
        self.first = first

    def __iter__(self):
        for k in itertools.count():
            if self.ended:
                raise DataFlowTerminated
            yield [np.full(2000, k, np.float32), self.first + k]


class Passes(Counting):
    """Passes of three."""

    def __iter__(self):
        yield from itertools.islice(super().__iter__(), 3)


class OneArray(Counting):
    """The same array again and again, with other values."""

    def __iter__(self):
        array = np.zeros(50000)
        for _, k in super().__iter__():
            array[:] = k
            yield [array, k]


class Failing(DataFlow):
    """Three datapoints, then an exception."""

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield from ([k] for k in range(3))
        raise self.error


class OddError(Exception):
    """Its constructor takes three arguments."""

    def __init__(self, one, two, three):
        super().__init__(f"{one} {two} {three}")


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture(params=["tcp", "ipc"])
def address(request, tmp_path):
    """Of both kinds."""
    return free_tcp() if request.param == "tcp" else f"ipc://{tmp_path}/data"


@pytest.fixture
def ipc(tmp_path):
    """An address on this machine."""
    return f"ipc://{tmp_path}/data"


@pytest.fixture
def warned(monkeypatch):
    """What was warned of."""
    lines = []
    monkeypatch.setattr(logger, "warning", lines.append)
    return lines


@pytest.fixture
def raw():
    """A socket of a stranger, who connects to an address and sends what he wants."""
    context, sockets = zmq.Context(), []

    def connect(address):
        sockets.append(context.socket(zmq.PUSH))
        sockets[-1].connect(address)
        return sockets[-1]

    yield connect
    for socket in sockets:
        socket.close(0)
    context.term()


@pytest.fixture
def send():
    """Send in a thread of this process until the test ends; gives what the sender raised."""
    senders = []

    def start(address, first=0, bind=False, flow=None, **kwargs):
        flow, raised = Counting(first) if flow is None else flow, []

        def run():
            try:
                send_dataflow_zmq(flow, address, bind=bind, hwm=2, **kwargs)
            except Exception as error:  # noqa: BLE001 (looked at by the test)
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        senders.append((flow, thread, address, bind))
        return raised

    yield start
    for flow, thread, address, bind in senders:
        flow.ended = True
        drain(thread, address, bind)


def free_tcp() -> str:
    """An address that nobody uses."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


def receive(flow, count) -> list:
    """The second components of the next datapoints; then the pass is left."""
    flow.reset_state()
    return [datapoint[1] for datapoint in itertools.islice(flow, count)]


def in_process(flow, address) -> multiprocessing.Process:
    """A sender in a process of its own."""
    process = FORK.Process(target=send_dataflow_zmq, args=(flow, address))
    process.start()
    return process


class TestDatapoints:
    @pytest.mark.parametrize("format", [None, "msgpack", "pickle"])
    def test_they_arrive_in_order(self, format, address, send):
        """With their arrays, whichever format both sides use."""
        send(address, format=format)
        flow = RemoteDataZMQ(address, format=format)
        flow.reset_state()
        for k, (array, number) in enumerate(itertools.islice(flow, 30)):
            assert k == number
            np.testing.assert_array_equal(np.full(2000, k, np.float32), array)
            array += 1  # can be written to

    def test_pass_after_pass(self, ipc, send):
        """The sender begins its DataFlow again when it ends."""
        send(ipc, flow=Passes())
        assert [0, 1, 2, 0, 1, 2, 0] == receive(RemoteDataZMQ(ipc), 7)

    def test_several_senders(self, address, send):
        """All of them arrive at one receiver, each in its order."""
        for first in (0, 10**6, 2 * 10**6):
            send(address, first)
        found, flow = {0: [], 1: [], 2: []}, RemoteDataZMQ(address)
        flow.reset_state()
        for _, number in flow:
            found[number // 10**6].append(number % 10**6)
            if min(len(numbers) for numbers in found.values()) >= 5:
                break
        assert all(list(range(len(numbers))) == numbers for numbers in found.values())

    def test_the_sender_binds(self, address, send):
        """And the receiver connects."""
        send(address, bind=True)
        assert [0, 1, 2] == receive(RemoteDataZMQ(address, bind=False), 3)

    def test_two_addresses_are_counted(self, ipc, send):
        """`cnt1` and `cnt2` count what was consumed, of each."""
        tcp = free_tcp()
        send(ipc, 0)
        send(tcp, 10**6)
        flow = RemoteDataZMQ(ipc, tcp)
        flow.reset_state()
        seen = [0, 0]
        for _, number in flow:
            assert tuple(seen) == (flow.cnt1, flow.cnt2)  # the one in hand is not consumed yet
            seen[number // 10**6] += 1
            if min(seen) >= 3:
                break
        assert sum(seen) - 1 == flow.cnt1 + flow.cnt2
        flow.reset_state()
        assert (0, 0) == (flow.cnt1, flow.cnt2)

    def test_a_batch_of_them(self, ipc, send):
        """It has no length, and batches can be made of it."""
        send(ipc)
        flow = BatchData(RemoteDataZMQ(ipc), 4)
        with pytest.raises(NotImplementedError):
            len(flow)
        flow.reset_state()
        iterator = iter(flow)
        assert [0, 1, 2, 3] == next(iterator)[1].tolist()
        iterator.close()

    def test_the_memory_of_the_sender_may_be_used_again(self, ipc, send):
        """A DataFlow that gives the same array again and again, with other values."""
        send(ipc, flow=OneArray())
        flow = RemoteDataZMQ(ipc)
        flow.reset_state()
        for array, number in itertools.islice(flow, 20):
            assert (number, number) == (array.min(), array.max())

    def test_it_can_be_pickled(self, ipc, send):
        """To be received in a worker process."""
        send(ipc)
        assert [0, 1] == receive(pickle.loads(pickle.dumps(RemoteDataZMQ(ipc))), 2)


class TestSockets:
    def test_the_file_is_removed(self, ipc, send):
        """At whichever end it was bound, when that ends."""
        path = ipc[len("ipc://") :]
        send(ipc)
        iterator = iter(RemoteDataZMQ(ipc))
        next(iterator)
        assert os.path.exists(path)
        iterator.close()
        assert not os.path.exists(path)

    def test_the_file_of_a_binding_sender_is_removed(self, ipc, monkeypatch):
        """Also after an error, of which nobody is there to be told."""
        monkeypatch.setattr(remote, "_LINGER_MS", 10)
        with pytest.raises(ValueError, match="no more"):
            send_dataflow_zmq(DataFromGenerator(fails_at_once), ipc, bind=True)
        assert not os.path.exists(ipc[len("ipc://") :])

    def test_a_file_of_the_user_is_not_deleted(self, tmp_path):
        """zmq would do it."""
        path = tmp_path / "notes.txt"
        path.write_text("precious")
        with pytest.raises(FileExistsError, match="notes.txt' is a file, and not the socket of another run"):
            next(iter(RemoteDataZMQ(f"ipc://{path}")))
        with pytest.raises(FileExistsError, match="notes.txt' is a file"):
            send_dataflow_zmq(Counting(), f"ipc://{path}", bind=True)
        assert "precious" == path.read_text()

    def test_an_address_in_use(self):
        """Names the address; nothing stays open."""
        address = free_tcp()
        with zmq.Context() as context, context.socket(zmq.PULL) as socket:
            socket.bind(address)
            with pytest.raises(
                zmq.ZMQError, match=f"RemoteDataZMQ: cannot bind to '{address}': Address already in use"
            ):
                next(iter(RemoteDataZMQ(address)))
            with pytest.raises(zmq.ZMQError, match=f"send_dataflow_zmq: cannot bind to '{address}'"):
                send_dataflow_zmq(Counting(), address, bind=True)

    def test_an_address_that_is_none(self):
        """Is an error of zmq's with the address."""
        with pytest.raises(zmq.ZMQError, match="cannot bind to 'nowhere'"):
            next(iter(RemoteDataZMQ("nowhere")))

    def test_the_next_pass(self, address, send):
        """After `break` the sockets are closed, opened again by the next pass, and senders find them."""
        send(address)
        flow = RemoteDataZMQ(address)
        assert [0, 1] == receive(flow, 2)
        (later,) = receive(flow, 1)
        assert later > 1

    def test_one_pass_at_a_time(self, ipc, send):
        """Two could not bind to one address."""
        send(ipc)
        flow = RemoteDataZMQ(ipc)
        first = iter(flow)
        next(first)
        with pytest.raises(RuntimeError, match="is being iterated already"):
            next(iter(flow))
        first.close()

    def test_a_closed_context_is_the_end(self, ipc, send):
        """DataFlowTerminated, which trainers take for the end of the data."""
        send(ipc)
        flow = RemoteDataZMQ(ipc)
        iterator = iter(flow)
        next(iterator)
        closer = threading.Thread(target=flow.context.term)
        closer.start()
        with pytest.raises(DataFlowTerminated, match="its context was closed"):
            for _ in iterator:
                pass
        closer.join()
        assert flow.context is None


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
        """Behind the datapoints before it; with stage, machine, process, and the traceback as its cause."""
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
        wait_for(lambda: raised)
        assert [error] == raised

    def test_an_error_that_stops_loops_is_an_error(self, ipc, send):
        """A StopIteration would be taken for the end of the data."""
        send(ipc, flow=DataFromGenerator(fails_with_stop_iteration))
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(RemoteDataZMQ(ipc))

    def test_what_cannot_be_sent(self, ipc, send):
        """Is an error at both ends."""
        raised = send(ipc, flow=DataFromList([[{1, 2}]], shuffle=False))
        with pytest.raises(TypeError, match=r"a datapoint holds set \{1, 2\}. Send numbers, strings"):
            list(RemoteDataZMQ(ipc))
        wait_for(lambda: raised)
        assert TypeError is type(raised[0])

    def test_an_array_too_large(self, ipc, send, monkeypatch):
        """zmq would drop the connection, again and again."""
        monkeypatch.setattr(remote, "MAX_BYTES", 5000)
        send(ipc, flow=Counting())
        with pytest.raises(ValueError, match="one array has 8000 bytes, wanted 5000 at most"):
            list(RemoteDataZMQ(ipc))

    def test_an_empty_dataflow(self, ipc, send):
        """Would be a busy loop."""
        send(ipc, flow=DataFromList([]))
        with pytest.raises(ValueError, match="DataFromList is empty; there is nothing to send"):
            list(RemoteDataZMQ(ipc))

    @pytest.mark.slow
    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSEGV])
    def test_a_sender_that_is_killed(self, end, address, warned):
        """Is told at once, and an error after `sender_timeout`, which names it."""
        flow = RemoteDataZMQ(address, sender_timeout=1.0)
        sender = in_process(Counting(), address)
        iterator = iter(flow)
        next(iterator)
        os.kill(sender.pid, end)
        sender.join()
        began = time.monotonic()
        with pytest.raises(
            RuntimeError, match=f"all senders of .* have vanished, for 1 seconds.*pid {sender.pid}"
        ):
            for _ in iterator:
                pass
        assert time.monotonic() - began < 4
        assert [f"RemoteDataZMQ: a sender of {address} has gone, 0 left."] == warned

    @pytest.mark.slow
    def test_another_sender_takes_over(self, address, warned):
        """While there is one, nothing is wrong; and a new one may come within the time."""
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

    def test_nobody_comes(self, ipc):
        """Is an error as well, after `start_timeout`."""
        with pytest.raises(
            RuntimeError, match="no sender came to ipc://.* for 0.1 seconds. Run send_dataflow_zmq"
        ):
            list(RemoteDataZMQ(ipc, start_timeout=0.1))

    @pytest.mark.slow
    def test_the_sender_waits_for_the_receiver(self, address, send):
        """Started first, or left alone for a while: it goes on."""
        send(address)
        time.sleep(0.5)
        assert [0, 1, 2] == receive(RemoteDataZMQ(address), 3)


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
    def test_noise_is_dropped_and_counted(self, address, raw, warned):
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
        assert 1 == len(warned)
        assert "Only send_dataflow_zmq of tensorpack_lite may send to" in warned[0]

    def test_huge_frames_are_refused(self, raw, monkeypatch, warned):
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


class EvilFlow(DataFlow):
    """One datapoint that would run code."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        yield [Evil(self.path)]
        raise DataFlowTerminated


def fails_at_once():
    """A generator of nothing."""
    raise ValueError("no more")
    yield


class _Stops:
    """Raises StopIteration from where a generator function could not."""

    def __iter__(self):
        return self

    def __next__(self):
        raise OddStop


class OddStop(Exception):
    """Named like what ends a loop."""


OddStop.__name__ = "StopIteration"


def fails_with_stop_iteration():
    """An error that says it is a StopIteration."""
    return _Stops()


def wait_for(condition) -> None:
    """Until it is true, five seconds at most."""
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition()


@pytest.mark.slow
class TestDumpToQueue:
    def test_datapoints_and_the_end(self):
        """(number, datapoint), then a DIE for each consumer; the process is not started."""
        queue, process = dump_dataflow_to_process_queue(DataFromList([["a"], ["b"]], shuffle=False), 10, 2)
        assert process.pid is None
        process.start()
        assert [(0, ["a"]), (1, ["b"]), (DIE, None), (DIE, None)] == [queue.get(timeout=60) for _ in range(4)]
        process.join()
        assert 0 == process.exitcode
        close(queue)

    def test_an_error(self):
        """Comes with DIE, as a text; and the process fails."""
        queue, process = dump_dataflow_to_process_queue(Failing(ValueError("bad")), 10, 1)
        process.start()
        *_, (number, text) = [queue.get(timeout=60) for _ in range(4)]
        process.join()
        assert DIE is number
        assert f"Failing failed in process {process.pid}: ValueError: bad" == text
        assert 1 == process.exitcode
        close(queue)

    def test_what_is_no_dataflow(self):
        """Is refused in this process."""
        with pytest.raises(TypeError, match="dump_dataflow_to_process_queue: takes a DataFlow, got list"):
            dump_dataflow_to_process_queue([[1]], 1, 1)


def close(queue) -> None:
    """Leave no thread."""
    queue.close()
    queue.join_thread()

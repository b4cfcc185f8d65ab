"""ranks/channel.py, hub.py and diagnosis.py: ranks as threads of one process, over real sockets."""

from __future__ import annotations

import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.proxy import Proxy
from fakes.strangers import SECRET
from fakes.waiting import wait_until

from tensorpack_lite.ranks import channel as channel_module
from tensorpack_lite.ranks.authentication import Credentials
from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.connecting import RankError
from tensorpack_lite.ranks.hub import RankHub


class State(dict):
    """Status of a rank that a test can change; the channel calls it."""

    def __init__(self):
        super().__init__(kind="busy", step=0, where="at its start")

    def __call__(self):
        return dict(self)


@pytest.fixture
def connect(monkeypatch):
    """
    Function: connect ranks, which are closed after the test; `hung` collects the calls of `on_hang`.

    The time limit begins when all are connected, because a busy machine may need longer than a short one to connect them.
    """
    monkeypatch.setattr(channel_module, "_GRACE_SECONDS", 0.1)
    opened = []

    def make(size, time_limit=60.0):
        address = ("127.0.0.1", free_ports(1)[0])
        states, hung = [State() for _ in range(size)], []
        with ThreadPoolExecutor(size) as pool:
            pending = [pool.submit(RankChannel, i, size, address, 60.0, states[i], hung.append) for i in range(size)]
            channels = [each.result() for each in pending]
        opened.extend(channels)
        for channel, state in zip(channels, states):
            channel.state, channel.time_limit = state, time_limit
            channel._socket.settimeout(time_limit)
        channels[0]._hub._limit = time_limit
        channels[0].hung, channels[0].address = hung, address
        return channels

    yield make
    for channel in opened[::-1]:
        channel.close()


@pytest.fixture
def through():
    """Function: connect rank 1 through a proxy with a delay, and return the proxy and both channels."""
    opened = []

    def make(time_limit=30.0, **options):
        port = free_ports(1)[0]
        proxy = Proxy([(0, ("127.0.0.1", port))], **options).start()
        with ThreadPoolExecutor(2) as pool:
            pending = [
                pool.submit(RankChannel, rank, 2, ("127.0.0.1", each), time_limit)
                for rank, each in enumerate([port, *proxy.ports])
            ]
            opened.extend([proxy, *(each.result() for each in pending)])
        return opened

    yield make
    for channel in opened[:0:-1]:
        channel.close()
    for proxy in opened[:1]:
        proxy.stop()


def together(channels, function):
    """Call a function for each channel at the same time, and return the results."""
    with ThreadPoolExecutor(len(channels)) as pool:
        return [each.result() for each in [pool.submit(function, channel) for channel in channels]]


class TestTogether:
    def test_all_gather(self, connect):
        """Every rank gets the values of all, in the order of ranks, each time."""
        channels = connect(3)
        for i in range(3):
            assert [[i, i + 1, i + 2]] * 3 == together(channels, lambda c, i=i: c.all_gather("numbers", i + c.rank))

    def test_large_values(self, connect):
        """A value of a megabyte arrives whole."""
        channels, names = connect(2), ["v" * 1000] * 1000
        assert [[names, names]] * 2 == together(channels, lambda c: c.all_gather("names", names))

    @pytest.mark.slow
    def test_over_a_slow_network(self, through):
        """Ranks meet and exchange values over a network with a latency of 400 ms that loses packets."""
        _, first, second = through(delay=0.2, loss=0.02)
        for number in range(3):
            assert [[number, number]] * 2 == together([first, second], lambda c, n=number: c.all_gather(f"{n}", n))
        assert [None, None] == [first.failure, second.failure]

    def test_gather(self, connect):
        """Only the chief gets the values of `gather`, also if they have several megabytes."""
        channels, long = connect(3), "v" * 3_000_000
        wanted = [[f"{i}{long}" for i in range(3)], None, None]
        assert wanted == together(channels, lambda c: c.gather("values", f"{c.rank}{long}"))

    @pytest.mark.slow
    def test_meeting_often_is_not_standing_still(self, connect):
        """Ranks that gather values all the time may do so for longer than the time limit, even if one is slow."""
        channels, deadline = connect(2, time_limit=2.0), time.monotonic() + 4.5

        def meet(channel):
            while channel.all_gather("time", time.monotonic() > deadline) == [False, False]:
                time.sleep(0.05 * channel.rank)

        together(channels, meet)
        assert channels[0].failure is None

    def test_values_that_are_too_long(self, connect, monkeypatch):
        """A value beyond the limit is an error on the rank that gives it, which names the variable that sets the limit."""
        monkeypatch.setenv("TENSORPACK_RANKS_MAX_LINE_MB", "1")
        channels = connect(2)
        told = r"the value for 'names' is too long \(expected at most 1 MB, got 1.5 MB\). Set TENSORPACK_RANKS_MAX"
        with pytest.raises(ValueError, match=told):
            channels[1].all_gather("names", "v" * (3 << 19))
        assert [[0, 1]] * 2 == together(channels, lambda c: c.all_gather("still", c.rank))

    @pytest.mark.slow
    def test_leaving(self, connect):
        """A rank that leaves is not a failure for the others."""
        first, second = connect(2)
        second.close()
        assert first.wait_for_failure(0.6) is None


class TestFailures:
    def test_a_rank_that_fails(self, connect):
        """The failure of a rank is raised on all ranks, in a gather and by `check`."""
        first, second, third = connect(3)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(third.all_gather, "something", 0)
            second.fail("Rank 1 failed: it had to.")
            with pytest.raises(RankError, match="it had to"):
                waiting.result()
        assert "Rank 1 failed: it had to." == first.wait_for_failure(60)
        with pytest.raises(RankError, match="it had to"):
            first.check()

    @pytest.mark.parametrize(("status", "seen"), [({}, "seen"), ({"host": "node8"}, "seen on node8")])
    def test_a_rank_that_dies(self, connect, status, seen):
        """The death of a rank is a failure that names the rank's last place and, if it is known, its machine."""
        first, second = connect(2)
        second.state.update(step=7, where="in step 8", **status)
        wait_until(lambda: first._hub._ranks[1].status.get("step") == 7)
        second._closed = True  # like a dead process: it sends nothing more
        second._socket.shutdown(socket.SHUT_RDWR)
        second._socket.close()
        told = f"Rank 1 died without reporting an error, last {seen} after step 7, in step 8. Look at its own output."
        assert told == first.wait_for_failure(60)

    def test_a_connection_that_the_network_resets(self, through):
        """If a connection is reset, each side names the other one, and says that the network may be the reason."""
        proxy, first, second = through()
        proxy.reset()
        for told, start in (
            (first.wait_for_failure(10), "Rank 1 died"),
            (second.wait_for_failure(10), "Rank 0, the chief, died"),
        ):
            assert told.startswith(start)
            assert "The connection ended with 'Connection reset by peer'; the network may have closed it." in told

    def test_a_chief_that_dies(self, connect):
        """The death of the chief, which runs the hub, is a failure on the other ranks."""
        first, second = connect(2)
        first.state.update(step=3, where="in callback ModelSaver, _trigger")
        wait_until(lambda: second._chief.get("step") == 3)
        first._hub._ranks[1].connection.shutdown(socket.SHUT_RDWR)  # like a dead hub
        assert "Rank 0, the chief, died without reporting an error, last seen after step 3, in callback ModelSaver" in (
            second.wait_for_failure(60)
        )

    @pytest.mark.slow
    def test_ranks_that_can_never_meet(self, connect):
        """A deadlock is found long before the time limit: one rank has left the loop, the other is in its next step."""
        first, second = connect(2, time_limit=300.0)
        first.state.update(kind="busy", step=4, where="training")
        second.state.update(kind="step", step=4, where="in step 5")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(first.all_gather, "the end", 0)
            told = second.wait_for_failure(60)
            with pytest.raises(RankError, match="different places"):
                waiting.result()
        assert "Rank 0 and rank 1 wait for each other in different places" in told
        assert "Rank 0: last seen after step 4, waiting for the others (the end)." in told
        assert "Rank 1: last seen after step 4, in step 5." in told

    @pytest.mark.slow
    def test_a_rank_that_waits_for_one_that_has_left(self, connect):
        """A rank that waits for one that has left fails long before the time limit."""
        first, second = connect(2, time_limit=300.0)
        first.state.update(kind="step", step=4, where="in step 5")
        second.close()
        told = first.wait_for_failure(60)
        assert "Rank 1 has left, and rank 0 waits for it, last seen after step 4, in step 5." == told

    @pytest.mark.slow
    def test_a_main_thread_that_hangs(self, connect, monkeypatch):
        """`on_hang` is called only on a rank whose main thread does not notice the failure."""
        monkeypatch.setattr(channel_module, "_GRACE_SECONDS", 2.0)  # the first rank notices in this time
        first, second = connect(2)
        with pytest.raises(RankError):
            together([first], lambda c: (c.fail("planted"), c.check()))
        wait_until(lambda: first.hung)
        assert ["planted"] == first.hung
        assert "planted" == second.failure

    def test_a_rank_that_never_comes(self):
        """The chief fails if a rank does not connect within the time limit."""
        with pytest.raises(RankError, match="Rank 1 of 2 did not connect within 0.5 s"):
            RankChannel(0, 2, ("127.0.0.1", free_ports(1)[0]), 0.5)

    @pytest.mark.parametrize(
        ("size", "named"),
        [
            (2, r"Rank 1 of 2 \(node1\) did"),
            (4, r"Ranks 1, 2, 3 of 4 \(node1, node2\) did"),
            (40, r"Ranks 1, 2, .*, 16 and 23 more of 40 \(node1, node2, .*, node8\) did"),
        ],
    )
    def test_the_machine_of_a_rank_that_never_comes(self, size, named):
        """The message names the machines of ranks that do not connect, if the launcher tells them, and the port that they must reach."""
        port, hosts = free_ports(1)[0], [f"node{(i + 1) // 2}" for i in range(size)]
        with pytest.raises(RankError, match=f"{named} not connect within 0.3 s.* reach port {port} of") as caught:
            RankChannel(0, size, ("127.0.0.1", port), 0.3, credentials=Credentials(SECRET, rank_hosts=hosts))
        for variable in ("TENSORPACK_RANKS_ADDRESS", "TENSORPACK_RANKS_PORTS"):
            assert variable in str(caught.value)

    def test_a_chief_that_never_comes(self):
        """A rank fails if it cannot reach the chief within the time limit."""
        with pytest.raises(RankError, match="Rank 1 could not reach rank 0 at 127.0.0.1.* within 0.3 s"):
            RankChannel(1, 2, ("127.0.0.1", free_ports(1)[0]), 0.3)

    def test_a_busy_port(self):
        """If the port is taken, the error names the address and the variable that changes it."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            with pytest.raises(
                RankError, match="Rank 0 cannot listen on 127.0.0.1.*already in use.*TENSORPACK_RANKS_ADDRESS"
            ):
                RankChannel(0, 2, taken.getsockname(), 1.0)


class TestPlaces:
    """The answers of ranks when the hub asks where they are."""

    def test_ask_all(self, connect):
        """The chief gets the description of each rank, its place if it has none, or the gather that it waits in."""
        first, second, third = connect(3)
        second.describe_with(lambda: "It reads a file." + "x" * 30_000)
        pool = ThreadPoolExecutor(1)
        gathering = pool.submit(third.all_gather, "numbers", 3)
        wait_until(lambda: third._gathering is not None)
        texts = first.ask_all()
        assert [0, 1, 2] == list(texts)
        assert "It is at its start." == texts[0]
        assert "It reads a file." + "x" * 19_984 == texts[1]
        assert "It waits for the other ranks (numbers)." == texts[2]
        assert {} == second.ask_all()
        first.fail("planted")
        assert isinstance(gathering.exception(60), RankError)
        pool.shutdown()


class TestSlowHub:
    """Messages of a rank while the hub does not read."""

    @pytest.fixture
    def reading(self, monkeypatch):
        """Lock that stops the hub from reading while a test holds it."""
        lock, read = threading.Lock(), RankHub._read

        def wait_and_read(hub, key):
            with lock:
                read(hub, key)

        monkeypatch.setattr(RankHub, "_read", wait_and_read)
        return lock

    @pytest.mark.slow
    def test_a_large_value_arrives_whole(self, connect, reading):
        """A large value arrives whole even if sending has to wait."""
        (first, second), long = connect(2), "v" * 20_000_000
        reading.acquire()
        threading.Timer(1.5, reading.release).start()
        values = together([first, second], lambda c: c.gather("values", long if c.rank else ""))
        assert ["", long] == values[0]
        assert [None, None] == [first.failure, second.failure]

    @pytest.mark.slow
    def test_no_longer_than_the_limit(self, connect, reading):
        """After the time limit the rank gives up, and sends nothing after the partial line."""
        first, second = connect(2)
        second.time_limit = 1.0
        second._socket.settimeout(1.0)
        reading.acquire()
        begun = time.monotonic()
        with pytest.raises(RankError, match="Rank 0, the chief, has been silent for 1 s"):
            second.gather("values", "v" * 20_000_000)
        assert time.monotonic() - begun < 60
        with pytest.raises(OSError, match="(?i)pipe"):
            second._socket.sendall(b"more")
        reading.release()
        assert "Rank 1 died without reporting an error" in first.wait_for_failure(60)


class TestRankThatDoesNotRead:
    """A rank that sends its status but reads nothing; `stop_reading` makes rank 1 such a rank."""

    @pytest.fixture
    def stop_reading(self, monkeypatch):
        """Function: let the reading thread of rank 1 wait until the end of the test, and return once it waits."""
        stopped, waits, is_over = threading.Event(), threading.Event(), threading.Event()
        receive = RankChannel._receive

        def receive_unless_stopped(channel, message):
            if channel.rank == 1 and stopped.is_set():
                waits.set()
                is_over.wait(300)
            receive(channel, message)

        def stop():
            stopped.set()
            assert waits.wait(60)  # it waits when the next status of rank 0 arrives

        monkeypatch.setattr(RankChannel, "_receive", receive_unless_stopped)
        yield stop
        is_over.set()

    @pytest.mark.slow
    def test_the_others_continue(self, connect, stop_reading):
        """The hub does not wait for a rank that does not read: it answers the others at once."""
        (first, second, third), long = connect(3), "v" * 8_000_000
        stop_reading()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(second.all_gather, "values", long)
            begun = time.monotonic()
            for values in together([first, third], lambda c: c.all_gather("values", long)):
                assert [long] * 3 == values
            assert time.monotonic() - begun < 50  # not until the time limit
            assert sum(map(len, first._hub._ranks[1].unsent)) > len(long)
            first.fail("the end of the test")
            first._hub._ranks[1].connection.shutdown(socket.SHUT_RDWR)
            second._set_failure("the end of the test")

    @pytest.mark.slow
    def test_it_is_dropped_after_the_time_limit(self, connect, stop_reading):
        """The hub drops a rank that reads nothing for the time limit."""
        (first, second), long = connect(2, time_limit=3.0), "v" * 12_000_000
        stop_reading()
        with ThreadPoolExecutor(2) as pool:
            for channel in (first, second):
                pool.submit(channel.all_gather, "values", long)
            assert "Rank 1 has read nothing for 3 s, last seen after step 0" in first.wait_for_failure(60)
            second._set_failure("the end of the test")

    @pytest.mark.slow
    def test_it_is_dropped_when_too_much_is_unread(self, connect, stop_reading):
        """The hub drops a rank that leaves too much unread, long before the time limit."""
        first, second = connect(2, time_limit=300.0)
        first._hub._max_unsent = 12_000_000
        stop_reading()
        first.state["where"] = "v" * 4_000_000  # each tick contains it
        assert re.match(r"Rank 1 has not read 1\d MB that rank 0 sent", first.wait_for_failure(60))
        second._set_failure("the end of the test")


class TestOneTrainingAfterTheOther:
    def test_a_hub_that_is_about_to_end(self):
        """A rank does not take the hub of the last training for that of the next one."""
        address, hello = ("127.0.0.1", free_ports(1)[0]), []

        def end_and_begin():
            with socket.socket() as old:
                old.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                old.bind(address)
                old.listen(1)
                accepted, _ = old.accept()
                hello.append(accepted.recv(1000))
                accepted.close()
            return RankChannel(0, 2, address, 60.0)

        with ThreadPoolExecutor(2) as pool:
            begun = [pool.submit(end_and_begin), pool.submit(RankChannel, 1, 2, address, 60.0)]
            channels = [each.result() for each in begun]
        assert hello[0].startswith(b"tensorpack_lite ranks 3 ")
        assert [["a", "a"]] * 2 == together(channels, lambda c: c.all_gather("still", "a"))
        together(channels, RankChannel.close)

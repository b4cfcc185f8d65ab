"""utils/ranks.py and rank_hub.py: ranks as threads of one process, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorpack_lite.utils import ranks
from tensorpack_lite.utils.cluster import free_ports
from tensorpack_lite.utils.rank_hub import RankHub
from tensorpack_lite.utils.ranks import RankChannel, RankError


class State(dict):
    """How a rank is, to be changed by a test; it is what the rank's channel asks for."""

    def __init__(self):
        super().__init__(kind="busy", step=0, where="at its start")

    def __call__(self):
        return dict(self)


@pytest.fixture
def connect(monkeypatch):
    """Connects ranks, which are left at the end of the test; `hung` has what a rank was to end its process with."""
    monkeypatch.setattr(ranks, "_GRACE_SECONDS", 0.1)
    opened = []

    def make(size, time_limit=10.0):
        address = ("127.0.0.1", free_ports(1)[0])
        states, hung = [State() for _ in range(size)], []
        with ThreadPoolExecutor(size) as pool:
            pending = [
                pool.submit(RankChannel, i, size, address, time_limit, states[i], hung.append)
                for i in range(size)
            ]
            channels = [each.result() for each in pending]
        opened.extend(channels)
        for channel, state in zip(channels, states):
            channel.state = state
        channels[0].hung, channels[0].address = hung, address
        return channels

    yield make
    for channel in opened[::-1]:
        channel.close()


def together(channels, function):
    """Call a function for each channel at the same time."""
    with ThreadPoolExecutor(len(channels)) as pool:
        return [each.result() for each in [pool.submit(function, channel) for channel in channels]]


class TestTogether:
    def test_all_gather(self, connect):
        """Every rank gets every value, in the order of ranks, as often as it is asked."""
        channels = connect(3)
        for i in range(3):
            assert [[i, i + 1, i + 2]] * 3 == together(
                channels, lambda c, i=i: c.all_gather("numbers", i + c.rank)
            )

    def test_large_values(self, connect):
        """A megabyte of names of variables goes through."""
        channels, names = connect(2), ["v" * 1000] * 1000
        assert [[names, names]] * 2 == together(channels, lambda c: c.all_gather("names", names))

    def test_gather(self, connect):
        """Only the chief gets the values, megabytes of them as well."""
        channels, long = connect(3), "v" * 3_000_000
        wanted = [[f"{i}{long}" for i in range(3)], None, None]
        assert wanted == together(channels, lambda c: c.gather("values", f"{c.rank}{long}"))

    @pytest.mark.slow
    def test_meeting_often_is_not_standing_still(self, connect):
        """Two ranks of which one is much slower than the other may meet for longer than the limit lasts."""
        channels, deadline = connect(2, time_limit=2.0), time.monotonic() + 4.5

        def meet(channel):
            while channel.all_gather("time", time.monotonic() > deadline) == [False, False]:
                time.sleep(0.05 * channel.rank)

        together(channels, meet)
        assert channels[0].failure is None

    def test_values_that_are_too_long(self, connect, monkeypatch):
        """A value beyond the limit is an error of the rank that gives it, and names the variable that sets the limit."""
        monkeypatch.setenv("TENSORPACK_RANKS_MAX_LINE_MB", "1")
        channels = connect(2)
        told = r"the value for 'names' is too long \(expected at most 1 MB, got 1.5 MB\). Set TENSORPACK_RANKS_MAX"
        with pytest.raises(ValueError, match=told):
            channels[1].all_gather("names", "v" * (3 << 19))
        assert [[0, 1]] * 2 == together(channels, lambda c: c.all_gather("still", c.rank))

    def test_leaving(self, connect):
        """Is no failure for those who stay."""
        first, second = connect(2)
        second.close()
        assert first.wait_for_failure(0.6) is None


class TestFailures:
    def test_a_rank_that_fails(self, connect):
        """Is told to all: in a gather as an error, elsewhere by `check`."""
        first, second, third = connect(3)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(third.all_gather, "something", 0)
            second.fail("Rank 1 failed: it had to.")
            with pytest.raises(RankError, match="it had to"):
                waiting.result()
        assert "Rank 1 failed: it had to." == first.wait_for_failure(2)
        with pytest.raises(RankError, match="it had to"):
            first.check()

    def test_a_rank_that_dies(self, connect):
        """Is told with where it was last seen."""
        first, second = connect(2)
        second.state.update(step=7, where="in step 8")
        wait_until(lambda: first._hub._ranks[1].status.get("step") == 7)
        second._closed = True  # as in a dead process: nothing more is said
        second._socket.shutdown(socket.SHUT_RDWR)
        second._socket.close()
        assert (
            "Rank 1 has died without a word, last seen after step 7, in step 8. Look at its own output."
            == first.wait_for_failure(2)
        )

    def test_a_chief_that_dies(self, connect):
        """Is told, too, although it ran the hub."""
        first, second = connect(2)
        first.state.update(step=3, where="in callback ModelSaver, _trigger")
        wait_until(lambda: second._chief.get("step") == 3)
        numbers = {number: connection for connection, number in first._hub._numbers.items()}
        numbers[1].shutdown(socket.SHUT_RDWR)  # as when the hub's process is gone: no word to rank 1
        assert (
            "Rank 0, the chief, has died without a word, last seen after step 3, in callback ModelSaver"
            in (second.wait_for_failure(2))
        )

    def test_a_rank_that_keeps_others_waiting(self, connect):
        """Is told after the time limit; not while the chief is excused."""
        first, second = connect(2, time_limit=1.2)
        first.state.update(kind="step", step=4, where="in step 5")
        second.state.update(kind="busy", step=4, where="in callback Slow, _trigger")
        told = first.wait_for_failure(6)
        assert (
            "Rank 1 has kept others waiting for 1.2 s, last seen after step 4, in callback Slow, _trigger."
            in told
        )
        assert "Rank 0: last seen after step 4, in step 5." in told

    def test_ranks_that_can_never_meet(self, connect):
        """Are told long before the time limit: one has left the loop, the other is in its next step."""
        first, second = connect(2, time_limit=300.0)
        first.state.update(kind="busy", step=4, where="training")
        second.state.update(kind="step", step=4, where="in step 5")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(first.all_gather, "the end", 0)
            told = second.wait_for_failure(10)
            with pytest.raises(RankError, match="different places"):
                waiting.result()
        assert "Rank 0 and rank 1 wait for each other in different places" in told
        assert "Rank 0: last seen after step 4, waiting for the others (the end)." in told
        assert "Rank 1: last seen after step 4, in step 5." in told

    def test_ranks_in_two_gathers(self, connect):
        """Can never meet either."""
        channels = connect(2, time_limit=300.0)

        def gather(channel):
            with pytest.raises(RankError, match="wait for each other in different places"):
                channel.all_gather(f"number {channel.rank}", 0)

        together(channels, gather)

    @pytest.mark.parametrize(
        ("kind", "step", "has_data"),
        [("step", 3, True), ("variables", 4, True), ("busy", 4, True), ("step", 4, False)],
    )
    def test_a_rank_that_may_still_come(self, connect, kind, step, has_data):
        """Is waited for: in an earlier step, with the chief's variables, at work, about to see the end of the data."""
        first, second = connect(2)
        first.state.update(kind="busy", step=4, where="training", has_data=has_data)
        second.state.update(kind=kind, step=step, where="somewhere")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(first.all_gather, "the end", 0)
            assert second.wait_for_failure(2.0) is None
            second.all_gather("the end", 0)
            assert [0, 0] == waiting.result()

    def test_a_rank_that_waits_for_one_that_has_left(self, connect):
        """Is told so, soon."""
        first, second = connect(2, time_limit=300.0)
        first.state.update(kind="step", step=4, where="in step 5")
        second.close()
        told = first.wait_for_failure(10)
        assert "Rank 1 has left, and rank 0 waits for it, last seen after step 4, in step 5." == told

    def test_a_chief_with_much_to_do(self, connect):
        """May take longer than the limit in a callback of its own."""
        first, second = connect(2, time_limit=0.5)
        first.state.update(kind="excused", step=4, where="in callback InferenceRunner, _trigger")
        second.state.update(kind="step", step=4, where="in step 5")
        assert second.wait_for_failure(2.0) is None

    def test_a_step_that_nobody_ends(self, connect):
        """Is told, without blame."""
        first, second = connect(2, time_limit=1.2)
        for channel in (first, second):
            channel.state.update(kind="step", step=4, where="in step 5")
        assert "No rank has finished step 5 within 1.2 s" in first.wait_for_failure(6)

    def test_a_main_thread_that_hangs(self, connect):
        """Is given some time, then the process ends; not where the main thread has seen the failure."""
        first, second = connect(2)
        with pytest.raises(RankError):
            together([first], lambda c: (c.fail("planted"), c.check()))
        wait_until(lambda: first.hung)
        assert ["planted"] == first.hung
        assert "planted" == second.failure

    def test_a_rank_that_never_comes(self):
        """The chief waits for the time limit."""
        with pytest.raises(RankError, match="Rank 1 of 2 did not come within 0.5 s"):
            RankChannel(0, 2, ("127.0.0.1", free_ports(1)[0]), 0.5)

    def test_a_chief_that_never_comes(self):
        """Others wait for the time limit."""
        with pytest.raises(RankError, match="Rank 1 could not reach rank 0 at 127.0.0.1.* within 0.3 s"):
            RankChannel(1, 2, ("127.0.0.1", free_ports(1)[0]), 0.3)

    def test_a_busy_port(self):
        """Is named."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            with pytest.raises(
                RankError, match="Rank 0 cannot listen on 127.0.0.1.*already in use.*TENSORPACK_RANKS_ADDRESS"
            ):
                RankChannel(0, 2, taken.getsockname(), 1.0)


def wait_until(condition):
    """Wait for what another thread does."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.01)


class TestSlowHub:
    """What a rank sends while the hub does not read."""

    @pytest.fixture
    def reading(self, monkeypatch):
        """The hub reads only while nobody holds this."""
        lock, read = threading.Lock(), RankHub._read

        def wait_and_read(hub, connection):
            with lock:
                read(hub, connection)

        monkeypatch.setattr(RankHub, "_read", wait_and_read)
        return lock

    def test_much_arrives_whole(self, connect, reading):
        """Though sending has to wait."""
        (first, second), long = connect(2), "v" * 20_000_000
        reading.acquire()
        threading.Timer(1.5, reading.release).start()
        values = together([first, second], lambda c: c.gather("values", long if c.rank else ""))
        assert ["", long] == values[0]
        assert [None, None] == [first.failure, second.failure]

    def test_no_longer_than_the_limit(self, connect, reading):
        """Then the rank gives up, and what it has not sent whole is all that it sent."""
        first, second = connect(2, time_limit=1.0)
        reading.acquire()
        begun = time.monotonic()
        with pytest.raises(RankError, match="Rank 0, the chief, has been silent for 1 s"):
            second.gather("values", "v" * 20_000_000)
        assert time.monotonic() - begun < 2.0
        with pytest.raises(OSError, match="(?i)pipe"):
            second._socket.sendall(b"more")
        reading.release()
        assert "Rank 1 has died without a word" in first.wait_for_failure(3)


class TestOneTrainingAfterTheOther:
    def test_a_hub_that_just_ends(self):
        """Is not taken for that of the next training."""
        address, hello = ("127.0.0.1", free_ports(1)[0]), []

        def end_and_begin():
            with socket.socket() as old:
                old.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                old.bind(address)
                old.listen(1)
                accepted, _ = old.accept()
                hello.append(accepted.recv(1000))
                accepted.close()
            return RankChannel(0, 2, address, 10.0)

        with ThreadPoolExecutor(2) as pool:
            begun = [pool.submit(end_and_begin), pool.submit(RankChannel, 1, 2, address, 10.0)]
            channels = [each.result() for each in begun]
        assert hello[0].startswith(b"tensorpack_lite ranks 2 ")
        assert [["a", "a"]] * 2 == together(channels, lambda c: c.all_gather("still", "a"))
        together(channels, RankChannel.close)

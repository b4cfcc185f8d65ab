"""The hub of the ranks' channel among strangers: real sockets, and processes that are attacked."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import resource
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.launching import TESTS, start, wait
from fakes.strangers import SECRET, Attack, greet, record

from tensorpack_lite.utils import rank_auth, rank_hub
from tensorpack_lite.utils.cluster import free_ports
from tensorpack_lite.utils.rank_auth import Credentials, authenticate
from tensorpack_lite.utils.rank_hub import RankHub
from tensorpack_lite.utils.rank_messages import pack
from tensorpack_lite.utils.ranks import RankChannel, RankError


@pytest.fixture
def hub():
    """A hub that waits for two ranks; `address` is where, `enter` connects a rank or a stranger that knows the secret."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    one = RankHub(listener, 2, 30.0, Credentials(SECRET))
    one.address, opened = listener.getsockname(), []

    def connect():
        opened.append(socket.create_connection(one.address, timeout=10.0))
        return opened[-1]

    def enter(rank, size=2, is_welcome=True):
        connection = connect()
        authenticate(connection, SECRET.encode())
        connection.settimeout(10.0)
        connection.sendall(pack({"type": "hello", "rank": rank, "size": size}))
        if is_welcome:
            assert {"type": "welcome"} == hear(connection)
        return connection

    one.connect, one.enter = connect, enter
    one.start()
    yield one
    for connection in opened:
        connection.close()
    one._ranks[-1] = one._ranks.get(0) or rank_hub._Rank(None, None)  # what ends the thread, if no rank came
    for rank in one._ranks.values():
        rank.has_left = True
    one.join(10.0)
    assert not one.is_alive()


def hear(connection):
    """Return the next message that is not a tick."""
    while True:
        line = b""
        while not line.endswith(b"\n"):
            line += connection.recv(1)
        message = json.loads(line)
        if message["type"] != "tick":
            return message


def is_closed(connection):
    """Wait until the other end closes a connection; what it says before does not matter."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(1 << 16):
            continue
    return True


def assert_both_ranks_come(hub):
    """Two ranks come together."""
    for rank in range(2):
        hub.enter(rank)
    assert hub._failure is None


class TestStrangers:
    @pytest.mark.parametrize(
        "said",
        [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff\n",
            b"\n",
            b"[" * 200_000 + b"\n",
            b"x" * 1_000_000,
            b'{"rank": 1e999}\n',
            greet(1, 2),
            greet(0, 7),
            b"tensorpack_lite ranks 2 short\n",
            b"tensorpack_lite ranks 2 " + b"0" * 64 + b"\n" + b"0" * 64 + b"\n",
        ],
    )
    def test_one_is_closed_and_changes_nothing(self, hub, said):
        """A stranger that does not greet as a rank is closed, and the ranks come together as without it."""
        stranger = hub.connect()
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # the hub did not wait for the rest
            stranger.sendall(said)
        assert is_closed(stranger)
        assert_both_ranks_come(hub)

    def test_a_replayed_greeting(self, hub):
        """A greeting that was accepted elsewhere is not accepted again, because the hub's challenge is a new one."""
        challenge, proof = record()
        stranger = hub.connect()
        stranger.sendall(challenge + b"\n")
        assert 129 + 1 == len(stranger.recv(4096))
        stranger.sendall(proof + b"\n" + pack({"type": "hello", "rank": 1, "size": 2}))
        assert is_closed(stranger)
        assert_both_ranks_come(hub)

    def test_a_reflected_challenge(self, hub):
        """The hub's own proof, sent back to it, is not that of a rank."""
        challenge = record()[0]
        stranger = hub.connect()
        stranger.sendall(challenge + b"\n")
        proof = stranger.recv(4096).split()[1]
        stranger.sendall(proof + b"\n")
        assert is_closed(stranger)
        assert_both_ranks_come(hub)

    def test_slow_senders(self, hub, monkeypatch):
        """A greeting that does not end is closed after its time limit."""
        monkeypatch.setattr(rank_auth, "GREETING_SECONDS", 0.3)
        stranger = hub.connect()
        stranger.sendall(b"tensorpack_lite")
        assert is_closed(stranger)
        assert {} == hub._strangers

    def test_many_that_wait(self, hub):
        """At most 4 strangers for each rank wait at a time: a new one takes the place of the oldest."""
        strangers = [hub.connect() for _ in range(40)]
        assert all(is_closed(stranger) for stranger in strangers[:32])
        deadline = time.monotonic() + 10
        while len(hub._strangers) != 8:  # the hub is about to take the place of the last one that it closed
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert_both_ranks_come(hub)

    def test_too_many_open_files(self, hub):
        """A hub whose process cannot open more files accepts ranks as soon as it can again."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        waiting = [hub.connect() for _ in range(3)]
        opened = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, hard))
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
            os.close(opened.pop())
            waiting.append(hub.connect())  # takes the last descriptor: none is left for the hub
            deadline = time.monotonic() + 10
            while hub._is_accepting:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            for each in opened:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert hub.is_alive()
        assert_both_ranks_come(hub)

    def test_after_all_ranks_have_come(self, hub):
        """A complete hub does not listen any more: it refuses every connection, and training continues."""
        assert_both_ranks_come(hub)
        with pytest.raises(ConnectionRefusedError):
            hub.connect()
        assert hub._failure is None

    def test_only_the_first_is_logged(self, hub, log_lines):
        """The first refused connection is logged with its address and the reason, the others are not."""
        for _ in range(20):
            stranger = hub.connect()
            stranger.sendall(b"noise\n")
            assert is_closed(stranger)
        told = [line for line in log_lines if "refused a connection" in line]
        assert 1 == len(told)
        assert "from 127.0.0.1" in told[0]
        assert "does not speak" in told[0]


class TestPeersThatKnowTheSecret:
    @pytest.mark.parametrize(("rank", "size"), [(1, 3), (2, 2), (-1, 2), (0, 2)])
    def test_a_greeting_that_does_not_fit(self, hub, rank, size):
        """A rank of another size, beyond the size, or there already ends a training that is not complete, with a sentence."""
        first = hub.enter(0)
        told = f"A process came as rank {rank} of {size}, while rank 0 expects 2 ranks, each once."
        assert told in hear(hub.enter(rank, size, is_welcome=False))["text"]
        assert told in hear(first)["text"]

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            (b"[" * 200_000, "nested too deeply"),
            (b"{", "Expecting property name"),
            (b'{"type": "hello", "rank": 1, "size": 2}', "'hello' is not for rank 0"),
            (
                b'{"type": "status", "status": {"kind": "step", "step": 1e999, "where": ""}}',
                "the field 'step'",
            ),
            (b'{"type": "status", "status": []}', "the field 'status'"),
            (b'{"type": "gather", "name": ["x"], "value": 0, "for_chief": false}', "the field 'name'"),
            (b'{"type": ["gather"]}', "not a message of the ranks"),
            (b'{"type": "fail", "text": ' + b"1" * 5000 + b"}", "an integer is too long"),
        ],
    )
    def test_a_message_that_does_not_fit(self, hub, said, told):
        """Nonsense from a rank ends the training with a sentence that names the rank; the hub lives on."""
        first, second = hub.enter(0), hub.enter(1)
        second.sendall(said + b"\n")
        text = hear(first)["text"]
        assert "Rank 1 sent a message that rank 0 does not take" in text
        assert told in text
        assert hub.is_alive()

    def test_one_that_does_not_wait(self, hub):
        """A peer that says more before it is welcome is not taken in."""
        impatient = hub.connect()
        authenticate(impatient, SECRET.encode())
        impatient.sendall(pack({"type": "hello", "rank": 1, "size": 2}) + pack({"type": "bye"}))
        assert is_closed(impatient)
        assert_both_ranks_come(hub)

    def test_two_gathers_at_once(self, hub):
        """A rank cannot start a gather before its last one is complete."""
        first, second = hub.enter(0), hub.enter(1)
        for name in ("a", "b"):
            second.sendall(pack({"type": "gather", "name": name, "value": 0, "for_chief": False}))
        assert (
            "Rank 1 sent a message that rank 0 does not take: it takes part in a gather"
            in hear(first)["text"]
        )

    def test_a_line_without_end(self, hub):
        """A line of a rank may be long, but not endless."""
        hub._max_line = 1 << 20
        first, second = hub.enter(0), hub.enter(1)
        second.sendall(b"x" * ((1 << 20) + 1))
        assert "a line is longer than 1048576 bytes" in hear(first)["text"]


class TestWithoutASecret:
    @pytest.fixture(autouse=True)
    def no_secret(self, monkeypatch):
        for name in ("TENSORPACK_LITE_SECRET", "TENSORPACK_LITE_SECRET_FILE"):
            monkeypatch.delenv(name, raising=False)

    def test_a_greeting_that_does_not_fit(self):
        """A rank that does not fit is refused without ending the training; the chief mentions it if a rank is missing."""
        address = ("127.0.0.1", free_ports(1)[0])
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(RankChannel, 0, 2, address, 1.5)
            other = pool.submit(RankChannel, 2, 3, address, 1.5)
            told = "A process came as rank 2 of 3, while rank 0 expects 2 ranks"
            with pytest.raises(RankError, match=told):
                other.result()
            with pytest.raises(RankError, match=f"Rank 1 of 2 did not come within 1.5 s.*{told}"):
                first.result()

    def test_it_is_said_once(self, log_lines):
        """The chief logs from where it accepts ranks, and how to authenticate them."""
        RankChannel(0, 1, ("127.0.0.1", free_ports(1)[0]), 10.0).close()
        told = [line for line in log_lines if "no secret" in line]
        assert 1 == len(told)
        assert "only from this machine" in told[0]
        assert "TENSORPACK_LITE_SECRET" in told[0]


class TestRanksThatDoNotTrust:
    @pytest.mark.parametrize("mine", ["", "another secret of mine"])
    def test_another_secret(self, monkeypatch, mine, log_lines):
        """A rank with another secret, or none, reports that the hub did not prove the rank's; the other ranks train undisturbed."""
        address = ("127.0.0.1", free_ports(1)[0])

        def rank(number, secret, limit):
            return RankChannel(number, 2, address, limit, credentials=Credentials(secret))

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(rank, 0, SECRET, 10.0)
            with pytest.raises(RankError, match="could not reach rank 0 .* did not prove that it knows"):
                rank(1, mine, 0.5)
            second = rank(1, SECRET, 10.0)
            assert first.result().failure is None
            second.close()
            first.result().close()
        assert 1 == len([line for line in log_lines if "Rank 1 does not trust 127.0.0.1" in line])

    @pytest.mark.parametrize("said", [b"welcome\n", b"0" * 64 + b" " + b"0" * 64 + b"\n", b"x" * 100_000])
    def test_a_false_hub(self, said):
        """A server at the hub's address that does not know the secret receives only a challenge."""
        heard = []

        def pretend(listener):
            while not heard or heard[-1]:
                connection, _ = listener.accept()
                with connection:
                    heard.append(connection.recv(4096))
                    if heard[-1]:
                        connection.sendall(said)
                        connection.settimeout(5.0)
                        try:
                            heard.append(connection.recv(4096) or b"closed")
                        except ConnectionResetError:
                            heard.append(b"closed")

        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(5)
            thread = threading.Thread(target=pretend, args=(listener,))
            thread.start()
            with pytest.raises(RankError, match="could not reach rank 0"):
                RankChannel(1, 2, listener.getsockname(), 0.2, credentials=Credentials(SECRET))
            socket.create_connection(listener.getsockname()).close()
            thread.join(10.0)
        assert re.fullmatch(rb"tensorpack_lite ranks 2 [0-9a-f]{64}\n", heard[0])
        assert b"closed" == heard[1]

    def test_a_hub_that_sends_nonsense(self):
        """A message that a rank does not understand ends its training with a sentence, not its thread alone."""
        channels, address = [], ("127.0.0.1", free_ports(1)[0])
        with ThreadPoolExecutor(2) as pool:
            pending = [pool.submit(RankChannel, rank, 2, address, 10.0) for rank in range(2)]
            channels = [each.result() for each in pending]
        numbers = {number: connection for connection, number in channels[0]._hub._numbers.items()}
        numbers[1].sendall(b"[" * 200_000 + b"\n")
        assert "Rank 0, the chief, sent a message that rank 1 does not take" in channels[1].wait_for_failure(
            10
        )
        for channel in channels[::-1]:
            channel.close()


def attack(number):
    """Attack a hub with two live ranks, let the third one join, attack again. Return the growth of memory and how the ranks ended."""
    port = free_ports(1)[0]
    ranks = start(str(TESTS / "fakes" / "two_ranks.py"), port, TENSORPACK_LITE_SECRET=SECRET)
    try:
        assert select.select([ranks.stdout], [], [], 60.0)[0]
        line = ranks.stdout.readline()
        while line and "waiting" not in line:
            line = ranks.stdout.readline()
        one = Attack(("127.0.0.1", port))
        one.run(number * 8 // 10)
        is_refused_before = one.num_refused
        rest = threading.Thread(target=one.run, args=(number - number * 8 // 10,))
        rest.start()
        third = RankChannel(2, 3, ("127.0.0.1", port), 120.0, credentials=Credentials(SECRET))
        while rest.is_alive():
            assert [0, 1, "more"] == third.all_gather("numbers", "more")
        assert [0, 1, "enough"] == third.all_gather("numbers", "enough")
        third.close()
        rest.join()
        one.close()
    except BaseException:
        ranks.kill()
        raise
    finally:
        ended = wait(ranks)
    growth, ends = ended.out.splitlines()[-1].split(" ", 1)
    assert 0 == ended.code, ended.err
    return int(growth), ast.literal_eval(ends), is_refused_before


class TestAttack:
    @pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_live_ranks(self, number):
        """Hostile connections of all kinds disturb no rank, keep none from joining, and take less than 16 MB."""
        growth, ends, num_refused = attack(number)
        assert [[0, 1, "enough"]] * 2 == ends
        assert 0 == num_refused
        assert growth < 16 << 20

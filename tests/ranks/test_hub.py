"""ranks/hub.py among hostile connections: real sockets, and processes that are attacked."""

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
from fakes.waiting import wait_until

from tensorpack_lite.ranks import authentication
from tensorpack_lite.ranks import hub as hub_module
from tensorpack_lite.ranks.authentication import Credentials, authenticate
from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.connecting import RankError
from tensorpack_lite.ranks.hub import RankHub
from tensorpack_lite.ranks.messages import pack


@pytest.fixture
def hub():
    """A hub that waits for two ranks at `address`; `connect` opens a connection, `enter` greets as a rank with the secret."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    one = RankHub(listener, 2, 30.0, Credentials(SECRET))
    one.address, opened = listener.getsockname(), []

    def connect():
        opened.append(socket.create_connection(one.address, timeout=60.0))
        return opened[-1]

    def enter(rank, size=2, is_welcome=True, address="127.0.0.1"):
        connection = connect()
        authenticate(connection, Credentials(SECRET).key)
        connection.settimeout(10.0)
        connection.sendall(pack({"type": "hello", "rank": rank, "size": size, "address": address}))
        if is_welcome:
            assert {"type": "welcome"} == hear(connection)
        return connection

    one.connect, one.enter = connect, enter
    one.start()
    yield one
    for connection in opened:
        connection.close()
    if not one._ranks:  # the thread ends when all ranks have left
        with socket.socket() as closed:
            left = hub_module._Rank(-1, closed, None)
        one._ranks[-1] = left
    for rank in one._ranks.values():
        rank.has_left = True
    one.join(60.0)
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
    """Wait until the other end closes a connection; ignore what it sends before."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(1 << 16):
            continue
    return True


def assert_both_ranks_come(hub):
    """Connect two ranks, and check that the hub accepts them."""
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
            b"tensorpack_lite ranks 3 short\n",
            b"tensorpack_lite ranks 3 " + b"0" * 64 + b"\n" + b"0" * 64 + b"\n",
        ],
    )
    def test_one_is_closed_and_changes_nothing(self, hub, said):
        """A stranger that does not greet as a rank is closed, and the ranks come together as without it."""
        stranger = hub.connect()
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # the hub closed before reading all of it
            stranger.sendall(said)
        assert is_closed(stranger)
        assert_both_ranks_come(hub)

    def test_a_replayed_greeting(self, hub):
        """A recorded greeting is not accepted again, because the hub draws a new challenge."""
        challenge, proof = record()
        stranger = hub.connect()
        stranger.sendall(challenge + b"\n")
        assert 129 + 1 == len(stranger.recv(4096))
        stranger.sendall(proof + b"\n" + pack({"type": "hello", "rank": 1, "size": 2, "address": "127.0.0.1"}))
        assert is_closed(stranger)
        assert_both_ranks_come(hub)

    def test_a_reflected_challenge(self, hub):
        """The hub does not accept its own proof, sent back to it."""
        challenge = record()[0]
        stranger = hub.connect()
        stranger.sendall(challenge + b"\n")
        proof = stranger.recv(4096).split()[1]
        stranger.sendall(proof + b"\n")
        assert is_closed(stranger)
        assert_both_ranks_come(hub)

    @pytest.mark.slow
    def test_slow_senders(self, hub, monkeypatch):
        """A connection whose greeting does not end is closed after its time limit."""
        monkeypatch.setattr(authentication, "GREETING_SECONDS", 0.3)
        stranger = hub.connect()
        stranger.sendall(b"tensorpack_lite")
        assert is_closed(stranger)
        assert {} == hub._strangers

    @pytest.mark.slow
    def test_many_that_wait(self, hub):
        """At most 256 strangers wait at a time. A new one replaces the oldest."""
        strangers = [hub.connect() for _ in range(300)]
        assert all(is_closed(stranger) for stranger in strangers[:44])
        # the hub has closed the oldest, and is about to accept the newest
        wait_until(lambda: len(hub._strangers) == 256)
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
            waiting.append(hub.connect())  # takes the last file descriptor, so the hub cannot accept
            wait_until(lambda: hub._listener not in hub._selector.get_map())
        finally:
            for each in opened:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert hub.is_alive()
        assert_both_ranks_come(hub)

    def test_after_all_ranks_have_come(self, hub):
        """A hub whose ranks are complete refuses every connection, and training continues."""
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


class TestAddressTranslation:
    def test_another_address(self, hub, log_lines):
        """A rank that connects from another address than its own is welcome, and a warning has both addresses."""
        hub.enter(1, address="192.168.1.5")
        told = [line for line in log_lines if "translates addresses" in line]
        assert 1 == len(told)
        assert told[0].startswith("Rank 1 connects from 127.0.0.1, and its own address is 192.168.1.5")
        hub.enter(0)

    def test_its_own_address(self, hub, log_lines):
        """Ranks whose addresses are not translated cause no warning."""
        assert_both_ranks_come(hub)
        assert not [line for line in log_lines if "translates" in line]


class TestPeersThatKnowTheSecret:
    @pytest.mark.parametrize(("rank", "size"), [(1, 3), (2, 2), (-1, 2), (0, 2)])
    def test_a_greeting_that_does_not_fit(self, hub, rank, size):
        """A rank with another size, an invalid number or a number that is taken ends the training with an error on all ranks."""
        first = hub.enter(0)
        told = f"A process connected as rank {rank} of {size}, but rank 0 expects 2 ranks, each once."
        assert told in hear(hub.enter(rank, size, is_welcome=False))["text"]
        assert told in hear(first)["text"]

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            (b"[" * 200_000, "nested too deeply"),
            (b"{", "Expecting property name"),
            (b'{"type": "hello", "rank": 1, "size": 2, "address": "127.0.0.1"}', "'hello' is not for rank 0"),
            (
                b'{"type": "status", "status": {"kind": "step", "step": 1e999, "where": ""}}',
                "the field 'step'",
            ),
            (b'{"type": "status", "status": []}', "the field 'status'"),
            (b'{"type": "gather", "name": ["x"], "value": 0, "receivers": "all"}', "the field 'name'"),
            (b'{"type": ["gather"]}', "not a message of the ranks"),
            (b'{"type": "fail", "text": ' + b"1" * 5000 + b"}", "an integer is too long"),
        ],
    )
    def test_a_message_that_does_not_fit(self, hub, said, told):
        """An invalid message of a rank ends the training with an error that names the rank; the hub keeps running."""
        first, second = hub.enter(0), hub.enter(1)
        second.sendall(said + b"\n")
        text = hear(first)["text"]
        assert "Rank 1 sent a message that rank 0 rejects" in text
        assert told in text
        assert hub.is_alive()

    def test_one_that_does_not_wait(self, hub):
        """A peer that does not wait for the welcome is refused."""
        impatient = hub.connect()
        authenticate(impatient, Credentials(SECRET).key)
        impatient.sendall(pack({"type": "hello", "rank": 1, "size": 2, "address": "127.0.0.1"}) + pack({"type": "bye"}))
        assert is_closed(impatient)
        assert_both_ranks_come(hub)

    def test_a_line_without_end(self, hub):
        """The length of a rank's lines is limited."""
        hub._max_line = 1 << 20
        first, second = hub.enter(0), hub.enter(1)
        second.sendall(b"x" * ((1 << 20) + 1))
        assert "a line is longer than 1048576 bytes" in hear(first)["text"]


class TestWithoutASecret:
    @pytest.fixture(autouse=True)
    def no_secret(self, monkeypatch):
        for name in ("TENSORPACK_LITE_SECRET", "TENSORPACK_LITE_SECRET_FILE"):
            monkeypatch.delenv(name, raising=False)

    @pytest.mark.slow
    def test_a_greeting_that_does_not_fit(self):
        """Without a secret, a rank that does not match is refused and training continues; the chief mentions it if a rank is missing."""
        address = ("127.0.0.1", free_ports(1)[0])
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(RankChannel, 0, 2, address, 4.0)
            other = pool.submit(RankChannel, 2, 3, address, 4.0)
            told = "A process connected as rank 2 of 3, but rank 0 expects 2 ranks"
            with pytest.raises(RankError, match=told):
                other.result()
            with pytest.raises(RankError, match=f"Rank 1 of 2 did not connect within 4 s.*{told}"):
                first.result()


class TestRanksThatDoNotTrust:
    @pytest.mark.slow
    @pytest.mark.parametrize("mine", ["", "another secret of mine"])
    def test_another_secret(self, monkeypatch, mine, log_lines):
        """A rank with another secret, or none, does not trust the hub; the other ranks are not disturbed."""
        address = ("127.0.0.1", free_ports(1)[0])

        def rank(number, secret, limit):
            return RankChannel(number, 2, address, limit, credentials=Credentials(secret))

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(rank, 0, SECRET, 60.0)
            with pytest.raises(RankError, match="could not reach rank 0 .* did not prove that it knows"):
                rank(1, mine, 2.0)
            second = rank(1, SECRET, 60.0)
            assert first.result().failure is None
            second.close()
            first.result().close()
        assert 1 == len([line for line in log_lines if "Rank 1 does not trust 127.0.0.1" in line])

    @pytest.mark.parametrize("said", [b"welcome\n", b"0" * 64 + b" " + b"0" * 64 + b"\n", b"x" * 100_000])
    def test_a_false_hub(self, said):
        """A rank sends only its challenge to a server that does not know the secret."""
        heard = []

        def pretend(listener):
            while not heard or heard[-1]:
                connection, _ = listener.accept()
                with connection:
                    heard.append(connection.recv(4096))
                    if heard[-1]:
                        connection.sendall(said)
                        connection.settimeout(60.0)
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
            thread.join(60.0)
        assert re.fullmatch(rb"tensorpack_lite ranks 3 [0-9a-f]{64}\n", heard[0])
        assert b"closed" == heard[1]

    def test_a_hub_that_sends_an_invalid_message(self):
        """An invalid message of the hub is a failure of the rank that receives it."""
        channels, address = [], ("127.0.0.1", free_ports(1)[0])
        with ThreadPoolExecutor(2) as pool:
            pending = [pool.submit(RankChannel, rank, 2, address, 60.0) for rank in range(2)]
            channels = [each.result() for each in pending]
        hub = channels[0]._hub
        while hub._ranks[1].unsent:  # its thread has sent the last message, but has not removed it yet
            time.sleep(0.001)
        hub._send(hub._ranks[1], b"[" * 200_000 + b"\n")
        assert "Rank 0, the chief, sent a message that rank 1 rejects" in channels[1].wait_for_failure(60)
        for channel in channels[::-1]:
            channel.close()


def attack(number):
    """Attack a hub with two ranks, also while the third joins. Return the growth of memory, the ranks' results and the refusals."""
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
        """Hostile connections do not disturb the ranks, do not keep one from joining, and cost less than 16 MB."""
        growth, ends, num_refused = attack(number)
        assert [[0, 1, "enough"]] * 2 == ends
        assert 0 == num_refused
        assert growth < 16 << 20

"""utils/rendezvous.py: the store in which Horovod's processes find each other."""

from __future__ import annotations

import http.client
import socket

import pytest

from tensorpack_lite.utils import rendezvous
from tensorpack_lite.utils.cluster import free_ports
from tensorpack_lite.utils.rendezvous import RendezvousServer, RendezvousStore


@pytest.fixture
def server():
    one = RendezvousServer(2, "127.0.0.1")
    yield one
    one.stop()


def ask(server, method, path, body=None, headers=None):
    """Send one request; gives status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


class TestServer:
    def test_values(self, server):
        """Any bytes, by scope and key; what is not there is a 404."""
        value = bytes(range(256))
        assert (200, b"") == ask(server, "PUT", "/global/0", value)
        assert (200, value) == ask(server, "GET", "/global/0")
        assert (404, b"") == ask(server, "GET", "/global/1")
        assert (404, b"") == ask(server, "GET", "/local/0")

    @pytest.mark.parametrize(("scope", "ranks"), [("global", 2), ("local_127.0.0.1", 2), ("cross_1", 1)])
    def test_a_scope_that_all_have_left(self, server, scope, ranks):
        """Is empty, so that the same processes can start again; Gloo's scope across machines has one rank here."""
        ask(server, "PUT", f"/{scope}/0", b"here")
        for rank in range(ranks):
            assert (200, b"here") == ask(server, "GET", f"/{scope}/0")
            assert (200, b"") == ask(server, "DELETE", f"/{scope}/{rank}")
        assert (404, b"") == ask(server, "GET", f"/{scope}/0")

    @pytest.mark.parametrize(
        ("method", "path", "headers"),
        [
            ("GET", "/global", {}),
            ("PUT", "/global//0", {}),
            ("DELETE", "/", {}),
            ("PUT", "/global/0", {"Content-Length": "many"}),
            ("PUT", "/global/0", {"Content-Length": str(2 << 20)}),
            ("PUT", "/global/0", {"Content-Length": "9" * 5000}),
            ("PUT", "/global/0", {"Content-Length": "\u00b2"}),
            ("GET", f"/global/{'k' * 1000}", {}),
        ],
    )
    def test_what_it_does_not_understand(self, server, method, path, headers):
        """Is answered with 400."""
        assert (400, b"") == ask(server, method, path, headers=headers)

    def test_what_it_holds_is_bounded(self, server, monkeypatch):
        """A value for which there is no room is refused, and what is there stays and can be replaced."""
        monkeypatch.setattr(rendezvous, "_LARGEST_TOTAL", 10_000)
        assert [200, 200, 200, 507, 507] == [
            ask(server, "PUT", f"/{scope}/key", b"v" * 1000)[0] for scope in "abcde"
        ]
        assert (200, b"") == ask(server, "PUT", "/a/key", b"w")
        assert (200, b"w") == ask(server, "GET", "/a/key")

    def test_leaving_what_is_not_there(self, server):
        """A scope that nobody has put a value into takes no memory."""
        assert (200, b"") == ask(server, "DELETE", "/none/0")
        assert {} == server._server.done

    def test_many_connections(self, server, capfd):
        """Connections that say nothing do not keep the ranks out: the oldest ones are closed, without a word."""
        address = ("127.0.0.1", server.port)
        silent = [socket.create_connection(address, timeout=10) for _ in range(40)]
        assert [b""] * 8 == [each.recv(1) for each in silent[:8]]
        assert (200, b"") == ask(server, "PUT", "/global/0", b"here")
        for each in silent:
            each.close()
        assert "" == capfd.readouterr().err

    def test_other_interfaces(self):
        """The store is for this machine only, because nobody proves anything to it."""
        with pytest.raises(ValueError, match="expected a loopback address such as 127.0.0.1, got '0.0.0.0'"):
            RendezvousServer(2, "0.0.0.0")

    def test_its_port(self, server):
        """Is another for each server, and free after it."""
        other = RendezvousServer(2, "127.0.0.1")
        assert other.port != server.port
        other.stop()
        with pytest.raises(OSError, match="refused"):
            ask(other, "GET", "/a/b")


class TestStore:
    def test_put_and_get(self, server):
        """Text, in a scope of its own."""
        store = RendezvousStore("127.0.0.1", server.port, "mine")
        assert store.get("key") is None
        store.put("key", "välue")
        assert "välue" == store.get("key") == store.wait("key", 0.0)
        assert RendezvousStore("127.0.0.1", server.port, "other").get("key") is None

    def test_waiting_in_vain(self, server):
        """Gives None."""
        assert RendezvousStore("127.0.0.1", server.port, "mine").wait("key", 0.1) is None

    def test_nobody_there(self):
        """Is an OSError."""
        with pytest.raises(OSError, match="refused"):
            RendezvousStore("127.0.0.1", free_ports(1)[0], "mine").get("key")

    def test_a_value_that_is_refused(self, server):
        """Is an OSError, too."""
        with pytest.raises(OSError, match="answered 400"):
            RendezvousStore("127.0.0.1", server.port, "mine").put("", "value")

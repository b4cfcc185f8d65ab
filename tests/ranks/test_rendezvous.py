"""ranks/rendezvous.py: the key-value store through which Horovod's processes find each other."""

from __future__ import annotations

import http.client
import socket

import pytest

from tensorpack_lite.ranks import rendezvous
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.rendezvous import RendezvousServer, RendezvousStore


@pytest.fixture
def server():
    one = RendezvousServer(2, "127.0.0.1")
    yield one
    one.stop()


def ask(server, method, path, body=None, headers=None):
    """Send one request, and return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


class TestServer:
    def test_values(self, server):
        """The server stores bytes by scope and key; a missing key is a 404."""
        value = bytes(range(256))
        assert (200, b"") == ask(server, "PUT", "/global/0", value)
        assert (200, value) == ask(server, "GET", "/global/0")
        assert (404, b"") == ask(server, "GET", "/global/1")
        assert (404, b"") == ask(server, "GET", "/local/0")

    @pytest.mark.parametrize(("scope", "ranks"), [("global", 2), ("local_127.0.0.1", 2), ("cross_1", 1)])
    def test_a_scope_that_all_have_left(self, server, scope, ranks):
        """A scope is cleared when all its ranks have left it; Gloo's scope across machines has one rank here."""
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
    def test_invalid_requests(self, server, method, path, headers):
        """The answer to an invalid request is 400."""
        assert (400, b"") == ask(server, method, path, headers=headers)

    def test_memory_is_bounded(self, server, monkeypatch):
        """A full store refuses new values; stored values stay and can be replaced."""
        monkeypatch.setattr(rendezvous, "_LARGEST_TOTAL", 10_000)
        assert [200, 200, 200, 507, 507] == [ask(server, "PUT", f"/{scope}/key", b"v" * 1000)[0] for scope in "abcde"]
        assert (200, b"") == ask(server, "PUT", "/a/key", b"w")
        assert (200, b"w") == ask(server, "GET", "/a/key")

    def test_leaving_an_unknown_scope(self, server):
        """Leaving a scope without values takes no memory."""
        assert (200, b"") == ask(server, "DELETE", "/none/0")
        assert {} == server._done

    @pytest.mark.slow
    def test_many_connections(self, server, capfd):
        """Silent connections do not keep ranks out: the oldest ones are closed, and nothing is logged."""
        address = ("127.0.0.1", server.port)
        silent = [socket.create_connection(address, timeout=10) for _ in range(40)]
        assert [b""] * 8 == [each.recv(1) for each in silent[:8]]
        assert (200, b"") == ask(server, "PUT", "/global/0", b"here")
        for each in silent:
            each.close()
        assert "" == capfd.readouterr().err

    def test_other_interfaces(self):
        """The server only listens on the loopback interface, because it cannot authenticate its clients."""
        with pytest.raises(ValueError, match="expected a loopback address such as 127.0.0.1, got '0.0.0.0'"):
            RendezvousServer(2, "0.0.0.0")

    def test_its_port(self, server):
        """Each server has another port, and frees it when it stops."""
        other = RendezvousServer(2, "127.0.0.1")
        assert other.port != server.port
        other.stop()
        with pytest.raises(OSError, match="refused"):
            ask(other, "GET", "/a/b")


class TestStore:
    def test_put_and_get(self, server):
        """A client stores and reads text in its scope."""
        store = RendezvousStore("127.0.0.1", server.port, "mine")
        assert store.get("key") is None
        store.put("key", "välue")
        assert "välue" == store.get("key") == store.wait("key", 0.0)
        assert RendezvousStore("127.0.0.1", server.port, "other").get("key") is None

    def test_wait_times_out(self, server):
        """`wait` returns None after its time limit."""
        assert RendezvousStore("127.0.0.1", server.port, "mine").wait("key", 0.1) is None

    def test_no_server(self):
        """A server that cannot be reached is an OSError."""
        with pytest.raises(OSError, match="refused"):
            RendezvousStore("127.0.0.1", free_ports(1)[0], "mine").get("key")

    def test_a_value_that_is_refused(self, server):
        """A value that the server refuses is an OSError."""
        with pytest.raises(OSError, match="answered 400"):
            RendezvousStore("127.0.0.1", server.port, "mine").put("", "value")

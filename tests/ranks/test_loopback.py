"""ranks/loopback.py on real sockets; see tests/train/test_collective_network.py for other machines and private networks."""

from __future__ import annotations

import socket
import sys

import pytest

from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.loopback import is_loopback, restrict_to_loopback

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")


@pytest.mark.parametrize(
    ("host", "is_so"),
    [("localhost", True), ("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("[::1]", True)]
    + [("192.0.2.1", False), ("0.0.0.0", False), ("localhost.example.org", False), ("", False)],
)
def test_is_loopback(host, is_so):
    """Only `localhost` and addresses of the loopback interface are loopback hosts."""
    assert is_so == is_loopback(host)


class TestRestricting:
    @pytest.fixture(params=[("0.0.0.0", socket.AF_INET), ("::", socket.AF_INET6)])
    def server(self, request):
        """A server on every interface, IPv4 only or both."""
        host, family = request.param
        with socket.socket(family) as one:
            one.bind((host, 0))
            one.listen(5)
            yield one

    def test_a_server(self, server):
        """The server is bound to the loopback interface, and this machine can still reach it."""
        port = server.getsockname()[1]
        restrict_to_loopback(port)
        assert b"lo" == server.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0")
        socket.create_connection(("127.0.0.1", port)).close()

    def test_earlier_connections(self, server):
        """Earlier connections are closed, whether the server has accepted them or not."""
        port = server.getsockname()[1]
        accepted, waiting = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(2)]
        with accepted, waiting, server.accept()[0] as other_end:
            restrict_to_loopback(port)
            assert b"" == accepted.recv(1) == waiting.recv(1) == other_end.recv(1)

    def test_no_server(self):
        """It is an error that names the port if this process has no server on it."""
        port = free_ports(1)[0]
        with pytest.raises(OSError, match=f"this process does not listen on port {port}"):
            restrict_to_loopback(port)

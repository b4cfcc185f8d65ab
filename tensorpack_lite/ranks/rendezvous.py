"""
Key-value store over HTTP through which Horovod's processes find each other, with the requests that Gloo makes.

`PUT /scope/key` stores the body, `GET /scope/key` returns it (404 if there is none yet), and `DELETE
/scope/rank` means that a rank no longer needs the scope; after the last rank, the scope is cleared.
`horovodrun` has such a server; the launcher serves this one, so it does not need Horovod. Values are bytes
and are never executed.

Gloo cannot authenticate itself, so any process that reaches the store can read and change it. Therefore the server only
listens on the loopback interface, or answers only the machines of ranks that have authenticated themselves otherwise, and
bounds its memory and its connections.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Iterable

from .loopback import is_loopback

_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 5.0
_LARGEST_VALUE = 1 << 16
_LARGEST_TOTAL = 16 << 20
_ENTRY_BYTES = 2048  # upper bound of the memory that a value needs besides its bytes
_LONGEST_NAME = 300  # of a scope or a key
_CONNECTIONS_A_RANK = 16


class RendezvousServer(socketserver.ThreadingTCPServer):
    """
    Server of the store, in a thread that runs until `stop`.

    When there are too many connections, the oldest one is closed: a request of Gloo takes milliseconds.

    Args:
        size: number of ranks.
        host: address to listen on, at a free port; must belong to the loopback interface unless `peers` is given.
        peers: addresses of the machines that may connect; None if all ranks are on this machine.

    Attributes:
        port: the port of the server.

    Raises:
        ValueError: the host is not a loopback address.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, size: int, host: str, peers: Iterable[str] | None = None) -> None:
        self._peers = None if peers is None else {*peers, host}
        if self._peers is None and not is_loopback(host):
            raise ValueError(f"RendezvousServer: expected a loopback address such as 127.0.0.1, got {host!r}.")
        super().__init__((host, 0), _Handler)
        self.port: int = self.server_address[1]
        self._size = size
        self._lock = threading.Lock()
        self.values: dict[tuple[str, str], bytes] = {}  # by scope and key; replaced by each change
        self._done: dict[str, set] = {}
        self._connections: dict[socket.socket, None] = {}  # oldest first
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_SECONDS,), name="RendezvousServer", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and free the port."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def verify_request(self, request: Any, client_address: tuple[str, int]) -> bool:
        """Return whether a connection may make requests."""
        host = client_address[0]
        return self._peers is None or host in self._peers

    def process_request(self, request: Any, client_address: tuple[str, int]) -> None:
        """Start a thread for a connection."""
        with self._lock:
            self._connections[request] = None
            oldest = next(iter(self._connections))
            is_crowded = len(self._connections) > _CONNECTIONS_A_RANK * self._size
        if is_crowded:
            with contextlib.suppress(OSError):  # the connection has just ended by itself
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: tuple[str, int]) -> None:
        """Ignore broken connections, and report other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def put(self, scope: str, key: str, value: bytes) -> bool:
        """Store a value; return False if the store is full."""
        with self._lock:
            values = {**self.values, (scope, key): value}
            if sum(map(len, values.values())) + len(values) * _ENTRY_BYTES > _LARGEST_TOTAL:
                return False
            self.values = values
            return True

    def leave(self, scope: str, rank: str) -> None:
        """
        Record that a rank no longer needs a scope, and clear the scope after the last rank.

        Gloo has one scope of all ranks, one of the ranks of each machine, and one (`cross_...`) of one rank
        from each machine.
        """
        with self._lock:
            kept = {place: value for place, value in self.values.items() if place[0] != scope}
            if len(kept) == len(self.values):
                return
            done = self._done.setdefault(scope, set())
            done.add(rank)
            num_here = 1 if scope.startswith("cross_") else self._size
            # several machines have scopes of other sizes, which stay
            if len(done) == num_here and self._peers is None:
                self.values = kept
                del self._done[scope]


class RendezvousStore:
    """
    Client of the store.

    Args:
        host: host of the server.
        port: port of the server.
        scope: namespace of the keys.
    """

    def __init__(self, host: str, port: int, scope: str) -> None:
        self._host, self._port, self._scope = host, port, scope

    def put(self, key: str, value: str) -> None:
        """
        Store a value.

        Raises:
            OSError: the server cannot be reached, or refuses the value.
        """
        status, _ = self._request("PUT", key, value.encode("utf-8"))
        if status != 200:
            raise OSError(f"the store at {self._host}:{self._port} answered {status}")

    def get(self, key: str) -> str | None:
        """
        Return a value, or None if there is none.

        Raises:
            OSError: the server cannot be reached.
        """
        status, value = self._request("GET", key)
        return value.decode("utf-8") if status == 200 else None

    def wait(self, key: str, time_limit: float) -> str | None:
        """
        Wait for a value and return it, or None after `time_limit` seconds.

        Raises:
            OSError: the server cannot be reached.
        """
        deadline = time.monotonic() + time_limit
        while True:
            value = self.get(key)
            if value is not None or time.monotonic() > deadline:
                return value
            time.sleep(_POLL_SECONDS)

    def _request(self, method: str, key: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, f"/{self._scope}/{key}", body)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise OSError(f"{self._host}:{self._port} is not a rendezvous server of Horovod: {error!r}") from error
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: RendezvousServer
    timeout = _ANSWER_SECONDS

    def do_GET(self) -> None:
        """Return a value."""
        place = self._scope_and_key()
        if place:
            value = self.server.values.get(place)
            self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        """Store a value."""
        place, length = self._scope_and_key(), self.headers.get("Content-Length", "")
        if not place:
            return
        if not length.isdecimal() or len(length) > 10 or int(length) > _LARGEST_VALUE:
            self._answer(400)
            return
        value = self.rfile.read(int(length))
        if len(value) == int(length):  # otherwise the peer has gone
            self._answer(200 if self.server.put(*place, value) else 507)

    def do_DELETE(self) -> None:
        """Record that a rank no longer needs a scope."""
        place = self._scope_and_key()
        if place:
            self.server.leave(*place)
            self._answer(200)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because Gloo makes a hundred requests a second."""

    def _scope_and_key(self) -> tuple[str, str] | None:
        _, *parts = self.path.split("/")
        if len(parts) == 2 and all(0 < len(part) <= _LONGEST_NAME for part in parts):
            return parts[0], parts[1]
        self._answer(400)
        return None

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

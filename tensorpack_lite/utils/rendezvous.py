"""
Where Horovod's processes find each other: a store of values over HTTP, as its Gloo asks for one.

`PUT /scope/key` keeps the body, `GET /scope/key` gives it (404: not there yet), `DELETE /scope/rank` says that a rank has what it
needs; when all ranks of a scope have, the scope is emptied for the next time. `horovodrun` brings such a store; the launcher serves
this one, so that it needs no Horovod itself. Values are bytes; nothing that arrives is ever run.
"""

from __future__ import annotations

import http.client
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

__all__ = ["RendezvousServer", "RendezvousStore"]

_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 5.0
_LARGEST_VALUE = 1 << 20


class RendezvousServer:
    """
    Serve the store, in a thread, until `stop`.

    Args:
        size: how many ranks there are, all on this machine.
        host: the address to listen on, at a port that is free.

    Attributes:
        port: where it listens.

    tensorpack: new.
    """

    def __init__(self, size: int, host: str) -> None:
        self._server = _Server((host, 0), _Handler)
        self._server.size = size
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="RendezvousServer", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class RendezvousStore:
    """
    The store as a rank sees it.

    Args:
        host: of the server.
        port: of the server.
        scope: the values of one purpose; those of another are apart.

    tensorpack: new.
    """

    def __init__(self, host: str, port: int, scope: str) -> None:
        self._host, self._port, self._scope = host, port, scope

    def put(self, key: str, value: str) -> None:
        """
        Keep a value.

        Raises:
            OSError: the server cannot be reached, or refuses it.
        """
        status, _ = self._ask("PUT", key, value.encode("utf-8"))
        if status != 200:
            raise OSError(f"the store at {self._host}:{self._port} answered {status}")

    def get(self, key: str) -> str | None:
        """
        Get a value; None if it is not there.

        Raises:
            OSError: the server cannot be reached.
        """
        status, value = self._ask("GET", key)
        return value.decode("utf-8") if status == 200 else None

    def wait(self, key: str, time_limit: float) -> str | None:
        """
        Get a value as soon as it is there; None if it is not within so many seconds.

        Raises:
            OSError: the server cannot be reached.
        """
        deadline = time.monotonic() + time_limit
        while True:
            value = self.get(key)
            if value is not None or time.monotonic() > deadline:
                return value
            time.sleep(_POLL_SECONDS)

    def _ask(self, method: str, key: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, f"/{self._scope}/{key}", body)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise OSError(f"{self._host}:{self._port} is no store of Horovod's: {error!r}") from error
        finally:
            connection.close()


class _Server(socketserver.ThreadingTCPServer):
    """The values, by scope and key."""

    allow_reuse_address = True
    daemon_threads = True
    size = 1

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = threading.Lock()
        self.values: dict[str, dict[str, bytes]] = {}
        self.done: dict[str, set] = {}

    def leave(self, scope: str, rank: str) -> None:
        """Note that a rank is done with a scope. Gloo has scopes of all ranks, of those of a machine, and of one from each."""
        with self.lock:
            done = self.done.setdefault(scope, set())
            done.add(rank)
            if len(done) == (1 if scope.startswith("cross_") else self.size):
                self.values.pop(scope, None)
                self.done.pop(scope)


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    timeout = _ANSWER_SECONDS

    def do_GET(self) -> None:
        """Give a value."""
        place = self._place()
        if place:
            with self.server.lock:
                value = self.server.values.get(place[0], {}).get(place[1])
            self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        """Keep a value."""
        place, length = self._place(), self.headers.get("Content-Length", "")
        if not place:
            return
        if not length.isdigit() or int(length) > _LARGEST_VALUE:
            self._answer(400)
            return
        value = self.rfile.read(int(length))
        with self.server.lock:
            self.server.values.setdefault(place[0], {})[place[1]] = value
        self._answer(200)

    def do_DELETE(self) -> None:
        """Note that a rank is done."""
        place = self._place()
        if place:
            self.server.leave(*place)
            self._answer(200)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: Gloo asks a hundred times a second."""

    def _place(self) -> tuple[str, str] | None:
        _, *parts = self.path.split("/")
        if len(parts) == 2 and all(parts):
            return parts[0], parts[1]
        self._answer(400)
        return None

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

"""
A server of one page on the loopback interface, for a browser that follows a training.

In:  a function that makes the page.
Out: answers to `GET /TOKEN/`, where TOKEN is random. Every other request gets an empty answer with an error code.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Callable, Tuple

_HOST = "127.0.0.1"
_REFRESH_SECONDS = 10
_ANSWER_SECONDS = 5.0  # for each part of a request
_MAX_CONNECTIONS = 16
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ReportServer(ThreadingMixIn, HTTPServer):
    """
    Server of a page for one person on this machine. Call `serve_forever()`, and `server_close()` at the end.

    It reads no file by itself and changes nothing. The page is regenerated at most every few seconds.

    Args:
        make: returns the page, and whether it will change, so that the browser loads it again.
        port: a port of this machine; 0 means any free one.
        seconds: the time for which a page is kept.

    Raises:
        OSError: the port is not free.

    Attributes:
        url: the address with the token. It is all that a reader of the page needs.
    """

    daemon_threads = True

    def __init__(self, make: Callable[[], Tuple[str, bool]], port: int = 0, seconds: float = 5.0) -> None:
        super().__init__((_HOST, port), _Handler)
        token = secrets.token_urlsafe(24)
        self.path = f"/{token}/".encode("ascii")
        self.hosts = [f"{name}:{self.server_port}" for name in (_HOST, "localhost")]
        self.url = f"http://{self.hosts[0]}/{token}/"
        self._make, self._seconds = make, seconds
        self._made: Tuple[str, bool] = ("", True)
        self._time: float | None = None
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)

    def page(self) -> Tuple[str, bool]:
        """Return the page and whether it will change, made now or a few seconds ago."""
        with self._lock:
            if self._time is None or time.monotonic() - self._time > self._seconds:
                self._made = self._make()
                self._time = time.monotonic()
            return self._made

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection if too many others are open."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore that a peer has closed its connection. Errors of the page are answered before."""


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: ReportServer
    timeout = _ANSWER_SECONDS

    def do_GET(self) -> None:
        """Send the page if the host and the path are exactly those of `url`."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:  # another site whose name means this machine
            self._answer(403)
        elif not hmac.compare_digest(self._path_as_sent(), self.server.path):
            self._answer(404)
        else:
            self._send_page()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a wrong request, or a method other than GET, without a page that repeats it."""
        self._answer(code)

    def version_string(self) -> str:
        """Return the name of the server, without the version of Python."""
        return "tensorpack_lite"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the address has the token."""

    def _path_as_sent(self) -> bytes:
        """Return the path of the request; Python removes slashes from `path`."""
        return self.requestline.split()[1].encode("latin-1")

    def _send_page(self) -> None:
        try:
            page, will_change = self.server.page()
        except OSError:  # the directory is gone
            self._answer(503)
            return
        self._answer(200, page.encode("utf-8"), _REFRESH_SECONDS if will_change else None)

    def _answer(self, status: int, body: bytes = b"", refresh: int | None = None) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if refresh is not None:
            self.send_header("Refresh", str(refresh))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

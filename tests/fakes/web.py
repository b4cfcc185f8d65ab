"""A local web server for downloads."""

from __future__ import annotations

import functools
import http.server
import threading
from contextlib import contextmanager


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a directory and records the requested paths."""

    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@contextmanager
def serving(directory):
    """Serve a directory. Yield its URL, which ends in a slash, and the list of requested paths."""
    handler = functools.partial(_Quiet, directory=str(directory))
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", server.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

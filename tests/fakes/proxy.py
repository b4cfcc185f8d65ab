"""
Proxy for TCP connections that adds latency, simulates lost packets, and resets connections.

Arguments: the delay of each direction in ms, the share of lost packets, and routes such as `3000=10.88.0.1:3000`. It prints "ready" when it
listens. SIGUSR1 resets all connections.
"""

from __future__ import annotations

import heapq
import itertools
import random
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress

__all__ = ["Proxy"]

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
_RETRANSMIT_SECONDS = 0.25  # after which TCP sends a lost packet again
_SEND_SECONDS = 10.0


class Proxy:
    """
    Proxy that runs in a thread between `start` and `stop`.

    Args:
        routes: the ports of the proxy, and the host and port to which each leads. Port 0 is any free one.
        delay: seconds that each direction takes.
        loss: the share of the pieces of a stream that come later, as if a packet had been lost.

    Attributes:
        ports: the ports of the proxy, in the order of routes.
        num_late: how many pieces came later.
    """

    def __init__(self, routes, delay=0.0, loss=0.0):
        self._delay, self._loss, self._random = delay, loss, random.Random(1)
        self._selector, self._pieces, self._last_due = selectors.DefaultSelector(), [], {}
        self._other_end, self._wanted, self._count = {}, [], itertools.count()
        self._waker, self._wakes = socket.socketpair()
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self.ports, self.num_late = [], 0
        for port, target in routes:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(100)
            self.ports.append(listener.getsockname()[1])
            self._selector.register(listener, selectors.EVENT_READ, target)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        """Start the thread."""
        self._thread.start()
        return self

    def reset(self):
        """Reset all connections: both ends receive RST."""
        self._ask("reset")

    def stop(self):
        """End the proxy and its connections."""
        self._ask("stop")
        self._thread.join()
        self._waker.close()

    def _ask(self, wanted):
        self._wanted.append(wanted)
        self._waker.sendall(b".")

    def _run(self):
        wanted = ""
        while wanted != "stop":
            wait = self._pieces[0][0] - time.monotonic() if self._pieces else 1.0
            for key, _ in self._selector.select(max(0.0, wait)):
                if key.fileobj is self._wakes:
                    self._wakes.recv(1)
                    wanted = self._wanted.pop(0)
                    self._reset()
                elif key.data is not None:
                    self._connect(key.fileobj.accept()[0], key.data)
                elif key.fileobj in self._other_end:  # else it was closed since
                    self._receive(key.fileobj)
            while self._pieces and self._pieces[0][0] <= time.monotonic():
                self._send(*heapq.heappop(self._pieces)[2:])
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _connect(self, connection, target):
        try:
            onward = socket.create_connection(target, _SEND_SECONDS)
        except OSError:
            connection.close()
            return
        for one, other in ((connection, onward), (onward, connection)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(_SEND_SECONDS)
            self._other_end[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _receive(self, connection):
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection)
        is_late = self._random.random() < self._loss
        self.num_late += is_late
        due = time.monotonic() + self._delay + is_late * _RETRANSMIT_SECONDS
        due = self._last_due[connection] = max(due, self._last_due.get(connection, 0.0))
        heapq.heappush(self._pieces, (due, next(self._count), connection, data))

    def _send(self, connection, data):
        other = self._other_end.get(connection)
        if other is None:
            return
        with suppress(OSError):  # the other end has gone
            other.sendall(data)
            if not data:
                other.shutdown(socket.SHUT_WR)

    def _reset(self):
        for connection in list(self._other_end):
            if connection in self._selector.get_map():
                self._selector.unregister(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            connection.close()
        self._other_end.clear()
        self._last_due.clear()
        self._pieces.clear()


def _parse(route):
    port, target = route.split("=")
    host, target_port = target.rsplit(":", 1)
    return int(port), (host, int(target_port))


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    proxy = Proxy([_parse(route) for route in sys.argv[3:]], float(sys.argv[1]) / 1e3, float(sys.argv[2])).start()
    print("ready", flush=True)
    while True:
        signal.sigwait([signal.SIGUSR1])
        print(f"reset after {proxy.num_late} late pieces", flush=True)
        proxy.reset()

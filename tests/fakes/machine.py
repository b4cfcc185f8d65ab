"""
A second machine: a process in another network namespace, connected to this one by a virtual cable.

    unshare --map-root-user --net python machine.py NUMBER ARGS...

runs Python with ARGS on "this machine", whose address is 10.77.0.1. Whenever the script prints `port N NAME`, a process on
the other machine, 10.77.0.2, connects to that port, and "NAME reached", "NAME refused" or "NAME" with another error is
printed. After NUMBER ports, the script gets SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

from fakes.launching import environment

from tensorpack_lite.ranks.loopback import enter_private_network

HERE, THERE = "10.77.0.1", "10.77.0.2"


def why_not():
    """Return the reason why this system cannot provide a second machine, or an empty string."""
    missing = [name for name in ("ip", "unshare") if not shutil.which(name)]
    if missing:
        return f"needs the command {missing[0]}"
    ended = subprocess.run(command(0, "-c", ""), stderr=subprocess.PIPE, env=environment(), check=False)
    return "" if ended.returncode == 0 else f"network namespaces are not available: {ended.stderr[-300:].decode()}"


def command(number, *args):
    """Return a command that runs Python with these arguments on a network of two machines."""
    unshare = ["unshare", "--map-root-user", "--net"]
    return [*unshare, sys.executable, "-W", "ignore", __file__, *map(str, [number, *args])]


def ip(line):
    """Run the command `ip`."""
    subprocess.run(["ip", *line.split()], check=True)


@contextlib.contextmanager
def other_machine():
    """Join the private networks of this process and a child. Yield a function that connects from the child."""
    mine, others = socket.socketpair()
    child = os.fork()
    if child == 0:
        mine.close()
        _be_the_other(others)
        os._exit(0)
    others.close()
    try:
        assert mine.recv(10) == b"there"
        ip("link add cable0 type veth peer name cable1")
        ip(f"link set cable1 netns {child}")
        ip(f"addr add {HERE}/24 dev cable0")
        ip("link set cable0 up")
        mine.sendall(b"joined")

        def connect(host, port):
            mine.sendall(f"{host} {port}".encode())
            return mine.recv(100).decode()

        yield connect
    finally:
        mine.close()
        os.waitpid(child, 0)


def _be_the_other(channel):
    enter_private_network()
    channel.sendall(b"there")
    channel.recv(10)
    ip(f"addr add {THERE}/24 dev cable1")
    ip("link set cable1 up")
    while True:
        asked = channel.recv(100).decode().split()
        if not asked:
            return
        try:
            socket.create_connection((asked[0], int(asked[1])), timeout=3.0).close()
            channel.sendall(b"reached")
        except ConnectionRefusedError:
            channel.sendall(b"refused")
        except OSError as error:
            channel.sendall(type(error).__name__.encode())


def main(number, args):
    """Run Python with these arguments on a network of two machines."""
    ip("link set lo up")
    with other_machine() as connect:
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", *args], stdout=subprocess.PIPE, universal_newlines=True
        ) as here:
            for line in here.stdout:
                asked = re.search(r"port (\d+) ([\w-]+)$", line)
                if asked and number > 0:
                    print(asked.group(2), connect(HERE, asked.group(1)), flush=True)
                    number -= 1
                    if number == 0:
                        here.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

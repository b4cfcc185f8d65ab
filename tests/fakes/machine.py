"""
A second machine: a process in a network namespace, joined by a cable to another one, which is this machine.

    unshare --map-root-user --net python machine.py NUMBER ARGS...

runs Python on some arguments on "this machine", whose address is 10.77.0.1. Each time that it prints `port N NAME`, a process on the other
machine, 10.77.0.2, connects to this port, and "NAME reached", "NAME refused" or the name of another error is printed. After so many
ports the Python process gets SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

from fakes.launching import environment

from tensorpack_lite.utils.loopback import enter_private_network

HERE, THERE = "10.77.0.1", "10.77.0.2"


def why_not():
    """Return why there cannot be a second machine here, or an empty string."""
    missing = [name for name in ("ip", "unshare") if not shutil.which(name)]
    if missing:
        return f"needs the command {missing[0]}"
    ended = subprocess.run(command(0, "-c", ""), stderr=subprocess.PIPE, env=environment(), check=False)
    return "" if ended.returncode == 0 else f"no network namespaces here: {ended.stderr[-300:].decode()}"


def command(number, *args):
    """Return the command that runs Python on arguments between two machines, and connects to so many ports."""
    unshare = ["unshare", "--map-root-user", "--net"]
    return [*unshare, sys.executable, "-W", "ignore", __file__, *map(str, [number, *args])]


def ip(line):
    """Run the command `ip`."""
    subprocess.run(["ip", *line.split()], check=True)


@contextlib.contextmanager
def other_machine():
    """Join this process's private network to that of a child, which answers ports by what came of connecting to them."""
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
    """Run Python on arguments between two machines."""
    ip("link set lo up")
    with other_machine() as connect:
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", *args], stdout=subprocess.PIPE, universal_newlines=True
        ) as here:
            for line in here.stdout:
                _, _, asked = line.partition("port ")
                if asked and number > 0:
                    port, name = asked.split()
                    print(name, connect(HERE, port), flush=True)
                    number -= 1
                    if number == 0:
                        here.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

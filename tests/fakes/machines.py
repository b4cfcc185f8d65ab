"""Machines for tests: processes in their own network, host name and list of hosts, connected by a bridge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Callable, Iterator, Sequence

from fakes.patience import PATIENCE

from tensorpack_lite.utils.concurrency import enable_death_signal

__all__ = ["Machine", "make_machines"]

_NETWORK, _NETWORK6 = "10.88.0", "fd00:88::"


class Machine:
    """
    A machine of the test's network. It ends with the test, and everything that it has started ends with it.

    Attributes:
        name: its host name, which all machines of the network know.
        address, address6: its addresses.
        hosts: the file that is its /etc/hosts.
        pid: the process that keeps its namespaces.
    """

    def __init__(self, number: int, name: str, hosts: Path) -> None:
        self.name, self.number, self.hosts = name, number, hosts
        self.address, self.address6 = f"{_NETWORK}.{number}", f"{_NETWORK6}{number:x}"
        self._started: list[subprocess.Popen] = []
        # A separate mount namespace, for /etc/hosts. Files are shared otherwise, like a cluster's file system.
        keep = f"mount --bind {hosts} /etc/hosts && hostname {name} && echo ready && exec sleep infinity >&-"
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", keep],
            stdout=subprocess.PIPE,
            preexec_fn=_end_with_the_test,
        )
        self.pid = self._keeper.pid
        with self._keeper.stdout as output:  # type: ignore[union-attr]
            is_ready = bool(output.readline())
        if not is_ready:
            self._keeper.wait()
            raise OSError("cannot make a machine: it needs root and Linux namespaces")

    def command(self, *command: object) -> list[str]:
        """Return the command that runs a command on this machine."""
        enter = ["nsenter", "-t", str(self.pid), "--net", "--uts", "--mount", f"--wd={os.getcwd()}"]
        return [*enter, *map(str, command)]

    def start(self, *command: object, **options: object) -> subprocess.Popen:
        """Start a command on this machine. It is killed when the machine ends."""
        process = subprocess.Popen(
            self.command(*command), preexec_fn=_end_with_the_test, start_new_session=True, **options
        )  # type: ignore[call-overload]
        self._started.append(process)
        return process

    def run(self, *command: object, timeout: float = PATIENCE, **options: object) -> subprocess.CompletedProcess:
        """Run a command on this machine, and return its exit code and output."""
        return subprocess.run(  # type: ignore[call-overload]
            self.command(*command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            **options,
        )

    def connect(self, is_up: bool) -> None:
        """Connect the machine to the network, or disconnect it."""
        subprocess.run(self.command("ip", "link", "set", "eth0", "up" if is_up else "down"), check=True)
        if is_up:  # the kernel removes IPv6 addresses from an interface that is down
            address = ["ip", "addr", "replace", f"{self.address6}/64", "dev", "eth0", "nodad"]
            subprocess.run(self.command(*address), check=True)

    @contextmanager
    def changed_hosts(self, change: Callable[[str], str]) -> Iterator[None]:
        """Change the machine's /etc/hosts within the context."""
        before = self.hosts.read_text()
        self.hosts.write_text(change(before))
        try:
            yield
        finally:
            self.hosts.write_text(before)

    def end(self) -> None:
        """Kill what runs on the machine, and remove it."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pid in _processes_in(os.readlink(f"/proc/{self.pid}/ns/net")):
            if pid != self.pid:
                os.kill(pid, signal.SIGKILL)
        self._keeper.kill()
        self._keeper.wait()


@contextmanager
def make_machines(names: Sequence[str], directory: Path) -> Iterator[list[Machine]]:
    """
    Yield machines with these names in one network.

    Args:
        names: host names.
        directory: where the lists of hosts are written: `hosts-<name>`, which a test may change.
    """
    lines = [f"{_NETWORK}.{number} {name}" for number, name in enumerate(names, 1)]
    with ExitStack() as stack:
        switch = Machine(254, "switch", _write_hosts(directory / "hosts-switch", []))
        stack.callback(switch.end)
        _check(switch.run("sh", "-c", "ip link set lo up && ip link add bridge type bridge && ip link set bridge up"))
        machines = []
        for number, name in enumerate(names, 1):
            machine = Machine(number, name, _write_hosts(directory / f"hosts-{name}", lines))
            stack.callback(machine.end)
            _connect(machine, switch)
            machines.append(machine)
        yield machines


def _write_hosts(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(["127.0.0.1 localhost", "::1 localhost ip6-localhost", *lines, ""]))
    return path


def _connect(machine: Machine, switch: Machine) -> None:
    """Connect a machine to the bridge by a pair of virtual interfaces."""
    port = f"port{machine.number}"
    pair = f"ip link add eth0 type veth peer name {port} netns {switch.pid}"
    addresses = f"ip addr add {machine.address}/24 dev eth0 && ip addr add {machine.address6}/64 dev eth0 nodad"
    up = f"ip link set lo up && {addresses} && ip link set eth0 up"
    _check(machine.run("sh", "-c", f"{pair} && {up}"))
    _check(switch.run("sh", "-c", f"ip link set {port} master bridge && ip link set {port} up"))


def _check(result: subprocess.CompletedProcess) -> None:
    if result.returncode:
        raise OSError(f"cannot set up the network: {result.stdout}")


def _processes_in(namespace: str) -> list[int]:
    """Return the processes in a network namespace."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/net") == namespace:
                found.append(int(entry))
        except OSError:
            continue  # it has ended
    return found


def _end_with_the_test() -> None:
    enable_death_signal(_warn=False)


if __name__ == "__main__":  # a shell on the first of three machines, to look around
    import tempfile

    with make_machines(["node1", "node2", "node3"], Path(tempfile.mkdtemp())) as nodes:
        sys.exit(subprocess.call(nodes[0].command("bash")))

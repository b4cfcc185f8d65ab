"""Meetings of the ranks of a job: the address, the secret, and the machines that the ranks learn of there."""

from __future__ import annotations

import socket
from typing import NamedTuple

from ..utils.secret import find_job_secret
from .authentication import Credentials
from .channel import RankChannel
from .cluster import Cluster, format_address
from .connecting import plain_host
from .loopback import is_loopback
from .rank_info import RankInfo

_VARIABLES = ("TENSORPACK_RANKS_ADDRESS", "TENSORPACK_LITE_SECRET")
_MPI_LINES = {
    "mpirun": "mpirun -x {0}={2} -x {1} -np {3} ... python train.py",
    "mpiexec": "mpiexec -genv {0} {2} -genvlist {1} -n {3} ... python train.py",
}


class Meeting(NamedTuple):
    """
    The address at which the ranks of a job meet, and the conditions to join.

    Attributes:
        address: host and port of the ranks' channel.
        credentials: the conditions for a peer to join.
        other_ports: more ports; rank 0 listens at the first one that is free.
    """

    address: tuple[str, int]
    credentials: Credentials
    other_ports: tuple[int, ...] = ()

    def describe(self) -> str:
        """Return a sentence with the address, and one about the secret."""
        host, port = self.address
        more = f"s {port} and {len(self.other_ports)} more" if self.other_ports else f" {port}"
        return f"Rank 0: {host}, port{more}. {self.credentials.describe()}"


def plan_meeting(place: RankInfo) -> Meeting:
    """
    Return where the ranks meet.

    Args:
        place: that of this process. The secret is that of `secret.find_job_secret`.

    Raises:
        ValueError: the address of rank 0 is not known; the secret is missing, or too short.
        OSError: the file with the secret cannot be read, or others can read it.
    """
    if not place.host:
        where = "127.0.0.1:2222" if place.is_on_one_machine else "<host of rank 0>:2222"
        line = _MPI_LINES.get(place.launcher, "").format(*_VARIABLES, where, place.size)
        raise ValueError(
            f"{place.launcher} started {place.size} ranks, and its variables do not tell where they meet. Set {_VARIABLES[0]}, "
            f"the same for all ranks, to the host of rank 0 and a free port there{': ' * bool(line)}{line}"
        )
    secret = find_job_secret()
    if not secret and not place.hosts and not place.is_on_one_machine:
        raise ValueError(
            f"{place.launcher} started ranks on several machines whose names are not known, so they need a secret to recognize each "
            f"other. Set the same one for all of them: export {_VARIABLES[1]}=$(openssl rand -hex 32)"
        )
    hosts = () if place.is_on_one_machine else (*place.hosts, place.host)
    credentials = Credentials(secret, hosts, place.job, place.variables, place.rank_hosts)
    return Meeting((place.host, place.ports[0]), credentials, place.ports[1:])


class Machines(NamedTuple):
    """
    The machines of the ranks.

    Attributes:
        addresses: for each rank, the address and port of its TensorFlow server, as other ranks reach it.
        names: for each rank, the name of its machine.
    """

    addresses: list[str]
    names: list[str]

    def cluster(self, rank: int) -> Cluster:
        """Return the cluster, in which all ranks are workers."""
        return Cluster({"worker": self.addresses}, "worker", rank)

    def local(self, rank: int) -> tuple[int, int]:
        """Return the number of a rank among those of its machine, and their number."""
        same = [peer for peer, name in enumerate(self.names) if name == self.names[rank]]
        return same.index(rank), len(same)


def gather_machines(channel: RankChannel, port: int = 0) -> Machines:
    """
    Exchange the addresses of the ranks. All ranks must call it.

    The address of a rank is that of its connection to the hub. Ranks that reach the hub over the loopback interface are on the
    machine of rank 0, which has the address at which ranks of other machines reach the hub.

    Args:
        channel: the connection to the other ranks.
        port: the port of this rank's TensorFlow server; 0 if it has none.

    Raises:
        RankError: training cannot continue.
    """
    ends = [plain_host(end) for end in channel.ends]
    gathered = channel.all_gather("the addresses of the ranks", [*ends, socket.gethostname(), port])
    outside = [hub for own, hub, *_ in gathered if own != hub and not is_loopback(hub)]
    of_chief = outside[0] if outside else gathered[0][0]
    hosts = [of_chief if is_loopback(own) else own for own, *_ in gathered]
    addresses = [format_address(host, machine[3]) for host, machine in zip(hosts, gathered)]
    return Machines(addresses, [name for _, _, name, _ in gathered])

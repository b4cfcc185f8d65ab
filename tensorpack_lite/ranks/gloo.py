"""Gloo's rendezvous for ranks that have met over their channel, where no launcher of Horovod serves one."""

from __future__ import annotations

import psutil

from .channel import RankChannel
from .cluster import parse_address
from .connecting import plain_host
from .meeting import Machines, gather_machines
from .rendezvous import RendezvousServer


def serve_gloo(channel: RankChannel) -> tuple[dict[str, str], RendezvousServer | None]:
    """
    Serve the rendezvous on rank 0, for the addresses of the ranks only, and tell all ranks where it is. All ranks must call it.

    Args:
        channel: the connection to the other ranks.

    Returns:
        The variables with which Horovod finds its place and the rendezvous, and the server, which other ranks than 0 do not have.

    Raises:
        RankError: training cannot continue.
    """
    machines, server = gather_machines(channel), None
    hosts = [parse_address(address)[0] for address in machines.addresses]
    if channel.rank == 0:
        server = RendezvousServer(channel.size, hosts[0], hosts)
    port = channel.all_gather("the port of Gloo's rendezvous", None if server is None else server.port)[0]
    variables = gloo_variables(machines, channel.rank)
    interface = _interface(plain_host(channel.ends[0])) or _interface(hosts[channel.rank])
    return {
        **variables,
        **({"HOROVOD_GLOO_IFACE": interface} if interface else {}),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": hosts[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
    }, server


def gloo_variables(machines: Machines, rank: int) -> dict[str, str]:
    """Return the variables with the place of a rank, as a launcher of Horovod sets them."""
    local_rank, local_size = machines.local(rank)
    peers = [peer for peer in range(len(machines.names)) if machines.local(peer)[0] == local_rank]
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(len(machines.names)),
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_LOCAL_SIZE": str(local_size),
        "HOROVOD_CROSS_RANK": str(peers.index(rank)),
        "HOROVOD_CROSS_SIZE": str(len(peers)),
        "HOROVOD_HOSTNAME": machines.names[rank],
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def _interface(address: str) -> str:
    """Return the network interface of this machine that has an address; an empty string if none has it."""
    found = psutil.net_if_addrs()
    return next((name for name, addresses in found.items() if address in {entry.address for entry in addresses}), "")

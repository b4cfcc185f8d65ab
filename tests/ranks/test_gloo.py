"""ranks/gloo.py: Gloo's rendezvous for ranks that have met over their channel."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.gloo import gloo_variables, serve_gloo
from tensorpack_lite.ranks.meeting import Machines
from tensorpack_lite.ranks.rendezvous import RendezvousServer, RendezvousStore


def test_all_ranks_find_it():
    """Rank 0 serves the rendezvous, and all ranks know their place and where it is."""
    address = ("127.0.0.1", free_ports(1)[0])
    with ThreadPoolExecutor(2) as pool:
        channels = list(pool.map(lambda rank: RankChannel(rank, 2, address, 20.0), range(2)))
        (first, server), (second, nothing) = list(pool.map(serve_gloo, channels))
    try:
        assert nothing is None
        assert [("0", "2"), ("1", "2")] == [(each["HOROVOD_RANK"], each["HOROVOD_SIZE"]) for each in (first, second)]
        stores = [
            RendezvousStore(each["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(each["HOROVOD_GLOO_RENDEZVOUS_PORT"]), "global")
            for each in (first, second)
        ]
        stores[0].put("0", "here")
        assert "here" == stores[1].get("0")
        assert "lo" == first["HOROVOD_GLOO_IFACE"]
    finally:
        server.stop()
        for channel in channels[::-1]:
            channel.close()


def test_places():
    """Ranks of several machines have local places, and places among the ranks with the same local rank."""
    machines = Machines(["a:0"] * 5, ["x", "x", "y", "x", "y"])
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    places = [tuple(int(gloo_variables(machines, rank)[f"HOROVOD_{name}"]) for name in names) for rank in range(5)]
    assert [
        (0, 5, 0, 3, 0, 2),
        (1, 5, 1, 3, 0, 2),
        (2, 5, 0, 2, 1, 2),
        (3, 5, 2, 3, 0, 1),
        (4, 5, 1, 2, 1, 2),
    ] == places


def test_other_machines():
    """The server answers the machines of the ranks, and closes the connections of others."""
    server = RendezvousServer(2, "127.0.0.1", ["127.0.0.1", "127.0.0.3"])
    try:
        for source, is_answered in (("127.0.0.2", False), ("127.0.0.3", True)):
            with socket.create_connection(("127.0.0.1", server.port), 10.0, (source, 0)) as connection:
                connection.sendall(b"GET /global/0 HTTP/1.0\r\n\r\n")
                try:
                    answer = connection.recv(100)
                except ConnectionResetError:
                    answer = b""
                assert is_answered == (b"404" in answer)
    finally:
        server.stop()
